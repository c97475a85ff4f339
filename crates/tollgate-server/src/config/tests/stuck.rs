//! Settings for transactions that make no progress.

use std::time::Duration;

use tollgate_engine::ReservationLimits;
use tollgate_hook::HookOptions;
use tollgate_model::bump::{BumpRules, ClosingPrice};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn defaults_of_policies_and_of_disabled_features_equal_those_of_the_crates() {
    let settings = Input::default().settings();
    assert_eq!(settings.bump_rules(), BumpRules::default());
    assert_eq!(settings.stuck.rules, StuckRules::default());
    assert!(settings.hook_options().unwrap().is_none());
    let file = format!(
        "[reservations]\nenabled = true\n[mempool.diagnose]\nenabled = true\n\
         [stuck.hook]\nurl = \"http://a/\"\nsecret = \"{SECRET}\"\n"
    );
    let settings = from_file(&file).settings();
    let engine = settings.engine_options().unwrap();
    assert_eq!(engine.reservations, Some(ReservationLimits::default()));
    assert_eq!(engine.diagnose, Some(seconds(15)));
    let secret = tollgate_hook::HookSecret::parse(SECRET).unwrap();
    let expected = HookOptions::new("http://a/", secret).unwrap();
    assert_eq!(format!("{:?}", settings.hook_options().unwrap()), format!("{:?}", Some(expected)));
}

#[test]
fn every_setting_reaches_the_options() {
    let file = r#"
        [resubmit]
        interval = "1s"
        interval_max = "2s"
        backoff_percent = 300
        jitter_percent = 4
        max_attempts = 5
        [timeout]
        transaction = "6s"
        [grey_zone]
        timeout = "7s"
        lookback_blocks = 8
        [gasbump]
        enabled = true
        multiplier = 1.25
        replacement_percent = 9
        min_interval = "10s"
        max_attempts = 11
        [cancel]
        may_exceed_cap = true
        [mempool.diagnose]
        enabled = true
        interval = "12s"
        [stuck]
        head_after = "13s"
        backlog_depth = 14
        backlog_age = "15s"
        ask_interval = "16s"
        rejected_slot = "recycle"
        [stuck.hook]
        url = "https://hooks.example.com/stuck"
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        timeout = "21s"
        retries = 3
        [reconcile]
        interval = "17s"
        [reservations]
        enabled = true
        hold = "18s"
        hold_max = "19s"
        max_outstanding = 20
        [private]
        resend_interval = "21s"
        stuck_after = "22s"
    "#;
    let loaded = from_file(file).loaded();
    assert_eq!(loaded.warnings(), [""; 0]);
    let settings = loaded.settings;
    let engine = settings.engine_options().unwrap();
    assert_eq!(
        engine.resubmit,
        ResubmitRules {
            interval: seconds(1),
            interval_max: seconds(2),
            backoff_percent: 300,
            jitter_percent: 4,
            max_attempts: 5,
            timeout: Some(seconds(6)),
            grey_zone_timeout: seconds(7),
            private_interval: seconds(21),
            private_stuck_after: seconds(22),
        }
    );
    assert_eq!((engine.lookback_blocks, engine.diagnose), (8, Some(seconds(12))));
    assert_eq!(
        settings.bump_rules(),
        BumpRules {
            enabled: true,
            multiplier_permille: 1_250,
            replacement_percent: 9,
            min_interval: seconds(10),
            max_attempts: 11,
        }
    );
    assert_eq!((engine.stuck.head_after, engine.stuck.ask_interval), (seconds(13), seconds(16)));
    assert_eq!(
        (engine.stuck.backlog_depth, engine.stuck.backlog_age),
        (Some(14), Some(seconds(15)))
    );
    assert_eq!(engine.rejected_slot, RejectedSlot::Recycle);
    assert_eq!(engine.closing_price, ClosingPrice::MayExceedCallersCap);
    assert_eq!(engine.reconcile_interval, seconds(17));
    let limits =
        ReservationLimits { hold: seconds(18), hold_max: seconds(19), outstanding_max: 20 };
    assert_eq!(engine.reservations, Some(limits));
    let hook = format!("{:?}", settings.hook_options().unwrap().unwrap());
    assert!(hook.contains("hooks.example.com"), "{hook}");
    assert!(hook.contains("timeout: 21s, retries: 3"), "{hook}");
}

#[test]
fn flag_or_variable_without_its_section_enables_a_feature() {
    let variables = [("TOLLGATE_GASBUMP", "true"), ("TOLLGATE_DIAGNOSE", "true")];
    for input in [from_flags(&["--gasbump", "--diagnose"]), from_variables(&variables)] {
        let settings = input.settings();
        assert!(settings.bump_rules().enabled);
        assert!(settings.engine_options().unwrap().diagnose.is_some());
    }
}

