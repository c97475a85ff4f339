//! Top-ups: when an account whose balance is below its floor gets a payment from a funding account, and how much.
//!
//! A payment is an ordinary transaction of the funding account. Its request id names the period, so each period has
//! one payment at most (I7), whatever the number of nodes that decide and of times that they do. Everything that a
//! decision needs is read from the store: a node that starts has nothing to remember (I16).

use std::fmt;
use std::time::Duration;

use alloy_primitives::{Address, U256};

use crate::amount::Wei;
use crate::ids::{ChainId, InvalidValue, RequestId, TxId};
use crate::intent::Intent;
use crate::port::TxRecord;
use crate::state::TxState;
use crate::time::Timestamp;

/// The start of the request ids of top-ups. Stores have an index of such transactions.
pub const REQUEST_PREFIX: &str = "topup:";
/// The time within which payments count against the daily cap.
pub const CAP_WINDOW: Duration = Duration::from_secs(86_400);
/// Nothing is decided in the last part of a period: a decision of one period is carried out, or dropped, before another
/// node decides in the next one.
const QUIET: Duration = Duration::from_secs(60);
/// The shortest period.
pub const PERIOD_MIN: Duration = Duration::from_secs(600);

/// The rule for one account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopUpRule {
    pub chain_id: ChainId,
    /// The account that is paid.
    pub account: Address,
    /// The account is paid while its balance is below this.
    pub floor: Wei,
    /// The balance that a payment restores.
    pub target: Wei,
    /// The most that is paid within [`CAP_WINDOW`].
    pub daily_cap: Wei,
    /// At most one payment is made in each period, counted from 1970.
    pub period: Duration,
}

/// A payment that was made before, in whatever state it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopUpPayment {
    pub tx_id: TxId,
    pub request_id: RequestId,
    /// The account that is paid; `None` if the payload can't be read.
    pub paid: Option<(Address, Wei)>,
    pub state: TxState,
    /// When it was accepted, by the database's clock.
    pub created_at: Timestamp,
}

impl TopUpPayment {
    /// The payment that a transaction makes; `None` if it has no request id.
    pub fn of(record: TxRecord) -> Option<Self> {
        let intent = Intent::from_payload(&record.payload).ok();
        Some(Self {
            tx_id: record.tx_id,
            request_id: record.request_id?,
            paid: intent.and_then(|intent| Some((intent.to?, Wei(intent.value)))),
            state: record.row.state,
            created_at: record.created_at,
        })
    }

    /// A failed transaction moved nothing, and a final state never changes (I9).
    const fn may_have_paid(&self) -> bool {
        !matches!(self.state, TxState::Failed(_))
    }

    /// A payload of a later version may pay any account.
    fn may_pay(&self, account: Address) -> bool {
        self.paid.is_none_or(|(to, _)| to == account)
    }
}

/// The facts about one account, read in this order: the time, the payments, the balance. So the balance has every payment
/// that is final here.
#[derive(Clone, Copy, Debug)]
pub struct TopUpView<'a> {
    /// The database's clock.
    pub now: Timestamp,
    /// As endpoints agree (I16).
    pub balance: Wei,
    /// The newest payments of the funding account, to whichever account, newest first.
    pub payments: &'a [TopUpPayment],
    /// There are older payments that are not among them.
    pub is_partial: bool,
}

/// The decision about one account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopUpDecision {
    /// The balance is not below the floor.
    Enough,
    /// Pay this amount.
    Pay(TopUp),
    /// The balance is below the floor, and nothing is paid now.
    Wait(TopUpWait),
}

/// A payment to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopUp {
    pub request_id: RequestId,
    pub to: Address,
    pub amount: Wei,
}

/// The reason why nothing is paid to an account below its floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopUpWait {
    /// A payment is not final yet.
    Open(TxId),
    /// The payment of this period was made.
    PaidInPeriod(TxId),
    /// The period is about to end.
    PeriodEnds,
    /// The payments of the last 24 hours reach the cap, or there are too many to be counted.
    CapReached { paid: Option<Wei> },
}

