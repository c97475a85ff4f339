//! What is done about transactions that don't move: rules, policies, and what can't be together.

use std::time::Duration;

use tollgate_engine::{EngineOptions, ReservationLimits};
use tollgate_hook::{HookOptions, HookSecret};
use tollgate_model::Address;
use tollgate_model::bump::{BumpRules, ClosingPrice};
use tollgate_model::nonce::Mode;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::StuckThresholds;
use tollgate_model::stuck::rules::StuckRules;

use super::kind::{self, duration_words};
use super::reader::Reader;
use super::rules;
use super::settings::given_of;

/// Who decides where there is a choice.
#[derive(Clone, Default, Debug)]
pub(crate) struct PolicySettings {
    pub(crate) rules: StuckRules,
    pub(crate) hook: Option<HookOptions>,
    pub(crate) bump: BumpRules,
}

pub(super) fn policies(reader: &mut Reader<'_>) -> Option<PolicySettings> {
    let rules = rules::rules(reader);
    let hook = hook(reader);
    let bump = bump(reader);
    Some(PolicySettings { rules: rules?, hook: hook?, bump: bump? })
}

/// The engine's part of it, on top of what is known already.
pub(super) fn engine(
    reader: &mut Reader<'_>,
    base: Option<EngineOptions>,
    strict: &[Address],
) -> Option<EngineOptions> {
    let resubmit = resubmit(reader);
    let lookback_blocks = reader.number("grey_zone.lookback_blocks");
    let diagnose = diagnose(reader);
    let stuck = thresholds(reader);
    let rejected_slot = reader.choice("stuck.rejected_slot", &RejectedSlot::ALL);
    let may_exceed_cap = reader.read("cancel.may_exceed_cap", kind::switch);
    let reconcile_interval = reader.duration("reconcile.interval");
    let reservations = reservations(reader);
    let base = base?;
    let why_strict = match base.nonces.mode {
        Mode::Strict => Some(("submitter.mode", "submitter.mode strict")),
        Mode::Pipelined if !strict.is_empty() => Some(("submitter.strict", "submitter.strict")),
        Mode::Pipelined => None,
    };
    if let Some((name, words)) = why_strict.filter(|_| rejected_slot == Some(RejectedSlot::Recycle))
    {
        let reason = format!(
            "stuck.rejected_slot recycle can't be with {words}: a slot that is given away twice is \
             not strict"
        );
        reader.wrong(given_of(reader, "stuck.rejected_slot", name), reason);
    }
    Some(EngineOptions {
        resubmit: resubmit?,
        lookback_blocks: lookback_blocks?,
        diagnose: diagnose?,
        stuck: stuck?,
        rejected_slot: rejected_slot?,
        closing_price: match may_exceed_cap? {
            true => ClosingPrice::MayExceedCallersCap,
            false => ClosingPrice::WithinCallersCap,
        },
        reconcile_interval: reconcile_interval?,
        reservations: reservations?,
        ..base
    })
}

fn resubmit(reader: &mut Reader<'_>) -> Option<ResubmitRules> {
    const MAX: &str = "resubmit.interval_max";
    let interval = reader.duration("resubmit.interval");
    let longest = reader.duration(MAX);
    let backoff_percent = small(reader, "resubmit.backoff_percent");
    let jitter_percent = small(reader, "resubmit.jitter_percent");
    let max_attempts = small(reader, "resubmit.max_attempts");
    let timeout = reader.duration("timeout.transaction");
    let grey_zone_timeout = reader.duration("grey_zone.timeout");
    let (interval, mut interval_max) = (interval?, longest?);
    if interval_max < interval && !reader.is_given(MAX) {
        // Who wants to wait for longer than the longest pause need not know that there is one.
        interval_max = interval;
        reader.found(MAX, duration_words(interval));
    }
    not_above(reader, ("resubmit.interval", interval), (MAX, interval_max));
    Some(ResubmitRules {
        interval,
        backoff_percent: backoff_percent?,
        interval_max,
        jitter_percent: jitter_percent?,
        max_attempts: max_attempts?,
        timeout,
        grey_zone_timeout: grey_zone_timeout?,
    })
}

fn bump(reader: &mut Reader<'_>) -> Option<BumpRules> {
    let enabled = reader.read("gasbump.enabled", kind::switch);
    let multiplier_permille = reader.read("gasbump.multiplier", kind::factor);
    let replacement_percent = small(reader, "gasbump.replacement_percent");
    let min_interval = reader.duration("gasbump.min_interval");
    let max_attempts = small(reader, "gasbump.max_attempts");
    // The multiplier and what replacement needs hold for speed-ups and cancellations, too.
    idle(reader, enabled, "gasbump.enabled", &["gasbump.min_interval", "gasbump.max_attempts"]);
    if let (Some(permille), Some(percent)) = (multiplier_permille, replacement_percent)
        && permille < 1_000 + percent * 10
    {
        let name = given_of(reader, "gasbump.multiplier", "gasbump.replacement_percent");
        let reason = format!(
            "gasbump.multiplier is below what gasbump.replacement_percent ({percent}) needs, which \
             is what is offered"
        );
        reader.warn(name, &reason);
    }
    Some(BumpRules {
        enabled: enabled?,
        multiplier_permille: multiplier_permille?,
        replacement_percent: replacement_percent?,
        min_interval: min_interval?,
        max_attempts: u16::try_from(max_attempts?).ok()?,
    })
}

