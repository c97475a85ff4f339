//! Finds out why a transaction failed, by running it again on the endpoints. For people, never evidence.
//!
//! Owns no state.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tollgate_model::Text;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::TxReceipt;

use super::estimate::class_of;
use super::pool_member::PoolMember;
use super::revert_reason::{agreed_reason, reason_in};
use super::router::{Needs, Router};
use super::votes::{further_patience, gather};
use crate::endpoint::json::{TransactionJson, quantity};

/// The longest wait of the reader of one receipt for the revert reason.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(1);
/// Endpoints that run it again together.
const ASKED_MAX: usize = 3;
/// The least time of further endpoints after the first one that tells a reason.
const FURTHER_REASONS_PATIENCE: Duration = Duration::from_millis(500);

/// Adds the revert reason to the receipt of a failure, if the endpoint that has the receipt tells it. Others are not
/// asked: of a private transaction they must not learn the hash while only that endpoint says that it is mined.
pub(super) async fn add_revert_reason(
    router: &Router,
    member: &PoolMember,
    receipt: &mut TxReceipt,
) {
    if !receipt.succeeded && receipt.revert_reason.is_none() {
        let soon = Instant::now() + EXPLAIN_WITHIN;
        receipt.revert_reason = replay(router, member, receipt, soon).await;
    }
}

/// The revert reason by several endpoints ([`agreed_reason`]); by the others in turn if these can't tell it.
pub(super) async fn revert_reason(router: &Router, of: &TxReceipt) -> Option<Text<2000>> {
    let readers = router.readers(Needs::Block(of.block_number), Instant::now());
    let (first, others) = readers.split_at(readers.len().min(ASKED_MAX));
    let deadline = router.deadline();
    let ask = async |member| replay(router, member, of, deadline).await.ok_or(());
    let asked = first.iter().map(|member| ask(member));
    let patience = further_patience(first, FURTHER_REASONS_PATIENCE);
    let (reasons, _) = gather(asked, deadline, patience).await;
    if let Some(reason) = agreed_reason(&reasons) {
        return Some(reason);
    }
    for member in others {
        if let Some(reason) = replay(router, member, of, router.deadline()).await {
            return Some(reason);
        }
    }
    None
}

/// Runs a failed transaction again on the state before its block. That may differ from the state at its
/// place in the block, so the result is for people only.
async fn replay(
    router: &Router,
    member: &PoolMember,
    receipt: &TxReceipt,
    deadline: Instant,
) -> Option<Text<2000>> {
    let hash = json!([receipt.tx_hash.to_string()]);
    let call = member.endpoint.call_until("eth_getTransactionByHash", hash, deadline);
    let tx: TransactionJson = call.await.ok().flatten()?;
    let mut object = json!({
        "from": tx.from.0.to_string(),
        "value": format!("{:#x}", tx.value.0),
        "data": tx.input.0.to_string(),
        "gas": quantity(tx.gas.0),
    });
    if let Some(to) = tx.to {
        object["to"] = json!(to.0.to_string());
    }
    let params = json!([object, quantity(receipt.block_number.saturating_sub(1))]);
    let call = member.endpoint.call_until::<serde_json::Value>("eth_call", params, deadline);
    let error = call.await.err()?;
    (class_of(router, &error) == AnswerClass::Reverted).then(|| reason_in(&error))
}
