//! Resubmission: when the same bytes of a transaction without a receipt are sent again.
//!
//! Pure functions: the worker asks about each open transaction, claims a resend under the fence (I11), and
//! only then sends. This rule never signs, prices or gives up a slot: at most it has the stuck policy
//! asked, and tracking continues even then.

use std::time::Duration;

use crate::answer::{AnswerAction, AnswerClass, action_for};
use crate::gap::waits_for_predecessor;
use crate::ids::TxId;
use crate::route::Route;
use crate::state::{Allocated, StuckReason, Tracking, TxState};
use crate::time::Timestamp;
use crate::transition::TxEvent;

/// Pauses grow no further after this many resends: a bound on the loop (I13).
const GROWTH_STEPS_MAX: u32 = 100;

/// The settings of resubmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResubmitRules {
    /// The first pause (`resubmit.interval`).
    pub interval: Duration,
    /// Each pause relative to the previous one, in percent (`resubmit.backoff_percent`); 100 or less keeps it
    /// constant.
    pub backoff_percent: u32,
    /// The longest pause, before jitter (`resubmit.interval_max`).
    pub interval_max: Duration,
    /// The maximum jitter of a pause, in percent (`resubmit.jitter_percent`), so that transactions sent
    /// together are not resent together.
    pub jitter_percent: u32,
    /// The number of resends without a receipt after which the stuck policy is asked
    /// (`resubmit.max_attempts`).
    pub max_attempts: u32,
    /// The time without a receipt after which the stuck policy is asked (`timeout.transaction`).
    pub timeout: Option<Duration>,
    /// The time in the grey zone after which the stuck policy is asked (`grey_zone.timeout`).
    pub grey_zone_timeout: Duration,
    /// The pause between two sends to private endpoints (`private.resend_interval`). It does not grow: a relay drops a
    /// transaction after some blocks.
    pub private_interval: Duration,
    /// The time without a receipt after which the stuck policy is asked about a private transaction
    /// (`private.stuck_after`).
    pub private_stuck_after: Duration,
}

impl Default for ResubmitRules {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            backoff_percent: 150,
            interval_max: Duration::from_secs(300),
            jitter_percent: 20,
            max_attempts: 20,
            timeout: None,
            grey_zone_timeout: Duration::from_secs(600),
            private_interval: Duration::from_secs(12),
            private_stuck_after: Duration::from_secs(600),
        }
    }
}

impl ResubmitRules {
    /// The pause after the `resends`th resend.
    ///
    /// On the public route it grows to [`Self::interval_max`]; the jitter follows from the transaction and the count,
    /// so that it is reproducible.
    pub fn pause(&self, route: Route, tx_id: TxId, resends: u32) -> Duration {
        let longest = self.interval_max.max(self.interval);
        let (mut pause, steps) = match route {
            Route::Public => (self.interval, resends.min(GROWTH_STEPS_MAX)),
            Route::Private => (self.private_interval, 0),
        };
        for _ in 0..steps {
            pause = percent_of(pause, self.backoff_percent.max(100)).min(longest);
        }
        let per_mille = u32::try_from(scatter(tx_id, resends) % 1_001).unwrap_or(0);
        let jitter = percent_of(pause, self.jitter_percent).saturating_mul(per_mille) / 1_000;
        pause.saturating_add(jitter)
    }
}

fn percent_of(duration: Duration, percent: u32) -> Duration {
    duration.saturating_mul(percent) / 100
}

/// A deterministic pseudo-random number: the finaliser of SplitMix64 over the id and the count.
fn scatter(tx_id: TxId, resends: u32) -> u64 {
    let (high, low) = tx_id.uuid().as_u64_pair();
    let mut mixed = high ^ low.rotate_left(32) ^ u64::from(resends).wrapping_mul(0x9e37_79b9);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The time for which an open transaction has waited. It is stored, so that a new owner continues it:
/// otherwise STUCK is never reached where owners change often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// When it became the head of line, or when the last event occurred that [`renews_patience`].
    pub since: Timestamp,
    /// The number of resends since then.
    pub resends: u32,
}

impl Patience {
    /// Starts anew.
    pub const fn from(now: Timestamp) -> Self {
        Self { since: now, resends: 0 }
    }

    /// Counts one more resend.
    pub const fn resent(self) -> Self {
        Self { resends: self.resends.saturating_add(1), ..self }
    }
}