impl TopUpWait {
    /// True if the account stays below its floor until a person acts or a day passes.
    pub const fn needs_attention(&self) -> bool {
        matches!(self, Self::CapReached { .. })
    }
}

impl fmt::Display for TopUpWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(tx_id) => write!(f, "payment {tx_id} is not final yet"),
            Self::PaidInPeriod(tx_id) => write!(f, "payment {tx_id} was made in this period"),
            Self::PeriodEnds => f.write_str("the period is about to end"),
            Self::CapReached { paid: Some(_) } => f.write_str("the daily cap is reached"),
            Self::CapReached { paid: None } => {
                f.write_str("there are too many payments to count them against the daily cap")
            }
        }
    }
}

impl TopUpRule {
    /// The request id of the payment in the period of a time.
    ///
    /// # Errors
    /// Never: the text is short and plain. The caller need not know that.
    pub fn request_id(&self, now: Timestamp) -> Result<RequestId, InvalidValue> {
        let (chain, account, period) = (self.chain_id, self.account, self.period_of(now));
        RequestId::new(format!("{REQUEST_PREFIX}{chain}:{account}:{period}"))
    }

    fn period_micros(&self) -> i64 {
        i64::try_from(self.period.max(PERIOD_MIN).as_micros()).unwrap_or(i64::MAX)
    }

    /// The number of the period that contains a time.
    fn period_of(&self, now: Timestamp) -> i64 {
        now.unix_micros().div_euclid(self.period_micros())
    }

    fn is_about_to_end(&self, now: Timestamp) -> bool {
        self.period_of(now) != self.period_of(now.after(QUIET))
    }

    /// Decides about the account.
    ///
    /// # Errors
    /// As [`Self::request_id`].
    pub fn decide(&self, view: TopUpView<'_>) -> Result<TopUpDecision, InvalidValue> {
        if view.balance.0 >= self.floor.0 {
            return Ok(TopUpDecision::Enough);
        }
        let request_id = self.request_id(view.now)?;
        Ok(match self.waits_for(view, &request_id) {
            Some(wait) => TopUpDecision::Wait(wait),
            None => self.payment(view, request_id),
        })
    }

    fn waits_for(&self, view: TopUpView<'_>, request_id: &RequestId) -> Option<TopUpWait> {
        let own = || view.payments.iter().filter(|payment| payment.may_pay(self.account));
        // What is under way may arrive: it must not be paid twice because the balance does not show it yet.
        if let Some(open) = own().find(|payment| !payment.state.is_final()) {
            return Some(TopUpWait::Open(open.tx_id));
        }
        if let Some(made) = view.payments.iter().find(|payment| payment.request_id == *request_id) {
            return Some(TopUpWait::PaidInPeriod(made.tx_id));
        }
        self.is_about_to_end(view.now).then_some(TopUpWait::PeriodEnds)
    }

    fn payment(&self, view: TopUpView<'_>, request_id: RequestId) -> TopUpDecision {
        let capped = |paid| TopUpDecision::Wait(TopUpWait::CapReached { paid });
        let since = view.now.before(CAP_WINDOW);
        let recent = |payment: &&TopUpPayment| payment.created_at > since;
        // The list is ordered: if its last payment is old enough, no recent one is missing.
        if view.is_partial && view.payments.last().as_ref().is_some_and(recent) {
            return capped(None);
        }
        let counted = view.payments.iter().filter(recent);
        let counted = counted.filter(|it| it.may_have_paid() && it.may_pay(self.account));
        let amounts: Option<Vec<U256>> =
            counted.map(|payment| payment.paid.map(|(_, amount)| amount.0)).collect();
        let Some(amounts) = amounts else { return capped(None) };
        let paid = amounts.into_iter().fold(U256::ZERO, U256::saturating_add);
        // I16: never more than the cap allows, and never above the target.
        let missing = self.target.0.saturating_sub(view.balance.0);
        let amount = missing.min(self.daily_cap.0.saturating_sub(paid));
        match amount.is_zero() {
            true => capped(Some(Wei(paid))),
            false => {
                let (to, amount) = (self.account, Wei(amount));
                TopUpDecision::Pay(TopUp { request_id, to, amount })
            }
        }
    }
}
