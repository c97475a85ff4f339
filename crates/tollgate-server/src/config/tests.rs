//! The configuration as a whole: layers, places, rules between settings, documents.

mod governance;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use tollgate_engine::EngineOptions;
use tollgate_evm::chain::ChainConfig;
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_model::nonce::Mode;

use super::given::Place;
use super::keys::{Backend, KEYS, Preset};
use super::kind::Kind;
use super::*;

/// What a user wrote: a file's text, variables, flags.
#[derive(Default)]
struct Said<'a> {
    file: &'a str,
    variables: &'a [(&'a str, &'a str)],
    flags: &'a [&'a str],
}

impl Said<'_> {
    fn load(&self, purpose: Purpose) -> Result<Loaded, Refused> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        std::fs::write(&file, self.file).unwrap();
        // It may hold secrets, and a warning that others can read them is not what is looked at.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let command = NodeFlags::augment_args(Command::new("test"));
        let words = std::iter::once("test").chain(self.flags.iter().copied());
        let matches = command.try_get_matches_from(words).unwrap();
        let mut flags = NodeFlags::from_arg_matches(&matches).unwrap().into_flags();
        flags.config = Some(file);
        let variables = self.variables.iter();
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        load_from(flags, variables, purpose)
    }

    fn understood(&self) -> Loaded {
        self.load(Purpose::Dev).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// All that is wrong, with the file's own name in front of the line and column.
    fn refused(&self) -> Vec<String> {
        match self.load(Purpose::Dev) {
            Ok(_) => Vec::new(),
            Err(refused) => refused.problems.iter().map(named).collect(),
        }
    }
}

fn named(problem: &Problem) -> String {
    let mut problem = problem.clone();
    if let Place::File { file, .. } = &mut problem.place {
        let name = Path::new(&**file).file_name().unwrap().to_string_lossy().into_owned();
        *file = name.into();
    }
    problem.to_string()
}

fn value(loaded: &Loaded, name: &str) -> (String, &'static str) {
    let given = &loaded.values.given[name];
    (show::plainly(given), given.place.layer())
}

fn from_file(file: &str) -> Said<'_> {
    Said { file, ..Said::default() }
}

#[test]
fn flags_win_over_variables_over_the_file_over_the_defaults() {
    let file = "[submitter]\nwindow = 3\nmax_queued = 30\n[writer]\nbatch_max = 33\n";
    let variables = [("TOLLGATE_SUBMITTER_WINDOW", "4"), ("TOLLGATE_SUBMITTER_MAX_QUEUED", "40")];
    let loaded = Said { file, variables: &variables, flags: &["--window", "5"] }.understood();
    assert_eq!(value(&loaded, "submitter.window"), ("5".into(), "flag"));
    assert_eq!(value(&loaded, "submitter.max_queued"), ("40".into(), "env"));
    assert_eq!(value(&loaded, "writer.batch_max"), ("33".into(), "file"));
    assert_eq!(value(&loaded, "resubmit.interval"), ("30s".into(), "default"));
    let engine = &loaded.settings.engine;
    assert_eq!((engine.nonces.window, engine.queued_max, engine.batch_max), (5, 40, 33));
}

#[test]
fn the_table_has_the_defaults_of_the_code() {
    let Loaded { settings, .. } = Said::default().understood();
    assert_eq!(format!("{:?}", settings.engine), format!("{:?}", EngineOptions::default()));
    let times = |chain: &ChainConfig| {
        let waits = [chain.poll_interval, chain.read_deadline, chain.send_deadline];
        let others = [chain.send_patience, chain.lag_grace, chain.head_hold, chain.fee_cache];
        (waits, others, chain.fan_out, chain.chain_id, chain.overrides.clone())
    };
    assert_eq!(times(&settings.chain), times(&ChainConfig::new(Vec::new())));
    let url = "database.url = \"postgres://db/t\"";
    let crate::compose::Database::Postgres(options) = from_file(url).understood().settings.database
    else {
        panic!("not PostgreSQL")
    };
    let expected = tollgate_postgres::PgOptions::new("postgres://db/t");
    assert_eq!(format!("{options:?}"), format!("{expected:?}"));
    let endpoint = from_file("chain.rpc_urls = [\"http://a\"]").understood();
    let made = endpoint.settings.chain.endpoints[0].clone();
    let defaults = EndpointConfig::new("http://a");
    let limits = |config: &EndpointConfig| {
        (config.timeout, config.connect_timeout, config.concurrency, config.response_bytes_max)
    };
    assert_eq!(limits(&made), limits(&defaults));
    let named = endpoints::FIELDS.map(|(_, _, preset, _)| preset);
    assert_eq!(named, ["", "full", "5s", "3s", "32", "67108864"]);
}

