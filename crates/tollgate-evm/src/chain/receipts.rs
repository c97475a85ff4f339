//! Receipts: of a block in one call or of single transactions, whichever is cheaper for this block
//! and this endpoint.
//!
//! Owns no state. Never takes a receipt of another block for one of the block that was asked for.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::MinedIn;
use tollgate_model::port::chain::{BlockRef, ChainUnavailable};
use tollgate_model::{Text, TxHash};

use super::member::Member;
use super::reason::{reason, reason_in};
use super::router::{Needs, Router, unavailable};
use super::trial::class_of;
use crate::endpoint::wire::{BlockWire, ReceiptWire, TransactionWire, quantity};
use crate::endpoint::{Ability, RpcError};
use tollgate_model::answer::AnswerClass;

/// Single receipts in flight for one block.
const IN_FLIGHT: usize = 16;

/// How many failed transactions of a block are asked for their reason: it is a courtesy.
const REASONS_MAX: usize = 32;

/// What is assumed of an endpoint that has not been measured: a receipt within a block's costs
/// this share of a call of its own.
const SHARE_IN_BULK: f64 = 0.15;

/// Whether to fetch all receipts of a block of this size for the sake of `ours`.
///
/// A measured endpoint is expected to take time in proportion for smaller blocks, and with the
/// square of the size for larger ones: some nodes really do (seven seconds for five thousand).
fn bulk_is_cheaper(
    ours: usize,
    size: usize,
    latency: Duration,
    measured: Option<(usize, Duration)>,
) -> bool {
    let (ours, size) = (ours as f64, size as f64);
    let bulk_calls = match measured {
        Some((before, took)) if before > 0 && !latency.is_zero() => {
            let grown = size / before as f64;
            let seconds = took.as_secs_f64() * if grown > 1.0 { grown * grown } else { grown };
            // A few single calls overlap; no more, because the node has only so many cores.
            1.0 + seconds / latency.as_secs_f64() * 4.0
        }
        _ => 1.0 + size * SHARE_IN_BULK,
    };
    bulk_calls < ours
}

pub(super) fn mined_in(wire: &ReceiptWire) -> Option<MinedIn> {
    Some(MinedIn {
        tx_hash: wire.transaction_hash.0,
        block_number: wire.block_number?.0,
        block_hash: wire.block_hash?.0,
        gas_used: wire.gas_used.0,
        // Receipts of the time before Byzantium have none.
        succeeded: wire.status.is_none_or(|status| status.0 == 1),
        revert_reason: wire.revert_reason.as_ref().map(|data| reason(&data.0)),
    })
}

/// Receipts of these transactions in this very block.
pub(super) async fn receipts(
    router: &Router,
    block: &BlockRef,
    size: Option<usize>,
    of: &[TxHash],
) -> Result<Vec<MinedIn>, ChainUnavailable> {
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let mut refusals = Vec::new();
    let mut elsewhere = false;
    for member in router.readers(Needs::Block(block.number), Instant::now()) {
        let checked = match of_member(router, &member, block, size, of).await {
            Ok(found) => check(router, &member, block, of, found).await,
            Err(error) => Err(error.to_string()),
        };
        match checked {
            Ok(Some(mut found)) => {
                explain(router, &member, &mut found).await;
                return Ok(found);
            }
            Ok(None) => elsewhere = true,
            Err(why) => refusals.push(format!("{}: {why}", member.endpoint.name())),
        }
    }
    // All who have that height have another block there: it left the chain.
    if elsewhere { Ok(Vec::new()) } else { Err(unavailable("receipts", &refusals)) }
}

/// Makes sure that a receipt which was not found is not in the block: a node may lack it and the
/// block alike. `None` if the endpoint has another block at that height.
async fn check(
    router: &Router,
    member: &Member,
    block: &BlockRef,
    of: &[TxHash],
    found: Vec<MinedIn>,
) -> Result<Option<Vec<MinedIn>>, String> {
    let have: HashSet<_> = found.iter().map(|receipt| receipt.tx_hash).collect();
    let missing: HashSet<_> = of.iter().copied().filter(|hash| !have.contains(hash)).collect();
    if missing.is_empty() {
        return Ok(Some(found));
    }
    let params = json!([quantity(block.number), false]);
    let call = member.endpoint.call_until("eth_getBlockByNumber", params, router.deadline());
    let there: Option<BlockWire> = call.await.map_err(|error| error.to_string())?;
    let there = there.ok_or("does not have the block")?;
    if there.at().map(|at| at.hash) != Some(block.hash) {
        return Ok(None);
    }
    match there.transactions().iter().any(|hash| missing.contains(hash)) {
        true => Err("has the block, but not all its receipts".to_owned()),
        false => Ok(Some(found)),
    }
}

