//! Stuck transactions and rejected slots.

use std::time::Duration;

use super::table;
use crate::nonce;
use tollgate_model::answer::AnswerClass;
use tollgate_model::hole::{self, HoleView};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::policy::StuckAction;
use tollgate_model::reconcile::Hole;
use tollgate_model::rejected::{HoldReason, RejectedDecision, RejectedSlot, RejectedView, decide};
use tollgate_model::stuck::{LineView, Plan, StuckThresholds, Subject, plan, trigger};
use tollgate_model::{Allocated, Queued, StuckReason, Timestamp, Tracking, TxState};

const PENDING: TxState = TxState::Tracking(Tracking::Pending);
const REJECTED: TxState = TxState::Stuck(StuckReason::Rejected);

pub(super) fn triggers() -> String {
    let at = |seconds| Timestamp::EPOCH.after(Duration::from_secs(seconds));
    let now = at(100_000);
    let line = LineView { head: PENDING, head_since: now, asked_at: None, depth: 0, oldest: now };
    let stuck = LineView { head: TxState::Stuck(StuckReason::GreyZone), ..line };
    let asked = LineView { asked_at: Some(at(99_941)), ..stuck };
    let rows = [
        ("the head moves", line),
        ("the head is STUCK", stuck),
        ("the head has had no receipt for 5 min", LineView { head_since: at(99_700), ..line }),
        ("the oldest was accepted 15 min ago", LineView { oldest: at(99_100), ..line }),
        ("5,000 wait behind the head", LineView { depth: 5_000, ..line }),
        ("the head is STUCK, the policy was asked 59 s ago", asked),
    ];
    let row = |(situation, line): (&str, LineView)| {
        let why = trigger(&StuckThresholds::default(), &line, now);
        let why = why.map_or("not asked".to_owned(), |why| format!("`{}`", why.name()));
        [situation.to_owned(), why]
    };
    table(["situation", "trigger"], rows.map(row))
}

pub(super) fn plans() -> String {
    let open = Subject {
        state: PENDING,
        has_key: true,
        signed_by_caller: false,
        payload_may_change: false,
        closing: false,
    };
    let subjects = [
        open,
        Subject { has_key: false, signed_by_caller: true, ..open },
        Subject { signed_by_caller: true, ..open },
        Subject { closing: true, ..open },
        Subject { state: TxState::Tracking(Tracking::Mined), ..open },
        Subject { state: TxState::Queued(Queued::Waiting), ..open },
    ];
    let cell = |action, payload, subject: &Subject| match plan(action, payload, subject) {
        Ok(Plan::Alert) => "alert".to_owned(),
        Ok(Plan::Resend { .. }) => "sends the newest bytes again".to_owned(),
        Ok(Plan::Sign { kind, .. }) => format!("signs a {}", format!("{kind:?}").to_lowercase()),
        Err(why) => format!("no: {why}"),
    };
    let row = |(action, payload): (StuckAction, bool)| {
        let [open, keyless, signed, closing, mined, queued] =
            subjects.each_ref().map(|subject| cell(action, payload, subject));
        let with = if payload { " with a payload" } else { "" };
        [format!("`{}`{with}", action.name()), open, keyless, signed, closing, mined, queued]
    };
    let rows = StuckAction::ALL.map(|action| (action, false));
    let columns = [
        "action",
        "open or STUCK",
        "signed by the caller, no key",
        "signed by the caller, key here",
        "being closed",
        "mined",
        "queued",
    ];
    table(columns, rows.into_iter().chain([(StuckAction::Replace, true)]).map(row))
}

fn words(decision: RejectedDecision) -> String {
    let why = match decision {
        RejectedDecision::Leave => return "no action".to_owned(),
        RejectedDecision::FindReceipts => return "search for receipts first".to_owned(),
        RejectedDecision::Placeholder => return "placeholder".to_owned(),
        RejectedDecision::Recycle => return "recycled".to_owned(),
        RejectedDecision::Hold(why) => why,
    };
    let why = match why {
        HoldReason::Policy => return "held".to_owned(),
        HoldReason::NoKey => "no key",
        HoldReason::MayBeWithANode => "may be with a node",
        HoldReason::MayBeUsed => "may be used",
        HoldReason::NobodyToFillIt => "no transaction to fill it",
        HoldReason::Strict => "strict",
    };
    format!("held: {why}")
}