#[test]
fn every_setting_can_be_given_by_variable_and_in_the_file() {
    for key in KEYS.iter().filter(|key| key.holds.is_none()) {
        let text = match key.preset {
            Preset::Value(value) => value,
            Preset::None | Preset::Found(_) => key.example,
        };
        let text = if key.kind.is_list() { text } else { text.trim_matches('"') };
        for name in key.variables() {
            let variables = [(name.as_str(), text)];
            let (values, problems) = gather(
                Flags::default(),
                variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))),
            );
            assert_eq!((problems, values.warnings), (vec![], vec![]), "{name}");
            assert_eq!(values.given[key.name].place, Place::Variable(name.clone()));
        }
        let line = file::example(key);
        let read = file::understand("t.toml", &format!("{}{line}", section_line(key.section())));
        assert_eq!(read.problems, [], "{line}");
        assert!(read.given.contains_key(key.name), "{line}");
    }
}

fn section_line(section: &str) -> String {
    if section.is_empty() { String::new() } else { format!("[{section}]\n") }
}

#[test]
fn all_that_is_wrong_is_told_at_once_each_with_its_place() {
    let said = Said {
        file: "listen = 8550\n\n[lease]\nduraton = \"10s\"\nrenew_interval = 3\n\n[submitter]\n  window = 0\n",
        variables: &[("TOLLGATE_FINALITY", "soon"), ("TOLLGATE_WRITER_BATCH_MAX", "many")],
        flags: &["--mode", "fast"],
    };
    assert_eq!(
        said.refused(),
        [
            "tollgate.toml:1:10: listen: 8550 must stand in quotes: listen = \"127.0.0.1:8550\"",
            "tollgate.toml:4:1: lease.duraton: unknown; did you mean lease.duration?",
            "tollgate.toml:5:18: lease.renew_interval: 3 must have a unit, like \"3s\"",
            "tollgate.toml:8:12: submitter.window: \"0\" must be a whole number from 1 to 100000",
            "TOLLGATE_FINALITY: \"soon\" must be confirmations:N (N from 1 to 3840), safe or finalized",
            "TOLLGATE_WRITER_BATCH_MAX: \"many\" must be a whole number from 1 to 5000",
            "--mode: \"fast\" must be pipelined or strict",
        ]
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_line_and_column() {
    let told = from_file("[lease\nduration = \"10s\"\n\n[chain]\nid = = 1\n").refused();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("tollgate.toml:1:7: "), "{told:?}");
    assert!(told[1].starts_with("tollgate.toml:5:6: "), "{told:?}");
    let twice = from_file("listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n").refused();
    assert!(twice[0].starts_with("tollgate.toml:2:1: duplicate key"), "{twice:?}");
}

#[test]
fn an_unknown_name_comes_with_advice() {
    for (file, told) in [
        ("mode = \"strict\"", "mode: unknown; did you mean submitter.mode?"),
        ("[log]\nlevel = \"info\"", "log.level: unknown; [log] has format"),
        (
            "[telemetry]\nurl = \"x\"",
            "telemetry: unknown; `tollgate config example` shows all that there is",
        ),
        ("lease = \"10s\"", "lease: is a section: write [lease] and what is in it below"),
        (
            "[finality]\nconfirmations = 3",
            "finality: is a value, not a section: finality = \"confirmations:20\"",
        ),
    ] {
        let refused = from_file(file).refused();
        assert!(refused.len() == 1 && refused[0].ends_with(told), "{refused:?} is not {told}");
    }
}

#[test]
fn combinations_that_can_not_be_are_refused() {
    for (file, told) in [
        (
            "[lease]\nduration = \"5s\"",
            "tollgate.toml:2:12: lease.duration: lease.renew_interval (3s) must be below half of \
             lease.duration (5s), so that a lease survives one renewal that is lost",
        ),
        (
            "[lease]\nclock_skew_allowance = \"10s\"",
            "tollgate.toml:2:24: lease.clock_skew_allowance: 10s must be below lease.duration (10s)",
        ),
        (
            "[chain]\nsend_deadline = \"1s\"",
            "tollgate.toml:2:17: chain.send_deadline: chain.send_patience (2s) must be below \
             chain.send_deadline (1s)",
        ),
        (
            "[keys]\nkeystore = \"k\"",
            "tollgate.toml:2:12: keys.keystore: needs a password: give --keystore-password-file or \
             TOLLGATE_KEYSTORE_PASSWORD",
        ),
        (
            "[keys]\nkeystore_password = \"x\"",
            "tollgate.toml:2:21: keys.keystore_password: there is no keystore that it is for",
        ),
        (
            "[chain]\nrpc_urls = [{ url = \"http://a\", role = \"send_only\" }]",
            "tollgate.toml:2:12: chain.rpc_urls: every endpoint is send_only: the chain could not be read",
        ),
        (
            "[chain]\nrpc_urls = [\"http://a\"]\nfan_out = 2",
            "tollgate.toml:3:11: chain.fan_out: is 2, but only 1 endpoints take transactions",
        ),
    ] {
        assert_eq!(from_file(file).refused(), [told]);
    }
}

#[test]
fn short_leases_need_no_word_about_skew() {
    let flags = ["--lease-duration", "1s", "--lease-renew-interval", "200ms"];
    let loaded = Said { flags: &flags, ..Said::default() }.understood();
    assert_eq!(value(&loaded, "lease.clock_skew_allowance"), ("500ms".into(), "default"));
}

#[test]
fn endpoints_are_urls_or_tables() {
    let file = "[chain]\nid = 5\nrpc_urls = [\n  \"https://u:p@a/key\",\n  { url = \"ws://b\", role = \
                \"read_only\", timeout = \"1s\", concurrency = 4 },\n]\n";
    let Loaded { settings, .. } = from_file(file).understood();
    let ends = &settings.chain.endpoints;
    assert_eq!((ends[0].url.as_str(), ends[0].role), ("https://u:p@a/key", Role::Full));
    assert_eq!((ends[1].role, ends[1].concurrency), (Role::ReadOnly, 4));
    assert_eq!(settings.chain.chain_id.map(|id| id.get()), Some(5));
    let list = "[\"http://a\", {url = \"http://b\", role = \"send_only\"}]";
    for (text, count) in [("http://a, http://b", 2), (list, 2), ("http://a", 1)] {
        let variables = [("TOLLGATE_RPC_URL", text)];
        let loaded = Said { variables: &variables, ..Said::default() }.understood();
        assert_eq!(loaded.settings.chain.endpoints.len(), count, "{text}");
    }
    let flags = ["--rpc-url", "http://a", "--rpc-url", "http://b"];
    assert_eq!(
        Said { flags: &flags, ..Said::default() }.understood().settings.chain.endpoints.len(),
        2
    );
    let bad = "chain.rpc_urls = [\"ftp://topsecret\", { role = \"both\", ur = \"x\" }, 5]";
    let told = from_file(bad).refused();
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(!told.concat().contains("topsecret"), "{told:?}");
    assert!(told.iter().any(|told| told.contains("ur is unknown; an endpoint has url, role")));
}

#[test]
fn a_chains_own_phrases_are_checked() {
    let good = "chain.answers = [{ phrase = \"taking a nap\", class = \"pool_full\" }]";
    assert_ne!(from_file(good).understood().settings.chain.overrides, Default::default());
    for bad in ["class = \"asleep\"", "klass = \"x\"", "class = \"accepted\""] {
        let file = format!("chain.answers = [{{ phrase = \"taking a nap\", {bad} }}]");
        assert_eq!(from_file(&file).refused().len(), 1, "{bad}");
    }
}

#[test]
fn a_secret_may_be_in_a_file_and_a_higher_layer_wins_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("url");
    std::fs::write(&secret, "postgres://me:hunter2@db/one\n").unwrap();
    let secret = secret.to_str().unwrap();
    let variables = [("TOLLGATE_DATABASE_URL_FILE", secret)];
    let loaded = Said { variables: &variables, ..Said::default() }.understood();
    assert_eq!(value(&loaded, "database.url"), ("postgres://me:hunter2@db/one".into(), "env"));
    let flags = ["--database-url", "sqlite:x.db"];
    let loaded = Said { variables: &variables, flags: &flags, ..Said::default() }.understood();
    assert_eq!(value(&loaded, "database.url"), ("sqlite:x.db".into(), "flag"));
    let both = [variables[0], ("TOLLGATE_DATABASE_URL", "sqlite:x.db")];
    let told = Said { variables: &both, ..Said::default() }.refused();
    assert_eq!(
        told,
        ["TOLLGATE_DATABASE_URL_FILE: database.url is given too, at TOLLGATE_DATABASE_URL"]
    );
    let missing = [("TOLLGATE_DATABASE_URL_FILE", "/nowhere/at/all")];
    let told = Said { variables: &missing, ..Said::default() }.refused();
    assert_eq!(
        told,
        ["TOLLGATE_DATABASE_URL_FILE: /nowhere/at/all: there is no such file or folder"]
    );
}