/// The facts about one open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResubmitView {
    pub tx_id: TxId,
    pub route: Route,
    /// Its private time is over, and public endpoints were not sent it yet.
    pub fell_back: bool,
    pub state: TxState,
    /// True for the head of line ([`crate::stuck::head`]). A transaction behind another one is resent, but does
    /// not become STUCK: it is not what blocks.
    pub is_head: bool,
    /// Since when it has been waited for ([`Patience::since`]).
    pub since: Timestamp,
    /// The number of resends since then.
    pub resends: u32,
    pub sent_at: Timestamp,
    pub last_answer: Option<AnswerClass>,
    /// The reason why blocks don't include it although nodes have it ([`crate::hindrance`]).
    pub hindered_by: Option<StuckReason>,
    /// The cause of its hold may be gone: the balance covers it, or the market asks no more than it
    /// offers. A hint; without it the regular pauses apply.
    pub hold_may_be_over: bool,
    /// Its hindrance is gone, and it was not sent since.
    pub hindrance_is_over: bool,
}

impl ResubmitView {
    /// The reason why it waits although nodes answer.
    fn hold(&self) -> Option<StuckReason> {
        hold(self.state, self.last_answer).or(self.hindered_by)
    }
}

/// The decision about one open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResubmitDecision {
    /// Nothing yet.
    Wait {
        /// When to ask again.
        until: Timestamp,
    },
    /// Claim it, search its receipts once more, and send the same bytes.
    Resend,
    /// Mark it STUCK for this reason and ask the stuck policy. Tracking continues.
    AskPolicy(StuckReason),
    /// Send nothing automatically: it has a receipt, has no slot, waits for a policy or an operator, or
    /// follows a missing lower nonce ([`crate::gap`]).
    Leave,
}

/// Decides whether an open transaction is sent again now.
pub fn decide(rules: &ResubmitRules, view: &ResubmitView, now: Timestamp) -> ResubmitDecision {
    match sending(view.state) {
        Sending::No => return ResubmitDecision::Leave,
        Sending::OnceUnhindered | Sending::Impatiently | Sending::ForEver if view.fell_back => {
            return ResubmitDecision::Resend;
        }
        // No pool keeps it: what is not sent again is forgotten by the relay.
        Sending::OnceUnhindered if view.route == Route::Private => {}
        Sending::OnceUnhindered if view.hindrance_is_over => return ResubmitDecision::Resend,
        // I15: the outage in which its time ran out ends without a policy or an operator.
        Sending::OnceUnhindered if is_unheard(view.last_answer) => {}
        // I15: its time ran out and its resends did not. Pools may have lost it in an outage since they accepted it.
        Sending::OnceUnhindered
            if is_timed_out(view.state) && view.resends < rules.max_attempts => {}
        Sending::OnceUnhindered => return ResubmitDecision::Leave,
        Sending::Impatiently if view.is_head => {
            if let Some(reason) = out_of_patience(rules, view, now) {
                return ResubmitDecision::AskPolicy(reason);
            }
        }
        Sending::Impatiently | Sending::ForEver => {}
    }
    // It would be refused again: the missing one is sent first.
    if !view.is_head && waits_for_predecessor(view.last_answer) {
        return ResubmitDecision::Leave;
    }
    let held = view.hold().is_some();
    let pause = if held && view.hold_may_be_over && view.route == Route::Public {
        rules.interval
    } else {
        rules.pause(view.route, view.tx_id, view.resends)
    };
    let until = view.sent_at.after(pause);
    if now >= until { ResubmitDecision::Resend } else { ResubmitDecision::Wait { until } }
}

/// Returns whether a transaction in this state is resent automatically.
pub const fn is_resent(state: TxState) -> bool {
    !matches!(sending(state), Sending::No | Sending::OnceUnhindered)
}

/// Returns whether an event restarts the wait for a receipt: the transaction got its slot, a node accepted
/// it, a reorg removed its receipt, or a policy or an operator acted on it.
///
/// Without this, a transaction that has just left STUCK would be marked STUCK again at the next tick.
pub const fn renews_patience(from: TxState, event: TxEvent) -> bool {
    match event {
        TxEvent::SlotAllocated | TxEvent::Orphaned | TxEvent::Retried => true,
        TxEvent::NodeAccepted => !matches!(from, TxState::Tracking(_)),
        TxEvent::Held
        | TxEvent::Unheld
        | TxEvent::Withdrawn
        | TxEvent::Refused
        | TxEvent::AnswerUnclear
        | TxEvent::FundsMissing
        | TxEvent::Resent
        | TxEvent::Mined
        | TxEvent::Finalised(_)
        | TxEvent::SlotTaken
        | TxEvent::SlotRecycled
        | TxEvent::GaveUp(_) => false,
    }
}