pub(super) fn rejected() -> String {
    use AnswerClass::{Invalid, Reverted, Transient};
    let clear = RejectedView {
        state: REJECTED,
        nonce: nonce(5),
        mode: Mode::Pipelined,
        answers: Some(&[Invalid]),
        counts: Some(AccountCounts::confirmed(nonce(5), nonce(5))),
        receipts_looked_for: true,
        higher_open: false,
        next_waits: false,
        has_key: true,
        closing: false,
        is_private: false,
    };
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    let once = RejectedView { state: grey, answers: Some(&[Transient, Invalid]), ..clear };
    let reverted = RejectedView { answers: Some(&[Reverted]), ..clear };
    let counted = Some(AccountCounts::confirmed(nonce(5), nonce(6)));
    let below = RejectedView { higher_open: true, ..clear };
    let rows = [
        ("every endpoint says `invalid`, from the first send on", clear),
        ("`invalid`, higher slots are open", below),
        (
            "`invalid`, higher slots are open, and a transaction waits for a slot",
            RejectedView { next_waits: true, ..below },
        ),
        ("`invalid`, strict mode", RejectedView { mode: Mode::Strict, ..clear }),
        ("`invalid`, but a mempool counts the slot", RejectedView { counts: counted, ..clear }),
        ("`invalid`, no key", RejectedView { has_key: false, ..clear }),
        ("`invalid` after an answer that was lost", once),
        ("STUCK/REJECTED under an earlier owner", RejectedView { answers: None, ..clear }),
        ("`reverted`", RejectedView { receipts_looked_for: false, ..reverted }),
        ("`reverted`, and no receipt was found", reverted),
        ("a node had it, others say `invalid`", RejectedView { state: PENDING, ..clear }),
        ("its slot is being closed", RejectedView { closing: true, ..clear }),
    ];
    let row = |(situation, view): (&str, RejectedView<'_>)| {
        let [hold, placeholder, recycle] =
            RejectedSlot::ALL.map(|policy| words(decide(policy, &view)));
        [situation.to_owned(), hold, placeholder, recycle]
    };
    table(["situation", "`hold`", "`placeholder`", "`recycle`"], rows.map(row))
}

pub(super) fn holes() -> String {
    let patience = Duration::from_secs(300);
    let hole = Hole { first: nonce(2), last: nonce(3), pending: false };
    let old = HoleView {
        hole,
        seen_for: patience,
        patience,
        mode: Mode::Pipelined,
        status: SubmitterStatus::Active,
        next_waits: false,
        has_key: true,
        window: 64,
        came_back: false,
    };
    let wide = Hole { last: nonce(66), ..hole };
    let rows = [
        ("seen for 5 min, no transaction waits", old),
        ("seen for 5 min, a transaction waits for a slot", HoleView { next_waits: true, ..old }),
        ("the nonces were returned, no transaction waits", HoleView { came_back: true, ..old }),
        ("wider than the window, no transaction waits", HoleView { hole: wide, ..old }),
        (
            "wider than the window, a transaction waits for a slot",
            HoleView { hole: wide, next_waits: true, ..old },
        ),
        ("seen for less than 5 min", HoleView { seen_for: Duration::from_secs(299), ..old }),
        ("a mempool counts it", HoleView { hole: Hole { pending: true, ..hole }, ..old }),
        ("no key, no transaction waits", HoleView { has_key: false, ..old }),
        ("paused, or in PROTECT", HoleView { status: SubmitterStatus::Paused, ..old }),
        ("strict mode", HoleView { mode: Mode::Strict, ..old }),
    ];
    let row = |(situation, view): (&str, HoleView)| {
        let [hold, placeholder, recycle] =
            RejectedSlot::ALL.map(|policy| hole::decide(policy, &view).name().to_owned());
        [situation.to_owned(), hold, placeholder, recycle]
    };
    table(["hole", "`hold`", "`placeholder`", "`recycle`"], rows.map(row))
}