fn diagnose(reader: &mut Reader<'_>) -> Option<Option<Duration>> {
    let enabled = reader.read("mempool.diagnose.enabled", kind::switch);
    let interval = reader.duration("mempool.diagnose.interval");
    idle(reader, enabled, "mempool.diagnose.enabled", &["mempool.diagnose.interval"]);
    Some(interval.filter(|_| enabled == Some(true))).filter(|_| enabled.and(interval).is_some())
}

fn thresholds(reader: &mut Reader<'_>) -> Option<StuckThresholds> {
    let head_after = reader.duration("stuck.head_after");
    let depth = reader.number("stuck.backlog_depth");
    let age = reader.duration("stuck.backlog_age");
    let ask_interval = reader.duration("stuck.ask_interval");
    Some(StuckThresholds {
        head_after: head_after?,
        backlog_depth: Some(depth?).filter(|depth| *depth > 0),
        backlog_age: Some(age?).filter(|age| !age.is_zero()),
        ask_interval: ask_interval?,
    })
}

/// `Some(None)`: there is no hook, and that is right.
fn hook(reader: &mut Reader<'_>) -> Option<Option<HookOptions>> {
    const URL: &str = "stuck.hook.url";
    const SECRET: &str = "stuck.hook.secret";
    let has_url = reader.is_given(URL);
    let has_secret = reader.is_given(SECRET) || reader.is_given("stuck.hook.secret_file");
    let checked = |text: &str| match HookOptions::check_url(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(bad) => Err(bad.to_string()),
    };
    let url = reader.read(URL, checked);
    let secret = reader.read(SECRET, |text| HookSecret::parse(text).map_err(|bad| bad.to_string()));
    let timeout = reader.duration("stuck.hook.timeout");
    let retries = small(reader, "stuck.hook.retries");
    match (has_url, has_secret) {
        (true, false) => reader.wrong(
            URL,
            "needs a secret: give stuck.hook.secret_file or TOLLGATE_STUCK_HOOK_SECRET",
        ),
        (false, true) => reader.wrong(SECRET, "there is no stuck.hook.url that it is for"),
        (false, false) => {
            for name in ["stuck.hook.timeout", "stuck.hook.retries"] {
                if reader.is_changed(name) {
                    reader.warn(name, "has no effect without stuck.hook.url");
                }
            }
            return timeout.and(retries).map(|_| None);
        }
        (true, true) => {}
    }
    let options = HookOptions::new(&url?, secret?).ok()?;
    Some(Some(options.with_patience(timeout?, retries?)))
}

fn reservations(reader: &mut Reader<'_>) -> Option<Option<ReservationLimits>> {
    let enabled = reader.read("reservations.enabled", kind::switch);
    let hold = reader.duration("reservations.hold");
    let hold_max = reader.duration("reservations.hold_max");
    let outstanding_max = small(reader, "reservations.max_outstanding");
    let others = ["reservations.hold", "reservations.hold_max", "reservations.max_outstanding"];
    idle(reader, enabled, "reservations.enabled", &others);
    let (hold, hold_max) = (hold?, hold_max?);
    not_above(reader, ("reservations.hold", hold), ("reservations.hold_max", hold_max));
    let limits = ReservationLimits { hold, hold_max, outstanding_max: outstanding_max? };
    Some(Some(limits).filter(|_| enabled == Some(true))).filter(|_| enabled.is_some())
}

fn small(reader: &mut Reader<'_>, name: &'static str) -> Option<u32> {
    reader.number(name).and_then(|number| u32::try_from(number).ok())
}

/// Tells of settings that somebody changed of a thing that is off.
fn idle(reader: &mut Reader<'_>, enabled: Option<bool>, switch: &str, names: &[&str]) {
    if enabled == Some(false) {
        for name in names.iter().filter(|name| reader.is_changed(name)).copied().collect::<Vec<_>>()
        {
            reader.warn(name, &format!("has no effect while {switch} is false"));
        }
    }
}

fn not_above(
    reader: &mut Reader<'_>,
    (name, short): (&'static str, Duration),
    (max_name, max): (&'static str, Duration),
) {
    if short > max {
        let (short, max) = (duration_words(short), duration_words(max));
        let reason = format!("{name} ({short}) must not be above {max_name} ({max})");
        reader.wrong(given_of(reader, name, max_name), reason);
    }
}
