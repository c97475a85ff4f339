//! Bumps.

use std::time::Duration;

use super::table;
use crate::nonce;
use tollgate_model::amount::GasPrice;
use tollgate_model::answer::AnswerClass;
use tollgate_model::bump::{BumpDecision, BumpRules, BumpView, Ceiling, decide};
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::fees::FeeCaps;
use tollgate_model::port::Fees;
use tollgate_model::port::chain::FeeQuote;
use tollgate_model::{Timestamp, TxHash};

fn wei(wei: u128) -> GasPrice {
    GasPrice::from_wei(wei).unwrap()
}

fn quote(base: u128, max_fee: u128, tip: u128) -> FeeQuote {
    FeeQuote { base_fee: Some(wei(base)), max_fee: wei(max_fee), max_priority_fee: Some(wei(tip)) }
}

/// Offers 100 with a tip of 10; the market wants 150 with a tip of 10.
fn view() -> BumpView {
    BumpView {
        may_sign: true,
        is_head: true,
        last: Fees { gas_limit: 21_000, max_fee: wei(100), max_priority_fee: Some(wei(10)) },
        last_at: Timestamp::EPOCH,
        bumps: 0,
        quote: quote(95, 150, 10),
        ceiling: Ceiling::default(),
        last_answer: Some(AnswerClass::Accepted),
        diagnosis: None,
    }
}

fn capped(price: u128) -> BumpView {
    let chain = FeeCaps { max_fee_per_gas: Some(wei(price)), max_tx_fee: None };
    BumpView { ceiling: Ceiling { chain, callers: None }, ..view() }
}

fn words(decision: BumpDecision) -> String {
    match decision {
        BumpDecision::Bump { to } => {
            let tip = to.max_priority_fee.map(|tip| format!(", tip {tip}")).unwrap_or_default();
            format!("bump to {}{tip}", to.max_fee)
        }
        BumpDecision::HoldAtCap { why } => {
            format!("alert, resend as it is: at the cap `{}`", why.name())
        }
        BumpDecision::NotPrice => "not the price: no action".to_owned(),
        BumpDecision::Wait { .. } => "waits".to_owned(),
        BumpDecision::Exhausted => "bumps used up: resend as it is".to_owned(),
        BumpDecision::Off => "off".to_owned(),
    }
}

pub(super) fn bump() -> String {
    let on = BumpRules { enabled: true, ..BumpRules::default() };
    let paid = BumpView { quote: quote(50, 80, 5), ..view() };
    let near = BumpView { quote: quote(95, 105, 10), ..view() };
    let legacy_fees = Fees { max_priority_fee: None, ..view().last };
    let legacy = BumpView { last: legacy_fees, ..near };
    let callers =
        BumpView { ceiling: Ceiling { callers: Some(wei(105)), ..Ceiling::default() }, ..view() };
    let said = |class, view: BumpView| BumpView { last_answer: Some(class), ..view };
    let pools = |diagnosis| BumpView { diagnosis: Some(diagnosis), ..view() };
    let lower = Diagnosis::BlockedByLowerNonce { nonce: nonce(1) };
    let another = Diagnosis::ReplacedByAnother { hash: TxHash::ZERO };
    let rows = [
        ("offers 100 and a tip of 10, the market price is 150", view(), 60),
        ("the market price is 105", near, 60),
        ("the market price is 105, legacy transaction", legacy, 60),
        ("the last attempt is 59 s old", view(), 59),
        ("10 bumps were made", BumpView { bumps: 10, ..view() }, 60),
        ("the chain's cap is 120", capped(120), 60),
        ("the chain's cap is 109, replacement needs 110", capped(109), 60),
        ("the caller's cap is 105", callers, 60),
        ("it pays the market price, and a node has it", paid, 60),
        (
            "it pays the market price, but nodes say `underpriced`",
            said(AnswerClass::Underpriced, paid),
            60,
        ),
        ("nodes say `insufficient_funds`", said(AnswerClass::InsufficientFunds, view()), 60),
        ("nodes say `fee_too_high`", said(AnswerClass::FeeTooHigh, view()), 60),
        ("it is not the head", BumpView { is_head: false, ..view() }, 60),
        ("mempools lack a lower nonce", pools(lower), 60),
        ("mempools hold another transaction in its slot", pools(another), 60),
        ("the caller signed it, or there is no key", BumpView { may_sign: false, ..view() }, 60),
    ];
    let row = |(situation, view, seconds): (&str, BumpView, u64)| {
        let now = Timestamp::EPOCH.after(Duration::from_secs(seconds));
        [situation.to_owned(), words(decide(&on, &view, now))]
    };
    let off = decide(&BumpRules::default(), &view(), Timestamp::EPOCH);
    let off = ["`gasbump.enabled` is not set".to_owned(), words(off)];
    table(["situation", "decision"], [off].into_iter().chain(rows.map(row)))
}
