//! The table of settings against its documents, and against the defaults of other crates.

use std::fmt::Write;
use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_evm::chain::ChainConfig;
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_server::ConnectionLimits;
use tollgate_sqlite::SqliteOptions;

use super::*;
use crate::config::keys::{KEYS, Key};
use crate::config::settings::SECTIONS;
use crate::config::value_type::Form;

#[test]
fn defaults_of_the_table_equal_those_of_the_crates() {
    let settings = Input::default().settings();
    let engine = settings.engine_options().unwrap();
    // An engine that is not a node's has nobody who looks at balances.
    let balance_interval = Some(Duration::from_secs(60));
    let expected = EngineOptions { balance_interval, ..EngineOptions::default() };
    assert_eq!(format!("{engine:?}"), format!("{expected:?}"));
    let times = |chain: &ChainConfig| {
        let waits = [chain.poll_interval, chain.read_deadline, chain.send_deadline];
        let others = [chain.send_patience, chain.lag_grace, chain.head_hold, chain.fee_cache];
        (waits, others, chain.fan_out, chain.chain_id, chain.overrides.clone())
    };
    assert_eq!(times(&settings.chain.chain_config()), times(&ChainConfig::new(Vec::new())));
    assert_eq!(settings.database.busy_timeout, SqliteOptions::file("t.db").busy_timeout);
    let limits = settings.http.connection_limits();
    assert_eq!(format!("{limits:?}"), format!("{:?}", ConnectionLimits::default()));
    let database = from_file("database.url = \"postgres://db/t\"").settings().database;
    let expected = tollgate_postgres::PgOptions::new("postgres://db/t");
    assert_eq!(format!("{:?}", crate::database::pg_options(&database)), format!("{expected:?}"));
    let chain = from_file("chain.rpc_urls = [\"http://a\"]").settings().chain;
    let limits = |config: &EndpointConfig| {
        let times = (config.timeout, config.connect_timeout);
        (config.role, times, config.concurrency, config.response_bytes_max)
    };
    assert_eq!(limits(&chain.rpc_urls[0]), limits(&EndpointConfig::new("http://a")));
}

#[test]
fn every_setting_can_be_given_by_variable_and_in_the_file() {
    for key in KEYS.iter().filter(|key| key.holds.is_none()) {
        let line = key.field.toml_line();
        let (_, value) = line.split_once(" = ").unwrap();
        let text = if key.field.value_type.is_list { value } else { value.trim_matches('"') };
        for name in &key.variables {
            let (values, problems) = gather(Flags::default(), os_strings(&[(name, text)]));
            assert_eq!((problems, values.warnings.clone()), (vec![], vec![]), "{name}");
            assert_eq!(values.source(key.path), Source::Variable(name.clone()));
        }
        let section = if key.section.is_empty() { "" } else { &format!("[{}]\n", key.section) };
        let read = file::parse("t.toml", &format!("{section}{line}"));
        assert_eq!(read.problems, [], "{}", key.path);
        assert!(read.layer.contains_key(key.path), "{}", key.path);
    }
}

#[test]
fn example_file_holds_the_defaults_and_offers_every_setting() {
    let defaults = Input::default().loaded();
    let page = example();
    let loaded = from_file(&page).loaded();
    for key in KEYS.iter() {
        let text = |loaded: &Loaded| loaded.values.get(key.path).map(redact::plain_text);
        assert_eq!(text(&loaded), text(&defaults), "{}", key.path);
    }
    assert!(loaded.warnings().is_empty(), "{:?}", loaded.warnings());
    // Without the comment signs every line is still a setting of the right form.
    let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let offered = page.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if setting.split_once(" = ").is_some_and(|(name, _)| is_name(name)) => {
            setting
        }
        _ => line,
    });
    let offered: Vec<&str> = offered.collect();
    let read = file::parse("tollgate.toml", &offered.join("\n"));
    assert_eq!((read.problems, read.layer.len()), (vec![], KEYS.len()));
}

