//! Precedence of sources, lists, files that hold a secret.

use tollgate_evm::endpoint::Role;
use tollgate_model::nonce::Mode;

use super::*;

#[test]
fn flag_overrides_variable_overrides_file_overrides_default() {
    let file = "[submitter]\nwindow = 3\nmax_queued = 30\n[writer]\nbatch_max = 33\n";
    let variables = [("TOLLGATE_SUBMITTER_WINDOW", "4"), ("TOLLGATE_SUBMITTER_MAX_QUEUED", "40")];
    let loaded = Input { file, variables: &variables, flags: &["--window", "5"] }.loaded();
    assert_eq!(shown(&loaded, "submitter.window"), ("5".into(), "flag"));
    assert_eq!(shown(&loaded, "submitter.max_queued"), ("40".into(), "env"));
    assert_eq!(shown(&loaded, "writer.batch_max"), ("33".into(), "file"));
    assert_eq!(shown(&loaded, "resubmit.interval"), ("30s".into(), "default"));
    let engine = loaded.settings.engine_options().unwrap();
    assert_eq!((engine.nonces.window, engine.queued_max, engine.batch_max), (5, 40, 33));
}

#[test]
fn clock_skew_allowance_of_a_short_lease_is_derived() {
    let loaded =
        from_flags(&["--lease-duration", "1s", "--lease-renew-interval", "200ms"]).loaded();
    assert_eq!(shown(&loaded, "lease.clock_skew_allowance"), ("500ms".into(), "default"));
}

#[test]
fn endpoint_is_a_url_or_a_table() {
    let file = "[chain]\nid = 5\nrpc_urls = [\n  \"https://u:p@a/key\",\n  { url = \"ws://b\", role = \
                \"read_only\", timeout = \"1s\", concurrency = 4 },\n]\n";
    let chain = from_file(file).settings().chain.chain_config();
    let ends = &chain.endpoints;
    assert_eq!((ends[0].url.as_str(), ends[0].role), ("https://u:p@a/key", Role::Full));
    assert_eq!((ends[1].role, ends[1].concurrency), (Role::ReadOnly, 4));
    assert_eq!(chain.chain_id.map(|id| id.get()), Some(5));
    let list = "[\"http://a\", {url = \"http://b\", role = \"send_only\"}]";
    for (text, count) in [("http://a, http://b", 2), (list, 2), ("http://a", 1)] {
        let settings = from_variables(&[("TOLLGATE_RPC_URL", text)]).settings();
        assert_eq!(settings.chain.rpc_urls.len(), count, "{text}");
    }
    let flags = ["--rpc-url", "http://a", "--rpc-url", "http://b"];
    assert_eq!(from_flags(&flags).settings().chain.rpc_urls.len(), 2);
    let bad = "chain.rpc_urls = [\"ftp://topsecret\", { role = \"both\", ur = \"x\" }, 5]";
    let problems = from_file(bad).problems();
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert!(!problems.concat().contains("topsecret"), "{problems:?}");
    let unknown = "ur is unknown; an endpoint has url, role";
    assert!(problems.iter().any(|problem| problem.contains(unknown)), "{problems:?}");
    let many = vec!["\"http://a\""; 65].join(", ");
    let problems = from_file(&format!("chain.rpc_urls = [{many}]")).problems();
    assert!(problems[0].ends_with("65 entries are more than 64"), "{problems:?}");
}

#[test]
fn phrase_of_a_send_answer_is_checked() {
    let good = "chain.answers = [{ phrase = \"taking a nap\", class = \"pool_full\" }]";
    assert_ne!(from_file(good).settings().chain.chain_config().overrides, Default::default());
    for (bad, count) in
        [("class = \"asleep\"", 1), ("klass = \"x\"", 2), ("class = \"accepted\"", 1)]
    {
        let file = format!("chain.answers = [{{ phrase = \"taking a nap\", {bad} }}]");
        assert_eq!(from_file(&file).problems().len(), count, "{bad}");
    }
}