#[test]
fn nothing_that_is_shown_holds_a_secret() {
    let variables = [
        ("TOLLGATE_DATABASE_URL", "postgres://me:hunter2@db/t?password=hunter2"),
        ("TOLLGATE_RPC_URL", "https://u:hunter2@rpc.example.com/v3/hunter2?k=hunter2"),
        ("TOLLGATE_PRIVATE_KEYS", "hunter2,hunter2"),
        ("TOLLGATE_KEYSTORE", "folder"),
        ("TOLLGATE_KEYSTORE_PASSWORD", "hunter2"),
    ];
    let loaded = Said { variables: &variables, ..Said::default() }.understood();
    let page = report(&loaded);
    assert!(!page.contains("hunter2"), "{page}");
    assert!(page.contains("postgres://***@db/t") && page.contains("https://rpc.example.com/***"));
    assert!(!report_json(&Ok(loaded)).to_string().contains("hunter2"));
    let wrong = [("TOLLGATE_DATABASE_URL", "mysql://hunter2"), ("TOLLGATE_RPC_URL", "[hunter2")];
    let told = Said { variables: &wrong, ..Said::default() }.refused();
    assert!(told.len() == 2 && !told.concat().contains("hunter2"), "{told:?}");
}

#[test]
fn a_variable_that_is_not_known_is_told_and_two_names_must_agree() {
    let variables = [("TOLLGATE_LEASE_DURATON", "1s"), ("TOLLGATE_PORT", "tcp://10.0.0.1:80")];
    let loaded = Said { variables: &variables, ..Said::default() }.understood();
    let advice = "TOLLGATE_LEASE_DURATON is not known; did you mean TOLLGATE_LEASE_DURATION?";
    assert_eq!(loaded.warnings(), [advice, "TOLLGATE_PORT is not known"]);
    let agree = [("TOLLGATE_MODE", "strict"), ("TOLLGATE_SUBMITTER_MODE", "strict")];
    let loaded = Said { variables: &agree, ..Said::default() }.understood();
    assert_eq!(loaded.settings.engine.nonces.mode, Mode::Strict);
    let differ = [("TOLLGATE_MODE", "strict"), ("TOLLGATE_SUBMITTER_MODE", "pipelined")];
    let told = Said { variables: &differ, ..Said::default() }.refused();
    let expected =
        "TOLLGATE_SUBMITTER_MODE: says something else than TOLLGATE_MODE: set one of them";
    assert_eq!(told, [expected]);
    let empty = [("TOLLGATE_MODE", ""), ("TOLLGATE_WINDOW", "")];
    assert!(Said { variables: &empty, ..Said::default() }.refused().is_empty());
}