#[test]
fn page_on_configuration_has_the_settings_of_the_table() {
    const BEGIN: &str = "<!-- settings -->\n";
    const END: &str = "<!-- /settings -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let tables = format!("\n{}\n", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, tables, "run the test with UPDATE_DOCS=1 to write the page again");
}

/// The tables of `docs/config.md`.
fn tables() -> String {
    let mut page = String::new();
    let mut section = None;
    for key in KEYS.iter() {
        if section != Some(key.section) {
            section = Some(key.section);
            let title = match key.section {
                "" => "## At the top".to_owned(),
                name => format!("## `[{name}]`"),
            };
            let space = if page.is_empty() { "" } else { "\n" };
            let header =
                "| key | type | default | variable | flag | meaning |\n|---|---|---|---|---|---|";
            let _ = write!(page, "{space}{title}\n\n{header}\n");
        }
        page.push_str(&row(key));
    }
    for key in KEYS.iter() {
        let Form::Table(fields) = key.field.value_type.form else { continue };
        let header = "| field | type | default | meaning |\n|---|---|---|---|";
        let _ = write!(page, "\n### An entry of `{}`\n\n{header}\n", key.path);
        for field in fields {
            let default = field.default.map_or_else(String::new, |text| format!("`{text}`"));
            let (name, words) = (field.name, field.type_words());
            let _ = writeln!(page, "| `{name}` | {words} | {default} | {} |", field.doc.trim());
        }
    }
    page
}

fn row(key: &Key) -> String {
    let default = key.field.default.map(|text| format!("`{text}`"));
    let derived = if key.field.derived.is_empty() { "none" } else { key.field.derived };
    let default = default.unwrap_or_else(|| derived.to_owned());
    let variables: Vec<String> = key.variables.iter().map(|name| format!("`{name}`")).collect();
    let variables = variables.join(", ");
    let flag = key.field.flag;
    let flag = if flag.is_empty() { String::new() } else { format!("`--{flag}`") };
    let (name, words, doc) = (key.path, key.field.type_words(), key.doc());
    format!("| `{name}` | {words} | {default} | {variables} | {flag} | {doc} |\n")
}

#[test]
fn no_two_settings_share_a_name_a_variable_or_a_flag() {
    let mut seen = std::collections::BTreeSet::new();
    for key in KEYS.iter() {
        assert!(seen.insert(key.path.to_owned()), "{}", key.path);
        let flag = key.field.flag;
        assert!(flag.is_empty() || seen.insert(format!("--{flag}")), "{}", key.path);
        for name in &key.variables {
            assert!(seen.insert(name.clone()), "{name}");
        }
        assert!(!key.field.toml_line().ends_with("= "), "{} needs an example", key.path);
    }
}

#[test]
fn every_setting_has_a_documentation_that_is_a_sentence() {
    let fields = SECTIONS.iter().flat_map(|(_, fields)| *fields);
    for field in fields.flat_map(|field| [field].into_iter().chain(field.value_type.fields())) {
        let doc = field.doc.trim();
        assert!(doc.ends_with('.') && doc.starts_with(char::is_uppercase), "{}: {doc}", field.name);
        assert!(!doc.contains("  "), "{}: {doc}", field.name);
    }
}

#[test]
fn settings_that_pages_show_are_accepted() {
    let pages = [
        include_str!("../../../../../docs/chains.md"),
        include_str!("../../../../../docs/private-routing.md"),
        include_str!("../../../../../docs/operations/postgres.md"),
        include_str!("../../../../../docs/operations/retention.md"),
        include_str!("../../../../../docs/operations/top-up.md"),
    ];
    for page in pages {
        let blocks = page.split("```toml\n").skip(1);
        let blocks: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
        assert!(!blocks.is_empty());
        for block in blocks {
            // Their files and folders are the reader's.
            let is_real = |problem: &String| !problem.contains("there is no such file or folder");
            let problems: Vec<_> =
                from_file(block).problems().into_iter().filter(is_real).collect();
            assert_eq!(problems, [""; 0], "{block}");
        }
    }
}