#[test]
fn zero_turns_a_backlog_threshold_off() {
    let file = "[stuck]\nbacklog_depth = 0\nbacklog_age = \"0s\"\n";
    let stuck = from_file(file).settings().engine_options().unwrap().stuck;
    assert_eq!((stuck.backlog_depth, stuck.backlog_age), (None, None));
}

#[test]
fn longest_pause_is_derived_from_a_longer_first_one() {
    let loaded = from_flags(&["--resubmit-interval", "10m"]).loaded();
    assert_eq!(shown(&loaded, "resubmit.interval_max"), ("10m".into(), "default"));
    let engine = loaded.settings.engine_options().unwrap();
    assert_eq!(engine.resubmit.interval_max, seconds(600));
}

#[test]
fn rules_are_read_from_tables_and_from_a_variable() {
    let file = "[[stuck.rules]]\nreason = \"expired\"\nage_at_least_seconds = 1_000\n\
                depth_at_least = 2\nattempts_at_least = 3\naction = \"cancel\"\n\n\
                [[stuck.rules]]\ntrigger = \"head_stuck\"\ndiagnosis = \"probably_lost\"\n\
                last_answer = \"unknown\"\naction = \"resubmit\"\n";
    let first = RuleSpec {
        reason: Some("expired".to_owned()),
        age_at_least_seconds: Some(1_000),
        depth_at_least: Some(2),
        attempts_at_least: Some(3),
        action: "cancel".to_owned(),
        ..RuleSpec::default()
    };
    let second = RuleSpec {
        trigger: Some("head_stuck".to_owned()),
        diagnosis: Some("probably_lost".to_owned()),
        last_answer: Some("unknown".to_owned()),
        action: "resubmit".to_owned(),
        ..RuleSpec::default()
    };
    let both = StuckRules::parse(&[first.clone(), second]).unwrap();
    assert_eq!(from_file(file).settings().stuck.rules, both);
    let list = "[{reason = \"expired\", age_at_least_seconds = 1000, depth_at_least = 2, \
                attempts_at_least = 3, action = \"cancel\"}]";
    let variables = [("TOLLGATE_STUCK_RULES", list)];
    let one = StuckRules::parse(&[first]).unwrap();
    assert_eq!(from_variables(&variables).settings().stuck.rules, one);
}

#[test]
fn bad_rule_is_refused_with_its_place() {
    let file = "[[stuck.rules]]\nreason = \"dead\"\naction = \"cancel\"\n\n\
                [[stuck.rules]]\naction = \"cancel\"\n\n\
                [[stuck.rules]]\nage = 3\naction = \"noop\"\n\n\
                [[stuck.rules]]\nattempts_at_least = \"three\"\naction = \"noop\"\n\n\
                [[stuck.rules]]\ntrigger = \"head_stuck\"\n";
    let problems = from_file(file).problems();
    assert_eq!(problems.len(), 5, "{problems:#?}");
    for (problem, expected) in problems.iter().zip([
        "tollgate.toml:2:10: stuck.rules: rule 1: reason: \"dead\" is none of timed_out, ",
        "tollgate.toml:6:10: stuck.rules: rule 2: action: cancel needs a condition",
        "tollgate.toml:9:1: stuck.rules: age is unknown; a rule has trigger, reason, ",
        "tollgate.toml:13:21: stuck.rules: attempts_at_least \"three\" must be a whole number",
        "tollgate.toml:16:1: stuck.rules: a rule needs an action",
    ]) {
        assert!(problem.starts_with(expected), "{problem} is not {expected}");
    }
    let many = "[[stuck.rules]]\naction = \"noop\"\n".repeat(StuckRules::MAX + 1);
    assert!(from_file(&many).problems()[0].ends_with("101 rules are more than 100"));
    let bare = from_file("stuck.rules = [\"cancel\"]").problems();
    assert!(bare[0].contains("a rule is a table like"), "{bare:?}");
}