#[test]
fn fees_have_caps_by_default_and_who_switches_one_off_is_warned() {
    let by_default = Said::default().understood();
    let caps = by_default.settings.engine.fee_caps;
    assert!(caps.max_fee_per_gas.is_some() && caps.max_tx_fee.is_some(), "I16: {caps:?}");
    assert!(by_default.warnings().is_empty(), "{:?}", by_default.warnings());
    for name in ["max_fee_per_gas", "max_tx_fee"] {
        let loaded = from_file(&format!("[chain]\n{name} = \"unlimited\"\n")).understood();
        let warnings = loaded.warnings();
        let told = format!("chain.{name}: is switched off: ");
        assert!(warnings.len() == 1 && warnings[0].contains(&told), "{warnings:?}");
    }
    let low = from_file("[chain]\nmax_fee_per_gas = \"5 gwei\"\n").understood();
    let cap = low.settings.engine.fee_caps.max_fee_per_gas.unwrap();
    assert_eq!((cap.wei(), low.warnings().len()), (5_000_000_000, 0));
}

#[test]
fn what_has_no_effect_here_is_told() {
    let warnings = from_file("[database]\nconnections = 3\n").understood().values.warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].ends_with("database.connections: has no effect with this database.url"));
}

#[test]
fn every_setting_of_one_database_is_marked_and_has_no_effect_with_the_other() {
    let (postgres, sqlite) = ("postgres://localhost/t", "sqlite:t.db");
    for key in KEYS.iter() {
        let (word, other) = match key.only_with {
            Some(Backend::Postgres) => ("PostgreSQL: ", sqlite),
            Some(Backend::Sqlite) => ("SQLite: ", postgres),
            None => {
                let words = ["PostgreSQL:", "SQLite:"];
                let unmarked = words.iter().any(|word| key.about.starts_with(word));
                assert!(!unmarked, "{} says so in words alone", key.name);
                continue;
            }
        };
        assert!(key.about.starts_with(word), "{} does not say so to people", key.name);
        let number = matches!(key.kind, Kind::Number(..));
        let value = if number { "7" } else { "\"7s\"" };
        let file = format!("[database]\nurl = \"{other}\"\n{} = {value}\n", key.short());
        let warnings = from_file(&file).understood().values.warnings;
        let told = format!("{}: has no effect with this database.url", key.name);
        assert!(warnings.iter().any(|warning| warning.ends_with(&told)), "{warnings:?}");
    }
}

