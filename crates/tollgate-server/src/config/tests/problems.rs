//! Refusals and warnings, with their words and places.

use super::*;
use crate::config::field::AppliesTo;
use crate::config::keys::KEYS;
use crate::config::value_type::Form;

#[test]
fn all_problems_are_reported_at_once_each_with_its_place() {
    let input = Input {
        file: "listen = 8550\n\n[lease]\nduraton = \"10s\"\nrenew_interval = 3\n\n[submitter]\n  window = 0\n",
        variables: &[("TOLLGATE_FINALITY", "soon"), ("TOLLGATE_WRITER_BATCH_MAX", "many")],
        flags: &["--mode", "fast"],
    };
    assert_eq!(
        input.problems(),
        [
            "tollgate.toml:1:10: listen: 8550 must be in quotes: listen = \"127.0.0.1:8550\"",
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
fn all_missing_files_are_reported_at_once() {
    let file = "[database]\nurl_file = \"/nowhere/url\"\n[keys]\n\
                private_key_files = [\"/nowhere/a\", \"/nowhere/b\"]\nkeystore = \"/nowhere/c\"\n\
                keystore_password_file = \"/nowhere/d\"\n[stuck.hook]\nurl = \"http://a/\"\n\
                secret_file = \"/nowhere/e\"\n";
    let reason = "there is no such file or folder";
    assert_eq!(
        from_file(file).problems(),
        [
            format!("tollgate.toml:2:12: database.url_file: /nowhere/url: {reason}"),
            format!("tollgate.toml:4:22: keys.private_key_files: /nowhere/a: {reason}"),
            format!("tollgate.toml:4:36: keys.private_key_files: /nowhere/b: {reason}"),
            format!("tollgate.toml:5:12: keys.keystore: /nowhere/c: {reason}"),
            format!("tollgate.toml:6:26: keys.keystore_password_file: /nowhere/d: {reason}"),
            format!("tollgate.toml:9:15: stuck.hook.secret_file: /nowhere/e: {reason}"),
        ]
    );
    // A command that uses the database only does not need the keys.
    let file = "[keys]\nprivate_key_files = [\"/nowhere/a\"]\n";
    assert!(from_file(file).load(Purpose::Database).is_ok());
}

#[test]
fn folder_that_others_can_enter_is_advised_mode_700_and_a_file_600() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    std::fs::write(&file, "").unwrap();
    for (path, mode, advised) in [(folder.path(), 0o755, 700), (&file, 0o644, 600)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let url = format!("sqlite:{}", path.display());
        let loaded = from_variables(&[("TOLLGATE_DATABASE_URL", &url)]).loaded();
        let expected = format!("(mode {mode:04o}): chmod {advised} {}", path.display());
        let warnings = loaded.warnings();
        assert!(warnings.len() == 1 && warnings[0].ends_with(&expected), "{warnings:?}");
    }
}

#[test]
fn keystore_and_archive_that_others_can_enter_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (keystore, archive) = (folder.path().join("keystore"), folder.path().join("archive"));
    let password = folder.path().join("password");
    std::fs::write(&password, "x").unwrap();
    for path in [&keystore, &archive] {
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o750)).unwrap();
    }
    std::fs::write(keystore.join("key.json"), "{}").unwrap();
    for (file, mode) in [(keystore.join("key.json"), 0o604), (password.clone(), 0o644)] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let [keystore, archive, password] =
        [keystore, archive, password].map(|p| p.display().to_string());
    let file = format!(
        "[keys]\nkeystore = \"{keystore}\"\nkeystore_password_file = \"{password}\"\n\
         [retention]\nfinished_after = \"90d\"\nmode = \"archive\"\narchive_dir = \"{archive}\"\n"
    );
    let loaded = from_file(&file).load(Purpose::Database).unwrap();
    let expected = [
        format!("(mode 0750): chmod 700 {archive}"),
        format!("(mode 0750): chmod 700 {keystore}"),
        format!("(mode 0604): chmod 600 {keystore}/key.json"),
        format!("(mode 0644): chmod 600 {password}"),
    ];
    let warnings = loaded.warnings();
    for end in &expected {
        assert!(warnings.iter().any(|line| line.ends_with(end)), "{end}: {warnings:?}");
    }
}

#[test]
fn file_that_is_not_toml_is_refused_with_line_and_column() {
    let problems = from_file("[lease\nduration = \"10s\"\n\n[chain]\nid = = 1\n").problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("tollgate.toml:1:7: "), "{problems:?}");
    assert!(problems[1].starts_with("tollgate.toml:5:6: "), "{problems:?}");
    let twice = from_file("listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n").problems();
    assert!(twice[0].starts_with("tollgate.toml:2:1: duplicate key"), "{twice:?}");
}

