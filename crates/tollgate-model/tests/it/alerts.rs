//! When alerts are raised and when they end.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_model::alert::balance::{BalanceHistory, LowBalance, days_left, judge_balance};
use tollgate_model::alert::{Gate, Standing, Threshold};
use tollgate_model::port::AlertKind;
use tollgate_model::{Timestamp, U256, Wei};

use crate::docs::check_page;

fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(seconds))
}

fn wei(amount: u64) -> Wei {
    Wei(U256::from(amount))
}

/// The standing at each measurement; `steps` are pauses in seconds and numbers.
fn standings(threshold: Threshold, steps: &[(u64, u64)]) -> Vec<(u64, u64, Standing)> {
    let (mut gate, mut now) = (Gate::default(), 0);
    let mut told = Vec::new();
    for (pause, measured) in steps {
        now += pause;
        let (next, standing) = gate.judge(threshold, *measured, at(now));
        gate = next;
        told.push((now, *measured, standing));
    }
    told
}

proptest! {
    #[test]
    fn alert_is_raised_only_after_the_number_was_at_the_threshold_for_the_whole_time(
        raise in 1_u64..20,
        after in 0_u64..60,
        steps in prop::collection::vec((0_u64..30, 0_u64..30), 1..60),
    ) {
        let threshold = Threshold::halving(raise, Duration::from_secs(after));
        let told = standings(threshold, &steps);
        let (mut since, mut is_raised) = (None, false);
        for (now, measured, standing) in told {
            since = if measured >= raise { since.or(Some(now)) } else { None };
            let is_due = since.is_some_and(|since| now - since >= after);
            is_raised = is_due || (is_raised && measured >= threshold.clear);
            prop_assert_eq!(standing == Standing::Raised, is_raised, "at {} with {}", now, measured);
            prop_assert_eq!(standing == Standing::Calm, !is_raised && measured < raise);
        }
    }

    #[test]
    fn number_that_moves_around_the_threshold_raises_one_alert(
        raise in 2_u64..1_000,
        wobble in prop::collection::vec(any::<bool>(), 1..50),
    ) {
        let threshold = Threshold::halving(raise, Duration::ZERO);
        let mut steps = vec![(1, raise)];
        steps.extend(wobble.iter().map(|up| (1, if *up { raise } else { raise - 1 })));
        let told = standings(threshold, &steps);
        prop_assert!(told.iter().all(|(_, _, standing)| *standing == Standing::Raised));
    }

    #[test]
    fn burn_counts_what_goes_out_whatever_comes_in(
        changes in prop::collection::vec((60_u64..7_200, 0_u64..1_000, 0_u64..1_000), 2..200),
    ) {
        let mut history = BalanceHistory::default();
        let (mut now, mut balance) = (0, 1_000_000_u64);
        history.note(wei(balance), at(now));
        let (mut spent, mut seconds) = (0, 0);
        for (pause, out, back) in changes {
            now += pause;
            balance -= out;
            history.note(wei(balance), at(now));
            // A top-up between two looks.
            balance += back;
            history.note(wei(balance), at(now));
            spent += out;
            seconds += pause;
        }
        let burn = history.burn_per_day();
        prop_assert_eq!(burn.is_some(), seconds >= 3_600);
        if let (Some(burn), true) = (burn, seconds <= 7 * 86_400) {
            prop_assert_eq!(burn, U256::from(spent * 86_400 / seconds));
        }
    }

    #[test]
    fn balance_below_the_floor_is_low_whatever_the_burn(
        balance in 0_u64..1_000, floor in 0_u64..1_000, burn in prop::option::of(0_u64..1_000), days in 0_u64..10,
    ) {
        let verdict = judge_balance(wei(balance), Some(wei(floor)), burn.map(U256::from), days);
        let lasts = burn.filter(|burn| *burn > 0).map(|burn| balance / burn);
        let expected = if balance < floor {
            Some(LowBalance::BelowFloor { floor: wei(floor), days: lasts })
        } else {
            lasts.filter(|lasts| *lasts < days).map(|days| LowBalance::FewDays { days })
        };
        prop_assert_eq!(verdict, expected);
    }
}

#[test]
fn balance_without_a_burn_lasts_for_ever() {
    assert_eq!(days_left(wei(5), U256::ZERO), None);
    assert_eq!(days_left(wei(50), U256::from(7)), Some(7));
    assert_eq!(judge_balance(wei(0), None, Some(U256::ZERO), 5), None);
}

#[test]
fn week_old_burn_is_forgotten() {
    let mut history = BalanceHistory::default();
    history.note(wei(1_000), at(0));
    history.note(wei(0), at(3_600));
    for hour in 2..400 {
        history.note(wei(0), at(3_600 * hour));
    }
    assert_eq!(history.burn_per_day(), Some(U256::ZERO));
}

/// The table of kinds on the page.
fn kinds() -> String {
    let mut table = "| alert | level | meaning | first step |\n|---|---|---|---|\n".to_owned();
    for kind in AlertKind::ALL {
        let (name, info) = (kind.name(), kind.info());
        table += &format!(
            "| [`{name}`](#{name}) | {} | {} | {} |\n",
            info.level, info.meaning, info.action
        );
    }
    table
}

#[test]
fn page_on_alerts_has_the_kinds_of_the_code_and_a_procedure_for_each() {
    check_page("operations/alerts", &[("kinds", kinds())]);
    let path = format!("{}/../../docs/operations/alerts.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).unwrap();
    let told: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(
        told,
        AlertKind::ALL.map(AlertKind::name),
        "one heading for each kind, in this order"
    );
    for part in page.split("\n### ").skip(1) {
        let name = part.lines().next().unwrap_or_default();
        for word in ["**Look:**", "**Do:**", "**Over:**"] {
            assert!(part.contains(word), "{name} has no {word}");
        }
    }
}

#[test]
fn on_call_manual_leads_to_every_alert() {
    let path = format!("{}/../../docs/operations/on-call.md", env!("CARGO_MANIFEST_DIR"));
    let manual = std::fs::read_to_string(path).unwrap();
    for kind in AlertKind::ALL {
        assert!(manual.contains(&format!("`{kind}`")), "on-call.md does not name {kind}");
    }
    assert!(manual.contains("(alerts.md)"));
}
