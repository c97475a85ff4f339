//! Expiry and resubmission.

use std::time::Duration;

use super::table;
use tollgate_model::answer::AnswerClass;
use tollgate_model::expiry::{ExpiryDecision, ExpiryView};
use tollgate_model::resubmit::{ResubmitDecision, ResubmitRules, ResubmitView, decide, hold_of};
use tollgate_model::{Route, Timestamp, TxId, TxState, expiry, transition};
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn expiry() -> String {
    let deadline = Timestamp::EPOCH.after(HOUR);
    let words = |state: TxState, closing: bool| {
        let view = ExpiryView { state, valid_until: Some(deadline), closing, decided_at: None };
        let decision = expiry::decide(&view, deadline);
        let to = decision.event().map(|event| transition(state, event).unwrap().to_string());
        match decision {
            ExpiryDecision::Leave | ExpiryDecision::Wait { .. } => "no action".to_owned(),
            ExpiryDecision::Withdraw => format!("ends: {}, no nonce used", to.unwrap()),
            ExpiryDecision::AskPolicy => format!("{}, the policy is asked", to.unwrap()),
        }
    };
    let row = |state: TxState| [state.to_string(), words(state, false), words(state, true)];
    let open = TxState::ALL.into_iter().filter(|state| !state.is_final());
    table(["state", "at the deadline", "its slot is being closed"], open.map(row))
}

fn rules() -> ResubmitRules {
    ResubmitRules { jitter_percent: 0, timeout: Some(24 * HOUR), ..ResubmitRules::default() }
}

/// A node has answered to what is STUCK, and nothing yet to what is not.
fn view(state: TxState) -> ResubmitView {
    let last_answer = match state {
        TxState::Stuck(_) => Some(AnswerClass::AlreadyKnown),
        _ => None,
    };
    ResubmitView {
        tx_id: TxId::from_uuid(Uuid::nil()),
        route: Route::Public,
        fell_back: false,
        state,
        is_head: true,
        since: Timestamp::EPOCH,
        resends: 0,
        sent_at: Timestamp::EPOCH,
        last_answer,
        hindered_by: None,
        hold_may_be_over: false,
        hindrance_is_over: false,
    }
}

fn words(decision: ResubmitDecision) -> String {
    match decision {
        ResubmitDecision::Wait { .. } => "waits".to_owned(),
        ResubmitDecision::Resend => "resent".to_owned(),
        ResubmitDecision::AskPolicy(reason) => TxState::Stuck(reason).to_string(),
        ResubmitDecision::Leave => "no action".to_owned(),
    }
}

pub(super) fn resubmit() -> String {
    let after = |view: ResubmitView, waited: Duration| {
        words(decide(&rules(), &view, Timestamp::EPOCH.after(waited)))
    };
    let row = |state: TxState| {
        let fresh = view(state);
        let worn = ResubmitView { resends: rules().max_attempts, ..fresh };
        let behind = ResubmitView { is_head: false, ..worn };
        let private = ResubmitView { route: Route::Private, ..fresh };
        [
            state.to_string(),
            after(fresh, rules().interval),
            after(worn, rules().interval_max),
            after(fresh, rules().grey_zone_timeout),
            after(fresh, 24 * HOUR),
            after(behind, 24 * HOUR),
            after(private, rules().private_interval),
            after(private, rules().private_stuck_after),
        ]
    };
    let columns = [
        "state",
        "pause over",
        "head, resends used up",
        "head, `grey_zone.timeout` over",
        "head, `timeout.transaction` over",
        "behind the head, all of these",
        "private, `private.resend_interval` over",
        "private head, `private.stuck_after` over",
    ];
    table(columns, TxState::ALL.into_iter().filter(|state| !state.is_final()).map(row))
}

pub(super) fn pauses() -> String {
    let pause = |resends: u32| {
        let seconds = rules().pause(Route::Public, TxId::from_uuid(Uuid::nil()), resends).as_secs();
        [resends.to_string(), format!("{seconds} s")]
    };
    table(["resends so far", "next pause"], (0..8).map(pause))
}

pub(super) fn holds() -> String {
    let row = |class: AnswerClass| {
        let worn = ResubmitView {
            last_answer: Some(class),
            resends: rules().max_attempts,
            ..view(TxState::Tracking(tollgate_model::Tracking::Stale))
        };
        let used_up = decide(&rules(), &worn, Timestamp::EPOCH.after(rules().interval_max));
        let held = if hold_of(Some(class)).is_some() { "yes" } else { "" };
        [format!("`{class}`"), held.to_owned(), words(used_up)]
    };
    table(["last answer", "held", "head, resends used up"], AnswerClass::ALL.map(row))
}
