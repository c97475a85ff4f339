//! Private keys in the wrong place are not repeated, and files that others can read are named.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};
use tollgate_testkit::wait::until;

use crate::program::{Program, Ran, command, free_port, http_get};

fn key() -> String {
    dev_accounts()[7].private_key.to_string()
}

/// Runs a command that must end by itself, and returns all that it said.
fn said(command: &mut Command) -> String {
    let ran = Ran::of(command.stdin(Stdio::null()));
    ran.out + &ran.err
}

#[test]
fn private_key_in_a_wrong_place_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (with, key) = (key(), key());
    let bare = with.trim_start_matches("0x");
    let config = folder.path().join("t.toml");
    std::fs::write(&config, format!("[keys]\nprivate_key_files = [\"{with}\"]\n{bare}\n")).unwrap();
    let (config, nested) = (config.display().to_string(), format!("/run/secrets/{bare}"));
    let database = format!("sqlite:/nowhere/{with}");
    let serve = ["serve", "--no-auth", "--rpc-url", "http://127.0.0.1:1"];
    let check = ["config", "check", "--no-auth", "--rpc-url", "http://127.0.0.1:1"];
    let flags: [&[&str]; 13] = [
        &["--private-key-file", &key],
        &["--private-key-file", bare],
        &["--private-key-file", &nested],
        &["--keystore", &key, "--keystore-password-file", &key],
        &["--keystore-password-file", &key],
        &["--config", &key],
        &["--config", &config],
        &["--database-url", &database],
        &["--listen", &key],
        &["--node-name", &key],
        &["--finality", bare],
        &[bare],
        &["--privat-key", &key],
    ];
    for flags in flags {
        for base in [&serve[..], &check[..]] {
            let text = said(command().args(base).args(flags));
            assert!(!text.is_empty(), "{flags:?}");
            assert!(!text.contains(&bare[..20]), "{flags:?}: {text}");
        }
        let json = said(command().args(check).arg("--json").args(flags));
        assert!(!json.contains(&bare[..20]), "{flags:?}: {json}");
    }
    let groups: Vec<&str> = (0..16).map(|n| &bare[n * 4..][..4]).collect();
    let base64 = "rAl0vsOaF+NrpKa00jj/lEustHjL7V78rnhNe/Ty/4A=";
    for (key, part) in
        [(groups.join(" "), groups[5..7].join(" ")), (base64.into(), "jj/lEustH".into())]
    {
        for flag in ["--private-key-file", "--listen", "--finality", "--config", "--keystore"] {
            let text = said(command().args(serve).args([flag, &key]));
            assert!(!text.is_empty() && !text.contains(&part), "{flag}: {text}");
        }
    }
    for variable in [
        "TOLLGATE_PRIVATE_KEY_FILE",
        "TOLLGATE_KEYSTORE",
        "TOLLGATE_CONFIG",
        "TOLLGATE_DATABASE_URL_FILE",
        "TOLLGATE_LISTEN",
        "TOLLGATE_WINDOW",
    ] {
        let text = said(command().args(serve).env(variable, &key));
        assert!(!text.contains(&bare[..20]), "{variable}: {text}");
    }
    let url = format!("http://127.0.0.1:1/{bare}");
    let with_password = format!("http://user:{bare}@127.0.0.1:1/");
    for args in [
        vec!["tx", "get", &key, "--url", "http://127.0.0.1:1"],
        vec!["tx", "send", "--from", &key],
        vec!["submitter", "show", &key, "--url", "http://127.0.0.1:1"],
        vec!["tx", "list", "--url", &key],
        vec!["tx", "list", "--url", &url],
        vec!["completions", "--url", &with_password],
        vec!["bench", &key],
        vec!["devchain", bare],
        vec!["migrate", &key],
        vec!["openapi", bare],
        vec![bare],
    ] {
        let text = said(command().args(&args));
        assert!(!text.contains(&bare[..20]), "{args:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_others_can_read_are_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str, mode: u32| {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        path(name).display().to_string()
    };
    let (open, closed) = (write("open", &key(), 0o644), write("closed", &dev_key(1), 0o600));
    let database = write("t.db", "", 0o640);
    let config = format!("[keys]\nprivate_keys = [\"{}\"]\n", dev_key(2));
    let config = write("t.toml", &config, 0o644);
    let block_interval = Some(Duration::from_millis(100));
    let options = DevChainOptions { block_interval, ..Default::default() };
    let chain = DevChain::start(options).await.unwrap();
    let port = free_port();
    let program = Program::start(
        command()
            .args(["serve", "--no-auth", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--rpc-url", &chain.url(), "--database-url", &format!("sqlite:{database}")])
            .args(["--private-key-file", &open, "--private-key-file", &closed])
            .args(["--config", &config])
            .env("RUST_LOG", "warn"),
    );
    until("the API", || http_get(port, "/livez")).await;
    program.line_with(&format!("(mode 0644): chmod 600 {open}")).await;
    program.line_with(&format!("(mode 0644): chmod 600 {config}")).await;
    program.line_with(&format!("(mode 0640): chmod 600 {database}")).await;
    program.signal("KILL");
    let lines = program.end().lines;
    assert!(!lines.iter().any(|line| line.contains(&closed)), "{lines:?}");
}

fn dev_key(index: usize) -> String {
    dev_accounts()[index].private_key.to_string()
}

#[test]
fn new_database_file_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.db");
    let url = format!("sqlite:{}", file.display());
    said(command().args(["config", "check", "--database-url", &url]));
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert!(!file.exists(), "a check makes nothing");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = tollgate_sqlite::SqliteOptions::file(&file);
        tollgate_sqlite::migrate(&options).await.unwrap();
        let _store = tollgate_sqlite::SqliteStore::open(options).await.unwrap();
        for end in ["", "-wal", "-shm"] {
            let file = folder.path().join(format!("new.db{end}"));
            assert_eq!(mode(&file), 0o600, "{file:?}");
        }
    });
}
