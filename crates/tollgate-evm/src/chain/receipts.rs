//! Reads receipts: all of a block in one call or one by one, whichever is cheaper for this block and
//! endpoint.
//!
//! Owns no state. A receipt of another block than the one that was asked for is never taken.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{BlockReceipts, BlockRef, ChainUnavailable};
use tollgate_model::port::{ReceiptDetails, TxReceipt};
use tollgate_model::{B256, GasPrice, Route, TxHash, Wei};

use super::disagreements::{Basis, Claim, Subject};
use super::pool_member::PoolMember;
use super::replay::add_revert_reason;
use super::revert_reason::reason;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::json::{BlockJson, ReceiptJson, quantity};
use crate::endpoint::{Capability, RpcError};

/// Single receipts in flight for one block.
const IN_FLIGHT: usize = 16;

/// The assumed cost of a receipt within a bulk call, as a share of a single call, for an endpoint that
/// has not been measured.
const SHARE_IN_BULK: f64 = 0.15;

/// Returns whether to fetch all receipts of a block of this size to get `ours` of them.
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
            // Only a few single calls overlap, because the node has a limited number of cores.
            1.0 + seconds / latency.as_secs_f64() * 4.0
        }
        _ => 1.0 + size * SHARE_IN_BULK,
    };
    bulk_calls < ours
}

pub(super) fn mined_in(wire: &ReceiptJson) -> Option<TxReceipt> {
    // Receipts from before Byzantium have a root instead of a status. One with neither does not tell
    // how the transaction ended.
    let succeeded = match (wire.status, wire.root) {
        (Some(status), _) => status.0 == 1,
        (None, Some(_)) => true,
        (None, None) => return None,
    };
    let price = wire.effective_gas_price.and_then(|price| GasPrice::from_wei(price.0).ok());
    Some(TxReceipt {
        tx_hash: wire.transaction_hash.0,
        block_number: wire.block_number?.0,
        block_hash: wire.block_hash?.0,
        gas_used: wire.gas_used.0,
        succeeded,
        revert_reason: wire.revert_reason.as_ref().map(|data| reason(&data.0)),
        details: ReceiptDetails {
            transaction_index: wire.transaction_index.map(|index| index.0),
            effective_gas_price: price,
            l1_fee: wire.l1_fee.map(|fee| Wei(fee.0)),
            // Nodes name the address of a failed deployment, too.
            contract_address: wire.contract_address.map(|to| to.0).filter(|_| succeeded),
            block_time: None,
        },
    })
}

/// Receipts of these transactions in this very block, each from the first endpoint that has it.
///
/// Receipts that one endpoint lacks are read from the next one, also if it shows the block without the
/// transaction: the caller has seen the transaction in a block of that hash.
pub(super) async fn receipts(
    router: &Router,
    block: &BlockRef,
    size: Option<usize>,
    of: &[TxHash],
) -> BlockReceipts {
    let readers = router.readers(Needs::Block(block.number), Instant::now());
    let (mut found, mut wanted, mut problems) = (Vec::new(), of.to_vec(), Vec::new());
    let (mut elsewhere, mut contradictions) = (0, Vec::new());
    for member in &readers {
        let query = ReceiptQuery { router, member, at: (block.number, block.hash), size };
        match query.read(&mut wanted, &mut found).await {
            Ok(true) => {}
            Ok(false) => {
                elsewhere += 1;
                problems.push(format!("{}: has another block there", member.endpoint.name()));
            }
            Err(problem) => {
                let (name, why) = (member.endpoint.name(), problem.why);
                problems.push(format!("{name}: {why}"));
                contradictions.extend(problem.has_block.then(|| Claim::new(name, why)));
            }
        }
        if wanted.is_empty() {
            // Another endpoint has what an endpoint with the same block lacks.
            let subject = Subject { what: "receipts", of: "" };
            let used = "all receipts";
            router.disagreements.note(
                subject,
                used,
                &contradictions,
                (Basis::Evidence, Duration::ZERO),
            );
            break;
        }
    }
    let problem = if wanted.is_empty() {
        None
    } else if elsewhere > 0 && elsewhere == readers.len() {
        Some("every endpoint shows another block at that height".to_owned())
    } else {
        Some(unavailable("receipts", &problems).0)
    };
    BlockReceipts { found, problem }
}