#[test]
fn combination_that_can_not_work_is_refused() {
    for (file, expected) in [
        (
            "[resubmit]\ninterval = \"10s\"\ninterval_max = \"5s\"",
            "tollgate.toml:2:12: resubmit.interval: resubmit.interval (10s) must not be above \
             resubmit.interval_max (5s)",
        ),
        (
            "[resubmit]\ninterval_max = \"5s\"",
            "tollgate.toml:2:16: resubmit.interval_max: resubmit.interval (30s) must not be above \
             resubmit.interval_max (5s)",
        ),
        (
            "[reservations]\nenabled = true\nhold = \"2h\"",
            "tollgate.toml:3:8: reservations.hold: reservations.hold (2h) must not be above \
             reservations.hold_max (1h)",
        ),
        (
            "[submitter]\nmode = \"strict\"\n[stuck]\nrejected_slot = \"recycle\"",
            "tollgate.toml:4:17: stuck.rejected_slot: stuck.rejected_slot recycle is not allowed \
             with submitter.mode strict: a slot that is given to a second transaction is not strict",
        ),
        (
            "[submitter]\nstrict = [\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]\n[stuck]\n\
             rejected_slot = \"recycle\"",
            "tollgate.toml:4:17: stuck.rejected_slot: stuck.rejected_slot recycle is not allowed \
             with submitter.strict: a slot that is given to a second transaction is not strict",
        ),
        (
            "[gasbump]\nmin_interval = \"0s\"",
            "tollgate.toml:2:16: gasbump.min_interval: \"0s\" must be at least 100ms",
        ),
        (
            "[gasbump]\nmultiplier = 1",
            "tollgate.toml:2:14: gasbump.multiplier: \"1\" must be a number like 1.125: above 1, at \
             most 10, three decimals",
        ),
        (
            "[resubmit]\nmax_attempts = 1.5",
            "tollgate.toml:2:16: resubmit.max_attempts: must not be a fraction: max_attempts = 20",
        ),
        (
            "[[topup]]\naccount = \"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\"\nfloor = 0.1",
            "tollgate.toml:3:9: topup: floor 0.1 must be in quotes: floor = \"0.1 ether\"",
        ),
        (
            "[stuck.hook]\nurl = \"https://hooks.example.com\"",
            "tollgate.toml:2:7: stuck.hook.url: needs a secret: give stuck.hook.secret_file or \
             TOLLGATE_STUCK_HOOK_SECRET",
        ),
        (
            "[stuck.hook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
            "tollgate.toml:2:10: stuck.hook.secret: needs stuck.hook.url, which is not given",
        ),
        (
            "[stuck.hook]\nurl = \"ftp://hunter2\"\nsecret = \"hunter2\"",
            "tollgate.toml:2:7: stuck.hook.url: must be a URL that starts with http:// or https://\n\
             tollgate.toml:3:10: stuck.hook.secret: must be whsec_ and base64",
        ),
    ] {
        assert_eq!(from_file(file).problems().join("\n"), expected);
    }
}

#[test]
fn hook_secret_from_a_file_is_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let variables = [
        ("TOLLGATE_STUCK_HOOK_URL", "https://hooks.example.com/in/hunter2?key=hunter2"),
        ("TOLLGATE_STUCK_HOOK_SECRET_FILE", secret.to_str().unwrap()),
    ];
    let loaded = from_variables(&variables).loaded();
    let hook = loaded.settings.hook_options().unwrap();
    assert!(hook.is_some());
    let pages = format!("{} {hook:?}", report(&loaded));
    let pages = format!("{pages} {}", report_json(&Ok(loaded)));
    assert!(pages.contains("https://hooks.example.com/***"), "{pages}");
    assert!(!pages.contains("hunter2") && !pages.contains("MfKQ9r8G"), "{pages}");
}

#[test]
fn setting_without_effect_is_warned_about() {
    let file = "[gasbump]\nmin_interval = \"5s\"\nmultiplier = 1.05\n\
                [mempool.diagnose]\ninterval = \"5s\"\n[reservations]\nhold = \"5s\"\n\
                [stuck.hook]\nretries = 3\n";
    let warnings = from_file(file).loaded().values.warnings;
    let expected = [
        "gasbump.multiplier: gasbump.multiplier is below what gasbump.replacement_percent (10) \
         requires, which is offered instead",
        "gasbump.min_interval: has no effect while gasbump.enabled is false",
        "mempool.diagnose.interval: has no effect while mempool.diagnose.enabled is false",
        "stuck.hook.retries: has no effect without stuck.hook.url",
        "reservations.hold: has no effect while reservations.enabled is false",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.ends_with(expected), "{warning} is not {expected}");
    }
}

#[test]
fn hook_at_a_link_local_address_is_refused_unless_it_is_allowed() {
    let file = |url: &str, more: &str| {
        format!("[stuck.hook]\nurl = \"{url}\"\nsecret = \"{SECRET}\"\n{more}")
    };
    for url in ["http://169.254.169.254/a", "http://[fe80::1]/", "http://[::ffff:169.254.1.1]/"] {
        let problems = from_file(&file(url, "")).problems();
        let expected = "tollgate.toml:2:7: stuck.hook.url: is a link-local address, ";
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{url}: {problems:?}");
        let settings = from_file(&file(url, "allow_link_local = true\n")).settings();
        assert!(settings.hook.allow_link_local);
    }
    from_file(&file("http://127.0.0.1:1/", "")).settings();
}

#[test]
fn advertised_url_with_a_password_or_another_scheme_is_refused() {
    for (url, reason) in [
        ("http://me:hunter2@node-1:8550", "must not hold a user or a password"),
        ("ftp://me:hunter2@node-1", "must be a URL that starts with http:// or https://"),
        ("ftp://node-1", "\"ftp://node-1\" must be a URL that starts with http:// or https://"),
        ("node-1:8550", "\"node-1:8550\" must be a URL that starts with http:// or https://"),
    ] {
        let problems = from_file(&format!("advertise_url = \"{url}\"\n")).problems();
        assert_eq!(problems, [format!("tollgate.toml:1:17: advertise_url: {reason}")]);
    }
}