#[test]
fn the_example_is_the_defaults_and_whatever_it_offers_can_be_taken() {
    let by_default = Said::default().understood();
    let page = example();
    let loaded = from_file(&page).understood();
    for key in KEYS.iter() {
        let shown = |loaded: &Loaded| loaded.values.given.get(key.name).map(show::plainly);
        assert_eq!(shown(&loaded), shown(&by_default), "{}", key.name);
    }
    assert!(loaded.warnings().is_empty(), "{:?}", loaded.warnings());
    // With the comment signs taken off, names and kinds are still right.
    let offered = page.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if setting.split_once(" = ").is_some_and(|(name, _)| is_name(name)) => {
            setting
        }
        _ => line,
    });
    let offered: Vec<&str> = offered.collect();
    let read = file::understand("tollgate.toml", &offered.join("\n"));
    assert_eq!((read.problems, read.given.len()), (vec![], KEYS.len()));
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

#[test]
fn the_page_on_configuration_has_the_settings_of_the_code() {
    const BEGIN: &str = "<!-- settings -->\n";
    const END: &str = "<!-- /settings -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let tables = format!("\n{}\n", document::tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, tables, "run the test with UPDATE_DOCS=1 to write the page anew");
}

#[test]
fn no_two_settings_share_a_name_a_variable_or_a_flag() {
    let mut seen = std::collections::BTreeSet::new();
    for key in KEYS.iter() {
        assert!(seen.insert(key.name.to_owned()), "{}", key.name);
        assert!(key.flag.is_none_or(|flag| seen.insert(format!("--{flag}"))), "{}", key.name);
        for name in key.variables() {
            assert!(seen.insert(name.clone()), "{name}");
        }
        assert!(matches!(key.preset, Preset::Value(_)) || !key.example.is_empty(), "{}", key.name);
    }
}
