//! The settings about transactions that don't move.

use std::time::Duration;

use tollgate_engine::ReservationLimits;
use tollgate_hook::HookOptions;
use tollgate_model::bump::BumpRules;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn the_defaults_of_policies_and_of_what_is_off_are_those_of_the_code() {
    let Loaded { settings, .. } = Said::default().understood();
    assert_eq!(settings.policies.bump, BumpRules::default());
    assert_eq!(settings.policies.rules, StuckRules::default());
    assert!(settings.policies.hook.is_none());
    let file = format!(
        "[reservations]\nenabled = true\n[mempool.diagnose]\nenabled = true\n\
         [stuck.hook]\nurl = \"http://a/\"\nsecret = \"{SECRET}\"\n"
    );
    let Loaded { settings, .. } = from_file(&file).understood();
    assert_eq!(settings.engine.reservations, Some(ReservationLimits::default()));
    assert_eq!(settings.engine.diagnose, Some(seconds(15)));
    let secret = tollgate_hook::HookSecret::parse(SECRET).unwrap();
    let expected = HookOptions::new("http://a/", secret).unwrap();
    assert_eq!(format!("{:?}", settings.policies.hook), format!("{:?}", Some(expected)));
}

#[test]
fn every_setting_of_governance_arrives() {
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
    "#;
    let loaded = from_file(file).understood();
    assert_eq!(loaded.warnings(), [""; 0]);
    let Settings { engine, policies, .. } = loaded.settings;
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
        }
    );
    assert_eq!((engine.lookback_blocks, engine.diagnose), (8, Some(seconds(12))));
    assert_eq!(
        policies.bump,
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
    assert_eq!(engine.closing_price, tollgate_model::bump::ClosingPrice::MayExceedCallersCap);
    assert_eq!(engine.reconcile_interval, seconds(17));
    let limits =
        ReservationLimits { hold: seconds(18), hold_max: seconds(19), outstanding_max: 20 };
    assert_eq!(engine.reservations, Some(limits));
    let hook = format!("{:?}", policies.hook.unwrap());
    assert!(hook.contains("hooks.example.com"), "{hook}");
    assert!(hook.contains("timeout: 21s, retries: 3"), "{hook}");
}

#[test]
fn two_flags_switch_on_what_is_off() {
    let flags = ["--gasbump", "--diagnose"];
    let Loaded { settings, .. } = Said { flags: &flags, ..Said::default() }.understood();
    assert!(settings.policies.bump.enabled && settings.engine.diagnose.is_some());
    let variables = [("TOLLGATE_GASBUMP", "true"), ("TOLLGATE_DIAGNOSE", "true")];
    let Loaded { settings, .. } = Said { variables: &variables, ..Said::default() }.understood();
    assert!(settings.policies.bump.enabled && settings.engine.diagnose.is_some());
}

#[test]
fn zero_switches_a_backlog_threshold_off() {
    let file = "[stuck]\nbacklog_depth = 0\nbacklog_age = \"0s\"\n";
    let stuck = from_file(file).understood().settings.engine.stuck;
    assert_eq!((stuck.backlog_depth, stuck.backlog_age), (None, None));
}

#[test]
fn the_longest_pause_follows_a_first_one_that_is_longer() {
    let flags = ["--resubmit-interval", "10m"];
    let loaded = Said { flags: &flags, ..Said::default() }.understood();
    assert_eq!(value(&loaded, "resubmit.interval_max"), ("10m".into(), "default"));
    assert_eq!(loaded.settings.engine.resubmit.interval_max, seconds(600));
}

#[test]
fn rules_are_tables_or_a_list_and_a_variable_can_hold_them() {
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
    assert_eq!(from_file(file).understood().settings.policies.rules, both);
    let list = "[{reason = \"expired\", age_at_least_seconds = 1000, depth_at_least = 2, \
                attempts_at_least = 3, action = \"cancel\"}]";
    let variables = [("TOLLGATE_STUCK_RULES", list)];
    let said = Said { variables: &variables, ..Said::default() };
    let one = StuckRules::parse(&[first]).unwrap();
    assert_eq!(said.understood().settings.policies.rules, one);
}