#[test]
fn unknown_name_comes_with_a_suggestion() {
    for (file, expected) in [
        ("mode = \"strict\"", "mode: unknown; did you mean submitter.mode?"),
        ("[log]\nlevel = \"info\"", "log.level: unknown; [log] has format"),
        (
            "[telemetry]\nurl = \"x\"",
            "telemetry: unknown; `tollgate config example` shows all settings",
        ),
        ("lease = \"10s\"", "lease: is a section: write [lease] and its settings below"),
        (
            "[finality]\nconfirmations = 3",
            "finality: is a value, not a section: finality = \"confirmations:20\"",
        ),
    ] {
        let problems = from_file(file).problems();
        assert!(problems.len() == 1 && problems[0].ends_with(expected), "{problems:?}: {expected}");
    }
}

#[test]
fn combination_that_can_not_work_is_refused() {
    for (file, expected) in [
        (
            "[lease]\nduration = \"5s\"",
            "tollgate.toml:2:12: lease.duration: lease.renew_interval (3s) must be below half of \
             lease.duration (5s), so that a lease survives one lost renewal",
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
            "[keys]\nkeystore = \".\"",
            "tollgate.toml:2:12: keys.keystore: needs a password: give --keystore-password-file or \
             TOLLGATE_KEYSTORE_PASSWORD",
        ),
        (
            "[keys]\nkeystore_password = \"x\"",
            "tollgate.toml:2:21: keys.keystore_password: needs keys.keystore, which is not given",
        ),
        (
            "[chain]\nrpc_urls = [{ url = \"http://a\", role = \"send_only\" }]",
            "tollgate.toml:2:12: chain.rpc_urls: every endpoint is send_only: the chain could not be read",
        ),
        (
            "[chain]\nrpc_urls = [\"http://a\", { url = \"http://b\", role = \"secret\" }]",
            "tollgate.toml:2:52: chain.rpc_urls: role \"secret\" must be full or send_only or read_only or \
             private",
        ),
        (
            "[chain]\nrpc_urls = [{ url = \"http://a\", role = \"read_only\" }, { url = \"http://b\", \
             role = \"private\" }]",
            "tollgate.toml:2:12: chain.rpc_urls: no endpoint takes public transactions: private ones take \
             private ones alone",
        ),
        (
            "[chain]\nprivate_rpc_urls = [{ url = \"http://a\", role = \"read_only\" }]",
            "tollgate.toml:2:20: chain.private_rpc_urls: every endpoint here is private: leave out role, or \
             move it to chain.rpc_urls",
        ),
        (
            "[[chains]]\nname = \"a\"\nid = 1\nrpc_urls = [\"http://a\"]\n[[chains]]\nname = \"b\"\n\
             id = 2\nrpc_urls = [{ url = \"http://b\", role = \"private\" }, \
             { url = \"http://b\", role = \"send_only\" }]",
            "tollgate.toml:1:1: chains: chain 2: no endpoint answers reads: send_only and private ones don't",
        ),
        (
            "[chain]\nrpc_urls = [\"http://a\", { url = \"http://b\", role = \"private\" }]\nfan_out = 2",
            "tollgate.toml:3:11: chain.fan_out: is 2, but only 1 endpoints take transactions",
        ),
        (
            "[chain]\nrpc_urls = [\"http://a\"]\nfan_out = 2",
            "tollgate.toml:3:11: chain.fan_out: is 2, but only 1 endpoints take transactions",
        ),
    ] {
        assert_eq!(from_file(file).problems(), [expected]);
    }
}

#[test]
fn refused_value_is_not_compared_with_others() {
    // The default of `lease.duration`, 10s, would be too short for this interval.
    let file = "[lease]\nduration = \"60\"\nrenew_interval = \"20s\"\n";
    let problems = from_file(file).problems();
    assert!(problems.len() == 1 && problems[0].contains("must be like 500ms"), "{problems:?}");
}