#[test]
fn secret_file_is_read_unless_a_higher_layer_gives_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("url");
    std::fs::write(&secret, "postgres://me:hunter2@db/one\n").unwrap();
    let secret = secret.to_str().unwrap();
    let variables = [("TOLLGATE_DATABASE_URL_FILE", secret)];
    let loaded = from_variables(&variables).loaded();
    assert_eq!(shown(&loaded, "database.url"), ("postgres://me:hunter2@db/one".into(), "env"));
    let flags = ["--database-url", "sqlite:x.db"];
    let loaded = Input { variables: &variables, flags: &flags, ..Input::default() }.loaded();
    assert_eq!(shown(&loaded, "database.url"), ("sqlite:x.db".into(), "flag"));
    let both = [variables[0], ("TOLLGATE_DATABASE_URL", "sqlite:x.db")];
    assert_eq!(
        from_variables(&both).problems(),
        ["TOLLGATE_DATABASE_URL_FILE: database.url is given too, at TOLLGATE_DATABASE_URL"]
    );
    let missing = [("TOLLGATE_DATABASE_URL_FILE", "/nowhere/at/all")];
    assert_eq!(
        from_variables(&missing).problems(),
        ["TOLLGATE_DATABASE_URL_FILE: /nowhere/at/all: there is no such file or folder"]
    );
}

#[test]
fn reports_and_problems_hold_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("TOLLGATE_DATABASE_URL", "postgres://me:hunter2@db/t?password=hunter2"),
        ("TOLLGATE_RPC_URL", "https://u:hunter2@rpc.example.com/v3/hunter2?k=hunter2"),
        ("TOLLGATE_PRIVATE_KEYS", "hunter2,hunter2"),
        ("TOLLGATE_KEYSTORE", folder.path().to_str().unwrap()),
        ("TOLLGATE_KEYSTORE_PASSWORD", "hunter2"),
    ];
    let loaded = from_variables(&variables).loaded();
    let page = report(&loaded);
    assert!(!page.contains("hunter2"), "{page}");
    assert!(page.contains("postgres://***@db/t") && page.contains("https://rpc.example.com/***"));
    assert!(!report_json(&Ok(loaded)).to_string().contains("hunter2"));
    let table = "[{ url = \"https://rpc.example.com/hunter2\", role = \"full\" }]";
    let page = report(&from_variables(&[("TOLLGATE_RPC_URL", table)]).loaded());
    assert!(!page.contains("hunter2"), "{page}");
    assert!(page.contains("{ role = full, url = https://rpc.example.com/*** }"), "{page}");
    let wrong = [("TOLLGATE_DATABASE_URL", "mysql://hunter2"), ("TOLLGATE_RPC_URL", "[hunter2")];
    let problems = from_variables(&wrong).problems();
    assert!(problems.len() == 2 && !problems.concat().contains("hunter2"), "{problems:?}");
}

#[test]
fn unknown_variable_is_warned_about_and_two_names_of_a_setting_must_agree() {
    let variables = [("TOLLGATE_LEASE_DURATON", "1s"), ("TOLLGATE_PORT", "tcp://10.0.0.1:80")];
    let loaded = from_variables(&variables).loaded();
    let suggestion = "TOLLGATE_LEASE_DURATON is not known; did you mean TOLLGATE_LEASE_DURATION?";
    assert_eq!(loaded.warnings(), [suggestion, "TOLLGATE_PORT is not known"]);
    let agree = [("TOLLGATE_MODE", "strict"), ("TOLLGATE_SUBMITTER_MODE", "strict")];
    assert_eq!(from_variables(&agree).settings().submitter.mode, Mode::Strict);
    let differ = [("TOLLGATE_MODE", "strict"), ("TOLLGATE_SUBMITTER_MODE", "pipelined")];
    assert_eq!(
        from_variables(&differ).problems(),
        ["TOLLGATE_SUBMITTER_MODE: differs from TOLLGATE_MODE: set one of them"]
    );
    let empty = [("TOLLGATE_MODE", ""), ("TOLLGATE_WINDOW", "")];
    assert!(from_variables(&empty).problems().is_empty());
}

#[test]
fn fee_caps_exist_by_default_and_turning_one_off_is_warned_about() {
    let defaults = Input::default().loaded();
    let caps = defaults.settings.engine_options().unwrap().fee_caps;
    assert!(caps.max_fee_per_gas.is_some() && caps.max_tx_fee.is_some(), "I16: {caps:?}");
    assert!(defaults.warnings().is_empty(), "{:?}", defaults.warnings());
    for name in ["max_fee_per_gas", "max_tx_fee"] {
        let loaded = from_file(&format!("[chain]\n{name} = \"unlimited\"\n")).loaded();
        let warnings = loaded.warnings();
        let expected = format!("chain.{name}: is turned off: ");
        assert!(warnings.len() == 1 && warnings[0].contains(&expected), "{warnings:?}");
    }
    let low = from_file("[chain]\nmax_fee_per_gas = \"5 gwei\"\n").loaded();
    let cap = low.settings.engine_options().unwrap().fee_caps.max_fee_per_gas.unwrap();
    assert_eq!((cap.wei(), low.warnings().len()), (5_000_000_000, 0));
}