/// A question to one endpoint for receipts of a block.
pub(super) struct ReceiptQuery<'a> {
    pub(super) router: &'a Router,
    pub(super) member: &'a PoolMember,
    /// The number and hash of the block.
    pub(super) at: (u64, B256),
    /// The number of transactions in the block, if known.
    pub(super) size: Option<usize>,
}

/// The reason why an endpoint did not deliver all receipts.
pub(super) struct ReceiptProblem {
    pub(super) why: String,
    /// The endpoint has the block.
    pub(super) has_block: bool,
    /// The transactions that the endpoint's block lacks.
    pub(super) absent: Vec<TxHash>,
}

impl From<String> for ReceiptProblem {
    fn from(why: String) -> Self {
        Self { why, has_block: false, absent: Vec::new() }
    }
}

impl ReceiptQuery<'_> {
    /// Moves the receipts of this endpoint from `wanted` to `found`. False if the endpoint has another
    /// block at that height.
    pub(super) async fn read(
        &self,
        wanted: &mut Vec<TxHash>,
        found: &mut Vec<TxReceipt>,
    ) -> Result<bool, ReceiptProblem> {
        let at_once = self.bulk_is_cheaper(wanted.len());
        let mut error = None;
        if at_once {
            error = settle(self.bulk(wanted).await, wanted, found);
        }
        if !wanted.is_empty() && (!at_once || error.is_some()) {
            error = self.one_by_one(wanted, found).await;
        }
        if wanted.is_empty() {
            return Ok(true);
        }
        // It may lack the receipts and the block alike.
        let Some(held) = self.transactions().await? else { return Ok(false) };
        if wanted.iter().any(|hash| held.contains(hash)) && !at_once && self.has_bulk() {
            error = settle(self.bulk(wanted).await, wanted, found).or(error);
        }
        if wanted.is_empty() {
            return Ok(true);
        }
        let (missing, absent): (Vec<TxHash>, Vec<TxHash>) =
            wanted.iter().partition(|hash| held.contains(*hash));
        let why = error.map(|error| format!(": {error}")).unwrap_or_default();
        let why = match (missing.len(), absent.len()) {
            (0, absent) => format!("shows the block without {absent} of the transactions{why}"),
            (missing, 0) => {
                format!("has the block, but not all its receipts ({missing} missing){why}")
            }
            (missing, absent) => format!(
                "has the block, but not all its receipts ({missing} missing), and shows it without \
                 {absent} of the transactions{why}"
            ),
        };
        Err(ReceiptProblem { why, has_block: true, absent })
    }

    /// The block's transactions by this endpoint; `None` if it has another block there.
    async fn transactions(&self) -> Result<Option<HashSet<TxHash>>, String> {
        let params = json!([quantity(self.at.0), false]);
        let deadline = self.router.deadline();
        let call = self.member.endpoint.call_until("eth_getBlockByNumber", params, deadline);
        let there: Option<BlockJson> = call.await.map_err(|error| error.to_string())?;
        let there = there.ok_or("does not have the block")?;
        let is_it = there.at().map(|at| at.hash) == Some(self.at.1);
        Ok(is_it.then(|| there.transactions().into_iter().collect()))
    }

    fn has_bulk(&self) -> bool {
        self.member.endpoint.capabilities().may_have(Capability::BlockReceipts, Instant::now())
    }

    fn bulk_is_cheaper(&self, ours: usize) -> bool {
        let endpoint = &self.member.endpoint;
        let latency = endpoint.health().latency_seconds;
        let latency = latency.map_or(Duration::ZERO, Duration::from_secs_f64);
        let size = self.size.unwrap_or(ours);
        self.has_bulk() && bulk_is_cheaper(ours, size, latency, endpoint.capabilities().bulk())
    }

    /// All receipts of the block in one call.
    async fn bulk(&self, wanted: &[TxHash]) -> Result<Vec<TxReceipt>, RpcError> {
        let (endpoint, begun) = (&self.member.endpoint, Instant::now());
        let params = json!([quantity(self.at.0)]);
        let deadline = self.router.deadline();
        let all: Result<Option<Vec<ReceiptJson>>, _> =
            endpoint.call_until("eth_getBlockReceipts", params, deadline).await;
        match all {
            Ok(all) => {
                let all = all.unwrap_or_default();
                endpoint.capabilities().bulk_took(all.len(), begun.elapsed());
                let receipts = all.iter().filter_map(mined_in);
                Ok(receipts.filter(|receipt| receipt.block_hash == self.at.1).collect())
            }
            Err(error) => {
                if error.is_method_missing() {
                    endpoint.capabilities().lacks(Capability::BlockReceipts, begun);
                } else {
                    // Too long or too slow: single calls may work.
                    let size = self.size.unwrap_or(wanted.len());
                    endpoint.capabilities().bulk_took(size, begun.elapsed());
                }
                Err(error)
            }
        }
    }

    /// One call for each receipt. A failed call does not affect the others; after many failures in a row
    /// the rest is not asked for. Returns the last error.
    async fn one_by_one(
        &self,
        wanted: &mut Vec<TxHash>,
        found: &mut Vec<TxReceipt>,
    ) -> Option<RpcError> {
        // A large block may take long; each call has the endpoint's own time-out.
        let extra = self.router.config.read_deadline * (wanted.len() / 500) as u32;
        let deadline = self.router.deadline() + extra;
        let mut answers = stream::iter(wanted.clone())
            .map(|hash| {
                let params = json!([hash.to_string()]);
                let endpoint = &self.member.endpoint;
                endpoint.call_until::<Option<ReceiptJson>>(
                    "eth_getTransactionReceipt",
                    params,
                    deadline,
                )
            })
            .buffered(IN_FLIGHT);
        let (mut error, mut errors_in_a_row) = (None, 0);
        while let Some(answer) = answers.next().await {
            errors_in_a_row = if answer.is_err() { errors_in_a_row + 1 } else { 0 };
            let receipt = answer.map(|receipt| {
                let receipt = receipt.as_ref().and_then(mined_in);
                receipt.filter(|receipt| receipt.block_hash == self.at.1)
            });
            error = settle(receipt, wanted, found).or(error);
            if errors_in_a_row >= IN_FLIGHT {
                break;
            }
        }
        error
    }
}