#[test]
fn a_rule_that_can_not_be_used_is_told_with_its_place() {
    let file = "[[stuck.rules]]\nreason = \"dead\"\naction = \"cancel\"\n\n\
                [[stuck.rules]]\naction = \"cancel\"\n\n\
                [[stuck.rules]]\nage = 3\naction = \"noop\"\n\n\
                [[stuck.rules]]\nattempts_at_least = \"3\"\naction = \"noop\"\n\n\
                [[stuck.rules]]\ntrigger = \"head_stuck\"\n";
    let told = from_file(file).refused();
    assert_eq!(told.len(), 5, "{told:#?}");
    for (told, expected) in told.iter().zip([
        "tollgate.toml:2:10: stuck.rules: rule 1: reason: \"dead\" is none of timed_out, ",
        "tollgate.toml:6:10: stuck.rules: rule 2: action: cancel needs a condition",
        "tollgate.toml:9:1: stuck.rules: age is unknown; a rule has trigger, reason, ",
        "tollgate.toml:13:21: stuck.rules: attempts_at_least must be a whole number",
        "tollgate.toml:16:1: stuck.rules: a rule needs an action",
    ]) {
        assert!(told.starts_with(expected), "{told} is not {expected}");
    }
    let many = "[[stuck.rules]]\naction = \"noop\"\n".repeat(StuckRules::MAX + 1);
    assert!(from_file(&many).refused()[0].ends_with("101 rules are more than 100"));
    let bare = from_file("stuck.rules = [\"cancel\"]").refused();
    assert!(bare[0].contains("a rule is a table like"), "{bare:?}");
}

#[test]
fn combinations_that_can_not_be_are_refused() {
    for (file, told) in [
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
            "tollgate.toml:4:17: stuck.rejected_slot: stuck.rejected_slot recycle can't be with \
             submitter.mode strict: a slot that is given away twice is not strict",
        ),
        (
            "[submitter]\nstrict = [\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]\n[stuck]\n\
             rejected_slot = \"recycle\"",
            "tollgate.toml:4:17: stuck.rejected_slot: stuck.rejected_slot recycle can't be with \
             submitter.strict: a slot that is given away twice is not strict",
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
            "[stuck.hook]\nurl = \"https://hooks.example.com\"",
            "tollgate.toml:2:7: stuck.hook.url: needs a secret: give stuck.hook.secret_file or \
             TOLLGATE_STUCK_HOOK_SECRET",
        ),
        (
            "[stuck.hook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
            "tollgate.toml:2:10: stuck.hook.secret: there is no stuck.hook.url that it is for",
        ),
        (
            "[stuck.hook]\nurl = \"ftp://hunter2\"\nsecret = \"hunter2\"",
            "tollgate.toml:2:7: stuck.hook.url: must be a URL that starts with http:// or https://\n\
             tollgate.toml:3:10: stuck.hook.secret: must be whsec_ and base64",
        ),
    ] {
        assert_eq!(from_file(file).refused().join("\n"), told);
    }
}

#[test]
fn the_hooks_secret_may_be_in_a_file_and_is_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let variables = [
        ("TOLLGATE_STUCK_HOOK_URL", "https://hooks.example.com/in/hunter2?key=hunter2"),
        ("TOLLGATE_STUCK_HOOK_SECRET_FILE", secret.to_str().unwrap()),
    ];
    let loaded = Said { variables: &variables, ..Said::default() }.understood();
    assert!(loaded.settings.policies.hook.is_some());
    let pages = format!("{} {:?}", report(&loaded), loaded.settings.policies);
    let pages = format!("{pages} {}", report_json(&Ok(loaded)));
    assert!(pages.contains("https://hooks.example.com/***"), "{pages}");
    assert!(!pages.contains("hunter2") && !pages.contains("MfKQ9r8G"), "{pages}");
}

#[test]
fn what_has_no_effect_here_is_told() {
    let file = "[gasbump]\nmin_interval = \"5s\"\nmultiplier = 1.05\n\
                [mempool.diagnose]\ninterval = \"5s\"\n[reservations]\nhold = \"5s\"\n\
                [stuck.hook]\nretries = 3\n";
    let warnings = from_file(file).understood().values.warnings;
    for (warning, expected) in warnings.iter().zip([
        "mempool.diagnose.interval: has no effect while mempool.diagnose.enabled is false",
        "reservations.hold: has no effect while reservations.enabled is false",
        "stuck.hook.retries: has no effect without stuck.hook.url",
        "gasbump.min_interval: has no effect while gasbump.enabled is false",
        "gasbump.multiplier: gasbump.multiplier is below what gasbump.replacement_percent (10) \
         needs, which is what is offered",
    ]) {
        assert!(warning.ends_with(expected), "{warning} is not {expected}");
    }
    assert_eq!(warnings.len(), 5, "{warnings:#?}");
}
