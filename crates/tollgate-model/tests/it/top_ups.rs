//! When accounts below their floor are paid, and how much.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_model::top_up::{
    CAP_WINDOW, PERIOD_MIN, TopUp, TopUpDecision, TopUpPayment, TopUpRule, TopUpView, TopUpWait,
};
use tollgate_model::{
    Address, ChainId, Failed, Queued, RequestId, Timestamp, TxId, TxState, U256, Wei,
};
use uuid::Uuid;

const ACCOUNT: Address = Address::repeat_byte(7);
const QUEUED: TxState = TxState::Queued(Queued::Waiting);

fn wei(amount: u64) -> Wei {
    Wei(U256::from(amount))
}

/// A time well inside of an hour.
fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(500_000 * 3_600 + 600 + seconds))
}

fn rule() -> TopUpRule {
    TopUpRule {
        chain_id: ChainId::new(8453).unwrap(),
        account: ACCOUNT,
        floor: wei(10),
        target: wei(100),
        daily_cap: wei(150),
        period: Duration::from_secs(3_600),
    }
}

fn payment(number: u128, amount: u64, created_at: Timestamp, state: TxState) -> TopUpPayment {
    TopUpPayment {
        tx_id: TxId::from_uuid(Uuid::from_u128(number)),
        request_id: rule().request_id(created_at).unwrap(),
        paid: Some((ACCOUNT, wei(amount))),
        state,
        created_at,
    }
}

fn decide(now: Timestamp, balance: u64, payments: &[TopUpPayment]) -> TopUpDecision {
    let view = TopUpView { now, balance: wei(balance), payments, is_partial: false };
    rule().decide(view).unwrap()
}

fn paid(decision: &TopUpDecision) -> Option<U256> {
    match decision {
        TopUpDecision::Pay(TopUp { amount, .. }) => Some(amount.0),
        TopUpDecision::Enough | TopUpDecision::Wait(_) => None,
    }
}

#[test]
fn account_below_its_floor_is_paid_up_to_its_target_under_the_id_of_the_period() {
    assert_eq!(decide(at(0), 10, &[]), TopUpDecision::Enough);
    let TopUpDecision::Pay(top_up) = decide(at(0), 9, &[]) else { panic!("nothing is paid") };
    assert_eq!((top_up.to, top_up.amount), (ACCOUNT, wei(91)));
    let id = "topup:8453:0x0707070707070707070707070707070707070707:500000";
    assert_eq!(top_up.request_id, RequestId::new(id).unwrap());
}

#[test]
fn payment_under_way_of_this_period_or_at_its_end_is_waited_for() {
    let hour = 3_600;
    let open = payment(1, 91, at(0), QUEUED);
    let waits = |wait| TopUpDecision::Wait(wait);
    let made = std::slice::from_ref(&open);
    assert_eq!(decide(at(hour), 9, made), waits(TopUpWait::Open(open.tx_id)));
    let failed = [payment(2, 91, at(0), TxState::Failed(Failed::Reverted))];
    assert_eq!(decide(at(1), 9, &failed), waits(TopUpWait::PaidInPeriod(failed[0].tx_id)));
    assert_eq!(paid(&decide(at(hour), 9, &failed)), Some(U256::from(91)), "the next period");
    let end = hour - 600;
    assert_eq!(decide(at(end - 60), 9, &[]), waits(TopUpWait::PeriodEnds));
    assert!(paid(&decide(at(end - 61), 9, &[])).is_some());
    assert!(paid(&decide(at(end), 9, &[])).is_some());
}

#[test]
fn cap_counts_what_was_paid_to_the_account_in_24_hours_and_may_have_arrived() {
    let first = payment(1, 100, at(0), TxState::Confirmed);
    let failed = payment(2, 100, at(3_600), TxState::Failed(Failed::Cancelled));
    let other = TopUpPayment {
        paid: Some((Address::ZERO, wei(100))),
        ..payment(3, 0, at(7_200), TxState::Confirmed)
    };
    let made = [other, failed, first];
    assert_eq!(paid(&decide(at(3 * 3_600), 9, &made)), Some(U256::from(50)), "the rest");
    let second = payment(4, 50, at(3 * 3_600), TxState::Confirmed);
    let made = [vec![second], made.to_vec()].concat();
    let reached = TopUpDecision::Wait(TopUpWait::CapReached { paid: Some(wei(150)) });
    assert_eq!(decide(at(4 * 3_600), 9, &made), reached);
    assert_eq!(paid(&decide(at(CAP_WINDOW.as_secs()), 9, &made)), Some(U256::from(91)));
}

