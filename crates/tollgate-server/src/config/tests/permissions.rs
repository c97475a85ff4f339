//! Warnings about files with secrets that other users can access.

use super::*;

/// A configuration file and a secret file, both readable by everybody.
struct OpenFiles {
    _folder: tempfile::TempDir,
    config: String,
    secret: String,
}

impl OpenFiles {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let secret = path("secret").display().to_string();
        for (name, text) in [
            ("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            ("t.toml", &config.replace("SECRET_FILE", &secret)),
        ] {
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let config = path("t.toml").display().to_string();
        Self { _folder: folder, config, secret }
    }

    /// True for each of the configuration file and the secret file that is warned about.
    fn warned(&self) -> (bool, bool) {
        let flags = Flags { config: Some(self.config.clone().into()), ..Flags::default() };
        let loaded = load_from(flags, std::iter::empty(), Purpose::Dev);
        let loaded = loaded.unwrap_or_else(|refused| panic!("{refused}"));
        let is_named = |file: &str| {
            let end = format!("(mode 0644): chmod 600 {file}");
            loaded.warnings().iter().any(|line| line.ends_with(&end))
        };
        (is_named(&self.config), is_named(&self.secret))
    }
}

#[test]
fn secrets_in_lists_of_tables_are_warned_about_like_others() {
    const SINK: &str = "[[alerts.sinks]]\nname = \"a\"\n";
    for (config, expected) in [
        ("type = \"webhook\"\nurl = \"http://a/\"\nsecret_file = \"SECRET_FILE\"", (false, true)),
        (
            "type = \"webhook\"\nurl = \"http://a/\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
            (true, false),
        ),
        ("type = \"pagerduty\"\nsecret = \"0123456789abcdef0123456789abcdef\"", (true, false)),
        // Whoever knows the URL of a chat's webhook can post to it.
        ("type = \"slack\"\nurl = \"https://hooks.slack.com/services/a\"", (true, false)),
    ] {
        assert_eq!(OpenFiles::new(&format!("{SINK}{config}\n")).warned(), expected, "{config}");
    }
    let inline = "[alerts]\nsinks = [{ name = \"a\", type = \"webhook\", url = \"http://a/\", \
                  secret_file = \"SECRET_FILE\" }]\n";
    assert_eq!(OpenFiles::new(inline).warned(), (false, true));
}

#[test]
fn password_in_a_url_makes_the_configuration_file_one_with_secrets() {
    for (config, expected) in [
        ("[database]\nurl = \"postgres://me:hunter2@db/t\"", true),
        ("[database]\nurl = \"postgres://me@db/t\"", false),
        ("[chain]\nrpc_urls = [\"https://me:hunter2@rpc.test\"]", true),
        ("[chain]\nrpc_urls = [{ url = \"https://me:hunter2@rpc.test\" }]", true),
        ("[chain]\nrpc_urls = [\"https://rpc.test/v1\"]", false),
        (
            "[[chains]]\nname = \"a\"\nid = 1\nrpc_urls = [{ url = \"https://me:hunter2@rpc.test\" }]",
            true,
        ),
    ] {
        assert_eq!(OpenFiles::new(config).warned(), (expected, false), "{config}");
    }
}

#[test]
fn configuration_file_that_only_names_a_secret_file_is_not_warned_about() {
    let hook = "[stuck.hook]\nurl = \"http://a/\"\nsecret_file = \"SECRET_FILE\"\n";
    assert_eq!(OpenFiles::new(hook).warned(), (false, true));
    let inline = hook.replace(
        "secret_file = \"SECRET_FILE\"",
        "secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
    );
    assert_eq!(OpenFiles::new(&inline).warned(), (true, false));
}

#[test]
fn folder_of_keys_and_the_keys_in_it_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("treasury");
    std::fs::write(&key, "0x01").unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&*key, 0o640)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let loaded = from_file(&format!("[keys]\nfolder = {:?}\n", folder.path())).loaded();
    for end in [
        format!("(mode 0755): chmod 700 {}", folder.path().display()),
        format!("(mode 0640): chmod 600 {}", key.display()),
    ] {
        let warnings = loaded.warnings();
        assert!(warnings.iter().any(|line| line.ends_with(&end)), "{end}: {warnings:?}");
    }
}
