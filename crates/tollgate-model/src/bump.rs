//! The default bump policy: whether a transaction's fees are raised, and by how much.
//!
//! Pure functions. The worker asks about its submitter's head of line, signs the result as a further
//! attempt in the same slot, and makes it durable before it is sent (I5). All earlier attempts stay
//! tracked. A cap that is reached holds the transaction; it never fails it.

mod raise;

use std::time::Duration;

pub use raise::{
    Cap, CapReached, Ceiling, ClosingPrice, Minimum, NoTip, Offer, Raise, RequestedPrice,
    below_refused, dearest, offer_anew, pays_the_market, raise, to_beat,
};

use crate::answer::AnswerClass;
use crate::diagnose::Diagnosis;
use crate::port::batch::Fees;
use crate::port::chain::FeeQuote;
use crate::port::policy::BumpPolicy;
use crate::time::Timestamp;

/// The settings of bumping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BumpRules {
    /// `gasbump.enabled`.
    pub enabled: bool,
    /// The new price relative to the last one, in thousandths (`gasbump.multiplier`).
    pub multiplier_permille: u32,
    /// The increase that a pool requires of a replacement, in percent of price and of tip
    /// (`gasbump.replacement_percent`). Blob transactions, which need 100, are not supported.
    pub replacement_percent: u32,
    /// The shortest time between two attempts (`gasbump.min_interval`).
    pub min_interval: Duration,
    /// The maximum number of bumps (`gasbump.max_attempts`).
    pub max_attempts: u16,
}

impl Default for BumpRules {
    fn default() -> Self {
        Self {
            enabled: false,
            multiplier_permille: 1_125,
            replacement_percent: 10,
            min_interval: Duration::from_secs(60),
            max_attempts: 10,
        }
    }
}

impl BumpPolicy for BumpRules {
    fn is_on(&self) -> bool {
        self.enabled
    }

    fn decide(&self, view: &BumpView, now: Timestamp) -> BumpDecision {
        decide(self, view, now)
    }

    fn raise(
        &self,
        last: &Fees,
        quote: &FeeQuote,
        ceiling: &Ceiling,
        demand: &RequestedPrice,
    ) -> Raise {
        raise(self, last, quote, ceiling, demand)
    }
}

/// The facts about one open transaction without a receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BumpView {
    /// This node has the account's key and the caller did not sign the transaction.
    pub may_sign: bool,
    /// True for the submitter's head of line.
    pub is_head: bool,
    /// The fees of the most expensive attempt that a pool may hold ([`to_beat`]).
    pub last: Fees,
    /// When the newest attempt became durable.
    pub last_at: Timestamp,
    /// The number of attempts beyond the first.
    pub bumps: u16,
    /// The current market price at the intent's speed. Without a quote, [`decide`] is not called.
    pub quote: FeeQuote,
    pub ceiling: Ceiling,
    pub last_answer: Option<AnswerClass>,
    /// The mempool diagnosis, if it is enabled.
    pub diagnosis: Option<Diagnosis>,
}

/// The decision about the price of one open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BumpDecision {
    /// Sign this as a further attempt.
    Bump { to: Fees },
    /// Alert, and resend unchanged: the market is above a cap. The transaction continues when the
    /// market comes down.
    HoldAtCap { why: Cap },
    /// Keep the price: it is not what holds the transaction back.
    NotPrice,
    /// Do nothing yet.
    Wait {
        /// When to ask again.
        until: Timestamp,
    },
    /// All bumps are used: resend unchanged and leave the rest to the stuck policy.
    Exhausted,
    /// Bumping is disabled, or this node can't sign the transaction.
    Off,
}

/// Decides whether a transaction's fees are raised.
pub fn decide(rules: &BumpRules, view: &BumpView, now: Timestamp) -> BumpDecision {
    if !rules.enabled || !view.may_sign {
        return BumpDecision::Off;
    }
    if !price_holds_it_back(view) {
        return BumpDecision::NotPrice;
    }
    if view.bumps >= rules.max_attempts {
        return BumpDecision::Exhausted;
    }
    let until = view.last_at.after(rules.min_interval);
    if now < until {
        return BumpDecision::Wait { until };
    }
    match raise(rules, &view.last, &view.quote, &view.ceiling, &RequestedPrice::default()) {
        Raise::To(to) => BumpDecision::Bump { to },
        Raise::AboveCap(reached) => BumpDecision::HoldAtCap { why: reached.cap },
        // Unreachable in practice: this rule demands no price.
        Raise::TooLow(_) => BumpDecision::NotPrice,
    }
}

fn price_holds_it_back(view: &BumpView) -> bool {
    let another_cause = match view.diagnosis {
        Some(Diagnosis::BlockedByLowerNonce { .. } | Diagnosis::ReplacedByAnother { .. }) => true,
        Some(Diagnosis::InPool | Diagnosis::ProbablyLost | Diagnosis::Unknown) | None => false,
    };
    if !view.is_head || another_cause {
        return false;
    }
    match view.last_answer {
        // The node's answer takes precedence over the market.
        Some(
            AnswerClass::Underpriced | AnswerClass::FeeTooLow | AnswerClass::ReplacementUnderpriced,
        ) => true,
        // A higher price would make it worse or change nothing.
        Some(
            AnswerClass::FeeTooHigh
            | AnswerClass::InsufficientFunds
            | AnswerClass::NonceTooLow
            | AnswerClass::NonceTooHigh
            | AnswerClass::GasLimit
            | AnswerClass::Reverted
            | AnswerClass::Invalid,
        ) => false,
        Some(
            AnswerClass::Accepted
            | AnswerClass::AlreadyKnown
            | AnswerClass::PoolFull
            | AnswerClass::RateLimited
            | AnswerClass::Transient
            | AnswerClass::Unknown,
        )
        | None => !pays_the_market(&view.last, &view.quote),
    }
}

#[cfg(test)]
mod tests;