#[test]
fn payments_that_can_not_be_counted_stop_top_ups() {
    let unread = TopUpPayment { paid: None, ..payment(1, 0, at(0), TxState::Confirmed) };
    let uncounted = TopUpDecision::Wait(TopUpWait::CapReached { paid: None });
    assert_eq!(decide(at(3_600), 9, std::slice::from_ref(&unread)), uncounted);
    let open = TopUpPayment { state: QUEUED, ..unread.clone() };
    let waits = TopUpDecision::Wait(TopUpWait::Open(open.tx_id));
    assert_eq!(decide(at(3_600), 9, &[open]), waits, "it may pay any account");

    let known = [payment(1, 1, at(0), TxState::Confirmed)];
    let view = |now, is_partial| TopUpView { now, balance: wei(9), payments: &known, is_partial };
    assert_eq!(rule().decide(view(at(3_600), true)), Ok(uncounted));
    let later = rule().decide(view(at(CAP_WINDOW.as_secs()), true)).unwrap();
    assert!(paid(&later).is_some(), "what is missing is older than a day");
}

#[test]
fn period_below_the_least_counts_as_the_least() {
    let short = TopUpRule { period: Duration::ZERO, ..rule() };
    let least = TopUpRule { period: PERIOD_MIN, ..rule() };
    assert_eq!(short.request_id(at(0)), least.request_id(at(0)));
}

/// The events between two decisions.
#[derive(Clone, Copy, Debug)]
struct Step {
    seconds: u64,
    /// The account spends so much.
    spent: u64,
    /// The end of the open payment.
    end: Option<TxState>,
    /// The decision is carried out: the node did not die before it.
    is_created: bool,
    /// The balance that is read does not have the last payment yet.
    lags: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        Just(None),
        Just(Some(TxState::Confirmed)),
        Just(Some(TxState::Failed(Failed::Cancelled))),
    ];
    let rest = (0_u64..20_000, 0_u64..120, end, any::<bool>(), any::<bool>());
    rest.prop_map(|(seconds, spent, end, is_created, lags)| Step {
        seconds,
        spent,
        end,
        is_created,
        lags,
    })
}

fn amount(payment: &TopUpPayment) -> u64 {
    payment.paid.unwrap().1.0.to::<u64>()
}

proptest! {
    #[test]
    fn payments_keep_to_the_period_the_cap_and_the_target_whatever_happens_between_decisions(
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let (rule, mut now, mut balance) = (rule(), 0, 50_u64);
        let mut payments: Vec<TopUpPayment> = Vec::new();
        for (number, step) in (0_u128..).zip(&steps) {
            now += step.seconds;
            balance = balance.saturating_sub(step.spent);
            let mut arrived = 0;
            if let (Some(end), Some(newest)) = (step.end, payments.first_mut())
                && !newest.state.is_final()
            {
                newest.state = end;
                arrived = if end == TxState::Confirmed { amount(newest) } else { 0 };
            }
            balance += arrived;
            let read = if step.lags { balance - arrived } else { balance };
            let decision = decide(at(now), read, &payments);
            prop_assert_eq!(&decision, &decide(at(now), read, &payments), "two nodes");
            let TopUpDecision::Pay(top_up) = decision else { continue };
            prop_assert!(wei(read).0 < rule.floor.0 && wei(read).0 + top_up.amount.0 <= rule.target.0);
            prop_assert!(payments.iter().all(|payment| payment.state.is_final()), "one at a time");
            let is_used = payments.iter().any(|payment| payment.request_id == top_up.request_id);
            prop_assert!(!is_used, "one in a period");
            if step.is_created {
                let pays = top_up.amount.0.to::<u64>();
                payments.insert(0, payment(number, pays, at(now), QUEUED));
            }
        }
        for newest in &payments {
            let since = newest.created_at.before(CAP_WINDOW);
            let window = payments.iter().filter(|other| {
                other.created_at > since && other.created_at <= newest.created_at
            });
            let may_have_paid = window.filter(|other| !matches!(other.state, TxState::Failed(_)));
            prop_assert!(wei(may_have_paid.map(amount).sum()) <= rule.daily_cap, "I16");
        }
    }
}