/// Moves the receipts that were read from `wanted` to `found`; returns the error, if there was one.
fn settle(
    read: Result<impl IntoIterator<Item = TxReceipt>, RpcError>,
    wanted: &mut Vec<TxHash>,
    found: &mut Vec<TxReceipt>,
) -> Option<RpcError> {
    match read {
        Ok(receipts) => {
            let missing: HashSet<TxHash> = wanted.iter().copied().collect();
            let before = found.len();
            found.extend(receipts.into_iter().filter(|one| missing.contains(&one.tx_hash)));
            let read: HashSet<TxHash> = found[before..].iter().map(|one| one.tx_hash).collect();
            wanted.retain(|hash| !read.contains(hash));
            None
        }
        Err(error) => Some(error),
    }
}

/// The receipt of one transaction. `None` only if no endpoint that answers has it.
pub(super) async fn receipt(
    router: &Router,
    of: TxHash,
    route: Route,
) -> Result<Option<TxReceipt>, ChainUnavailable> {
    let readers = router.readers_on(route, Instant::now());
    let mut absent = false;
    let found = router
        .read(&readers, "eth_getTransactionReceipt", json!([of.to_string()]), |member, answer| {
            let receipt: Option<ReceiptJson> = answer.map_err(|e: RpcError| e.to_string())?;
            // A receipt of another transaction is no answer.
            let receipt = receipt.as_ref().and_then(mined_in).filter(|mined| mined.tx_hash == of);
            absent |= receipt.is_none();
            receipt.map(|receipt| (member.clone(), receipt)).ok_or("not found".to_owned())
        })
        .await;
    match found {
        Ok((member, mut receipt)) => {
            add_revert_reason(router, &member, &mut receipt).await;
            Ok(Some(receipt))
        }
        Err(_) if absent => Ok(None),
        Err(error) => Err(error),
    }
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
    fn node_with_slow_bulk_receipts_is_asked_one_by_one() {
        // Measured: 1,000 in 151 ms; single ones take 1 ms.
        let measured = Some((1_000, 151 * MS));
        assert!(bulk_is_cheaper(1_000, 1_000, MS, measured));
        assert!(!bulk_is_cheaper(5_000, 5_000, MS, measured));
        assert!(bulk_is_cheaper(100, 100, MS, measured));
    }
}