#[test]
fn setting_of_one_database_has_no_effect_with_the_other() {
    let mut seen = Vec::new();
    for key in KEYS.iter() {
        let (words, other) = match key.field.applies_to {
            AppliesTo::Any => continue,
            AppliesTo::Postgres => ("PostgreSQL only. ", "sqlite:t.db"),
            AppliesTo::Sqlite => ("SQLite only. ", "postgres://localhost/t"),
        };
        assert!(key.doc().starts_with(words), "{}", key.path);
        let value = if matches!(key.field.value_type.form, Form::Number) { "7" } else { "\"7s\"" };
        let file = format!("[database]\nurl = \"{other}\"\n{} = {value}\n", key.field.name);
        let warnings = from_file(&file).loaded().values.warnings;
        let expected = format!("{}: has no effect with this database.url", key.path);
        assert!(warnings.len() == 1 && warnings[0].ends_with(&expected), "{warnings:?}");
        seen.push(key.field.name);
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[test]
fn retention_drops_nothing_unless_told_so_and_archives_only_into_a_folder() {
    let problems = |lines: &str| from_file(&format!("[retention]\n{lines}")).problems();
    let needs_mode = "tollgate.toml:2:18: retention.finished_after: needs retention.mode: archive, \
                      with retention.archive_dir, or drop";
    assert_eq!(problems("finished_after = \"90d\"\n"), [needs_mode]);
    assert_eq!(problems("finished_after = \"90d\"\narchive_dir = \"a\"\n"), [needs_mode]);
    assert_eq!(
        problems("finished_after = \"90d\"\nmode = \"archive\"\n"),
        ["tollgate.toml:3:8: retention.mode: archive needs retention.archive_dir"]
    );
    assert_eq!(
        problems("finished_after = \"90d\"\nmode = \"drop\"\narchive_dir = \"a\"\n"),
        ["tollgate.toml:4:15: retention.archive_dir: contradicts retention.mode, which is drop"]
    );
    assert_eq!(
        problems("finished_after = \"90d\"\nmode = \"drop\"\nrequest_ids = \"30d\"\n"),
        [
            "tollgate.toml:2:18: retention.finished_after: retention.finished_after (2160h) must not \
          be above retention.request_ids (720h)"
        ]
    );
    assert_eq!(
        problems("finished_after = \"40000d\"\nmode = \"drop\"\n"),
        ["tollgate.toml:2:18: retention.finished_after: \"40000d\" must be at most 36500d"]
    );
    let lines = "[retention]\nfinished_after = \"90d\"\nmode = \"drop\"\nrequest_ids = \"365d\"\n";
    assert!(from_file(lines).load(Purpose::Database).is_ok());
}

#[test]
fn url_of_a_link_local_address_is_refused_where_nobody_vouches_for_it() {
    let sink = |url: &str, more: &str| {
        format!("[[alerts.sinks]]\nname = \"a\"\ntype = \"slack\"\nurl = \"{url}\"\n{more}")
    };
    let words = "tollgate.toml:4:7: alerts.sinks: sink \"a\" url is a link-local address, where clouds serve \
                 the credentials of the machine: set its allow_link_local if the receiver is there";
    for url in ["http://169.254.169.254/latest", "http://[fe80::1]/"] {
        assert_eq!(from_file(&sink(url, "")).problems(), [words], "{url}");
    }
    let allowed = sink("http://169.254.0.7/", "allow_link_local = true\n");
    assert_eq!(from_file(&allowed).problems(), [""; 0]);
    assert_eq!(
        from_file("advertise_url = \"http://169.254.0.7:8550\"\n").problems(),
        [
            "tollgate.toml:1:17: advertise_url: is a link-local address, which other nodes never call: give a \
          name or another address"
        ]
    );
}

#[test]
fn secret_file_of_a_sink_is_read_within_limits_and_named_if_it_can_not_be() {
    let sink = "[[alerts.sinks]]\nname = \"a\"\ntype = \"webhook\"\nurl = \"http://a/\"\nsecret_file = \"FILE\"\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long");
    std::fs::write(&file, "a".repeat(65 * 1024)).unwrap();
    let shown = file.display().to_string();
    for (file, why) in
        [("/nowhere/a", "there is no such file or folder"), (&*shown, "longer than 65536 bytes")]
    {
        let expected =
            format!("tollgate.toml:5:15: alerts.sinks: sink \"a\" secret_file {file}: {why}");
        assert_eq!(from_file(&sink.replace("FILE", file)).problems(), [expected]);
    }
}

#[test]
fn receiver_of_events_at_a_private_address_is_refused_unless_it_is_allowed() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let webhook = |url: &str, more: &str| {
        format!("[events.webhook]\nsecret = \"{secret}\"\nurl = \"{url}\"\n{more}")
    };
    for url in
        ["http://127.0.0.1:9/", "http://10.0.0.7/", "http://169.254.169.254/", "http://[fc00::1]/"]
    {
        assert_eq!(
            from_file(&webhook(url, "")).problems(),
            [
                "tollgate.toml:3:7: events.webhook.url: is a private address: set events.webhook.allow_private if \
              the receiver is there"
            ],
            "{url}"
        );
        assert_eq!(from_file(&webhook(url, "allow_private = true\n")).problems(), [""; 0], "{url}");
    }
    assert_eq!(from_file(&webhook("https://203.0.113.9/", "")).problems(), [""; 0]);
}

const ACCOUNT: &str = "0x7070707070707070707070707070707070707070";
const PAYER: &str = "0x1010101010101010101010101010101010101010";