/// The reason why an open transaction waits although nodes answer; also its reason once it is STUCK.
///
/// A hold ends without an action of ours: the account is funded, the market comes down, a node changes its
/// settings.
pub const fn hold_of(answer: Option<AnswerClass>) -> Option<StuckReason> {
    let Some(class) = answer else { return None };
    match action_for(class) {
        AnswerAction::HoldForFunds => Some(StuckReason::InsufficientFunds),
        AnswerAction::BumpOrHold | AnswerAction::TryElsewhereOrHold => Some(StuckReason::FeeCap),
        AnswerAction::Track
        | AnswerAction::FindReceipts
        | AnswerAction::ResendPredecessor
        | AnswerAction::EarlierStands
        | AnswerAction::RejectIfAllAgree
        | AnswerAction::ResendSame => None,
    }
}

/// The reason why a transaction in this state waits. Until a new owner gets its first answer, the stored state
/// counts.
pub const fn hold(state: TxState, last_answer: Option<AnswerClass>) -> Option<StuckReason> {
    match (state, last_answer) {
        (TxState::Allocated(Allocated::InsufficientFunds), None) => {
            Some(StuckReason::InsufficientFunds)
        }
        _ => hold_of(last_answer),
    }
}

/// The rule by which a transaction in a state is resent.
enum Sending {
    No,
    /// STUCK without a known cause: sent again until a node answers, and once a cause that was found later
    /// is gone; by time alone also until its resends are used up.
    OnceUnhindered,
    Impatiently,
    ForEver,
}

const fn sending(state: TxState) -> Sending {
    match state {
        TxState::Allocated(
            Allocated::Unsent | Allocated::UnknownSubmitResult | Allocated::InsufficientFunds,
        )
        | TxState::Tracking(Tracking::Pending | Tracking::Stale) => Sending::Impatiently,
        // The cause of a hold may go away at any time, and so may an outage; neither may block an account for
        // ever. Resending the same bytes does no harm.
        TxState::Stuck(
            StuckReason::InsufficientFunds | StuckReason::FeeCap | StuckReason::GreyZone,
        ) => Sending::ForEver,
        TxState::Stuck(StuckReason::TimedOut | StuckReason::ResubmitsExhausted) => {
            Sending::OnceUnhindered
        }
        TxState::Stuck(
            StuckReason::Rejected
            | StuckReason::Expired
            // Its slot is used: no other attempt in it can be mined.
            | StuckReason::Unproven
            | StuckReason::Unwritable,
        )
        | TxState::Tracking(Tracking::Mined)
        | TxState::Queued(_)
        | TxState::Confirmed
        | TxState::Failed(_) => Sending::No,
    }
}

const fn is_timed_out(state: TxState) -> bool {
    matches!(state, TxState::Stuck(StuckReason::TimedOut))
}

const fn is_outage(last_answer: Option<AnswerClass>) -> bool {
    matches!(last_answer, Some(AnswerClass::Transient | AnswerClass::RateLimited))
}

/// Returns whether no node has answered clearly to the last send, or this owner has not sent it yet.
fn is_unheard(last_answer: Option<AnswerClass>) -> bool {
    last_answer.is_none_or(|class| action_for(class) == AnswerAction::ResendSame)
}

fn out_of_patience(
    rules: &ResubmitRules,
    view: &ResubmitView,
    now: Timestamp,
) -> Option<StuckReason> {
    let waited = now.since(view.since);
    let hold = view.hold();
    if rules.timeout.is_some_and(|timeout| waited >= timeout) {
        // What is held goes on by itself once the cause is gone, so the cause is the reason.
        return Some(hold.unwrap_or(StuckReason::TimedOut));
    }
    let grey = matches!(view.state, TxState::Allocated(_));
    // A node that names what it waits for is not silent: a hold has its own limit, below.
    if grey && hold.is_none() && waited >= rules.grey_zone_timeout {
        return Some(StuckReason::GreyZone);
    }
    if view.route == Route::Private {
        // Its resends are frequent and prove nothing, and what public pools know is no evidence: only time counts.
        return (waited >= rules.private_stuck_after).then(|| {
            hold.unwrap_or(if grey { StuckReason::GreyZone } else { StuckReason::TimedOut })
        });
    }
    // While no endpoint can be reached, resends do not count.
    let outage = is_outage(view.last_answer);
    // The last resend gets its pause too, before the policy is asked.
    let pause = rules.pause(view.route, view.tx_id, view.resends);
    let tried = view.resends >= rules.max_attempts && now >= view.sent_at.after(pause);
    let nobody_knows = if grey { StuckReason::GreyZone } else { StuckReason::ResubmitsExhausted };
    (tried && !outage).then(|| hold.unwrap_or(nobody_knows))
}

// `docs/decisions.md` has more cases as tables, which a test compares with the code.
#[cfg(test)]
mod tests;