async fn of_member(
    router: &Router,
    member: &Member,
    block: &BlockRef,
    size: Option<usize>,
    of: &[TxHash],
) -> Result<Vec<MinedIn>, RpcError> {
    let (endpoint, now) = (&member.endpoint, Instant::now());
    let latency = endpoint.health().latency_seconds.map_or(Duration::ZERO, Duration::from_secs_f64);
    let bulk = endpoint.abilities().may_have(Ability::BlockReceipts, now)
        && bulk_is_cheaper(
            of.len(),
            size.unwrap_or(of.len()),
            latency,
            endpoint.abilities().bulk(),
        );
    if bulk {
        let params = json!([quantity(block.number)]);
        let begun = Instant::now();
        let all: Result<Option<Vec<ReceiptWire>>, _> =
            endpoint.call_until("eth_getBlockReceipts", params, router.deadline()).await;
        match all {
            Ok(all) => {
                let all = all.unwrap_or_default();
                endpoint.abilities().bulk_took(all.len(), begun.elapsed());
                let wanted: HashSet<_> = of.iter().collect();
                let ours = all.iter().filter_map(mined_in).filter(|receipt| {
                    receipt.block_hash == block.hash && wanted.contains(&receipt.tx_hash)
                });
                return Ok(ours.collect());
            }
            Err(error) if error.is_method_missing() => {
                endpoint.abilities().lacks(Ability::BlockReceipts, now);
            }
            // Too long, too slow: one by one it may go.
            Err(_) => endpoint.abilities().bulk_took(size.unwrap_or(of.len()), begun.elapsed()),
        }
    }
    // A large block takes as long as it takes; each call has the endpoint's own limit.
    let deadline = router.deadline() + router.config.read_deadline * (of.len() / 500) as u32;
    let singles: Vec<_> = stream::iter(of.iter().copied())
        .map(|hash| {
            endpoint.call_until::<Option<ReceiptWire>>(
                "eth_getTransactionReceipt",
                json!([hash.to_string()]),
                deadline,
            )
        })
        .buffered(IN_FLIGHT)
        .collect()
        .await;
    let mut found = Vec::new();
    for single in singles {
        found.extend(single?.as_ref().and_then(mined_in));
    }
    found.retain(|receipt| receipt.block_hash == block.hash);
    Ok(found)
}

/// The receipt of one transaction. `None` only if nobody who answers has it.
pub(super) async fn receipt(
    router: &Router,
    of: TxHash,
) -> Result<Option<MinedIn>, ChainUnavailable> {
    let readers = router.readers(Needs::Head, Instant::now());
    let mut absent = false;
    let found = router
        .read(&readers, "eth_getTransactionReceipt", json!([of.to_string()]), |member, answer| {
            let receipt: Option<ReceiptWire> = answer.map_err(|e: RpcError| e.to_string())?;
            // A receipt that is not this transaction's is no answer to anything.
            let receipt = receipt.as_ref().and_then(mined_in).filter(|mined| mined.tx_hash == of);
            absent |= receipt.is_none();
            receipt.map(|receipt| (member.clone(), receipt)).ok_or("not found".to_owned())
        })
        .await;
    match found {
        Ok((member, receipt)) => {
            let mut one = [receipt];
            explain(router, &member, &mut one).await;
            let [receipt] = one;
            Ok(Some(receipt))
        }
        Err(_) if absent => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds what the contracts said to the receipts of failures, as far as that can be found out.
pub(super) async fn explain(router: &Router, member: &Arc<Member>, receipts: &mut [MinedIn]) {
    let failed = receipts.iter_mut().filter(|r| !r.succeeded && r.revert_reason.is_none());
    for receipt in failed.take(REASONS_MAX) {
        receipt.revert_reason = replay(router, member, receipt).await;
    }
}

/// Runs a failed transaction again on the state before its block. That is not quite the state that
/// it met, so what comes out is for people only.
async fn replay(router: &Router, member: &Member, receipt: &MinedIn) -> Option<Text<2000>> {
    let deadline = router.deadline();
    let hash = json!([receipt.tx_hash.to_string()]);
    let call = member.endpoint.call_until("eth_getTransactionByHash", hash, deadline);
    let tx: TransactionWire = call.await.ok().flatten()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn few_of_a_large_block_are_fetched_one_by_one_and_many_at_once() {
        assert!(!bulk_is_cheaper(1, 1, MS, None));
        assert!(!bulk_is_cheaper(1, 200, MS, None));
        assert!(!bulk_is_cheaper(10, 200, MS, None));
        assert!(bulk_is_cheaper(50, 200, MS, None));
        assert!(bulk_is_cheaper(1_000, 1_000, MS, None));
    }

    #[test]
    fn a_node_whose_bulk_receipts_are_slow_is_asked_one_by_one() {
        // Measured: 1,000 in 151 ms; single ones take 1 ms.
        let measured = Some((1_000, 151 * MS));
        assert!(bulk_is_cheaper(1_000, 1_000, MS, measured));
        assert!(!bulk_is_cheaper(5_000, 5_000, MS, measured));
        assert!(bulk_is_cheaper(100, 100, MS, measured));
    }
}