fn top_up(account: &str, more: &str) -> String {
    format!("[[topup]]\naccount = \"{account}\"\nfloor = \"1 ether\"\n{more}\n")
}

#[test]
fn top_up_that_pays_has_a_target_above_its_floor_and_a_cap() {
    let pays = |more: &str| {
        let problems = from_file(&top_up(ACCOUNT, more)).problems();
        let start = format!("tollgate.toml:1:1: topup: account {ACCOUNT}: ");
        problems
            .iter()
            .map(|it| it.strip_prefix(&start).unwrap_or(it).to_owned())
            .collect::<Vec<_>>()
    };
    let from = format!("from = \"{PAYER}\"\n");
    let good = format!("{from}target = \"2 ether\"\ndaily_cap = \"5 ether\"\nperiod = \"1d\"");
    assert_eq!(pays(&good), [""; 0]);
    assert_eq!(pays(""), [""; 0], "a floor alone");
    assert_eq!(pays(&from), ["from needs daily_cap", "from needs target"]);
    assert_eq!(pays("target = \"2 ether\""), ["target and daily_cap need from"]);
    assert_eq!(pays(&good.replace("2 ether", "1 ether")), ["target must be above floor"]);
    let nothing = pays(&good.replace("5 ether", "0 ether"));
    assert!(
        nothing.len() == 1 && nothing[0].contains("must be an amount above zero"),
        "{nothing:?}"
    );
    assert_eq!(pays(&good.replace(PAYER, ACCOUNT)), ["from is the account itself"]);
    let short = from_file(&top_up(ACCOUNT, &good.replace("1d", "9m"))).problems();
    assert!(
        short.len() == 1 && short[0].contains("period \"9m\" must be at least 10m"),
        "{short:?}"
    );
}

#[test]
fn top_ups_name_each_account_once_on_chains_that_are_served_and_never_in_a_circle() {
    let problems = |text: &str| from_file(text).problems();
    let twice = [top_up(ACCOUNT, ""), top_up(ACCOUNT, "chain = 1")].concat();
    let told = problems(&twice);
    assert_eq!(told, [format!("tollgate.toml:1:1: topup: account {ACCOUNT}: is given twice")]);
    let each = [top_up(ACCOUNT, "chain = 2"), top_up(ACCOUNT, "chain = 1")].concat();
    assert_eq!(problems(&each), [""; 0]);

    let chain =
        |id: u64| format!("[[chains]]\nname = \"c{id}\"\nid = {id}\nrpc_urls = [\"http://a\"]\n");
    let chains = [chain(1), chain(10)].concat();
    let missing = problems(&format!("{chains}{}", top_up(ACCOUNT, "")));
    assert!(missing[0].ends_with("chain is missing: the node serves several"), "{missing:?}");
    let unknown = problems(&format!("{chains}{}", top_up(ACCOUNT, "chain = 5")));
    assert!(unknown[0].ends_with("chain 5 is not among [[chains]]"), "{unknown:?}");
    assert_eq!(problems(&format!("{chains}{}", top_up(ACCOUNT, "chain = 10"))), [""; 0]);

    let pays =
        |from: &str| format!("from = \"{from}\"\ntarget = \"2 ether\"\ndaily_cap = \"5 ether\"");
    let circle = [top_up(ACCOUNT, &pays(PAYER)), top_up(PAYER, &pays(ACCOUNT))].concat();
    let told = problems(&circle);
    assert!(told.len() == 1 && told[0].contains("pays itself, perhaps through others"), "{told:?}");
    let third = "0x2020202020202020202020202020202020202020";
    let line = [top_up(ACCOUNT, &pays(PAYER)), top_up(PAYER, &pays(third))].concat();
    assert_eq!(problems(&line), [""; 0]);
}

/// I16: a payment that was removed would not count against the cap.
#[test]
fn top_ups_that_pay_refuse_a_retention_below_a_day() {
    let retention =
        |after: &str| format!("[retention]\nfinished_after = \"{after}\"\nmode = \"drop\"\n");
    let pays = "from = \"0x1010101010101010101010101010101010101010\"\ntarget = \"2 ether\"\n\
                daily_cap = \"5 ether\"";
    let told = from_file(&format!("{}{}", retention("23h"), top_up(ACCOUNT, pays))).problems();
    assert!(told.len() == 1 && told[0].contains("retention.finished_after: 23h"), "{told:?}");
    for good in [
        format!("{}{}", retention("1d"), top_up(ACCOUNT, pays)),
        format!("{}{}", retention("23h"), top_up(ACCOUNT, "")),
    ] {
        assert_eq!(from_file(&good).problems(), [""; 0]);
    }
}
