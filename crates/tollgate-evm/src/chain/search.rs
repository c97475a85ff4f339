//! Searches every endpoint for the receipts of a slot's attempts, and any endpoint for a transaction.
//!
//! Owns no state; [`tollgate_model::reconcile`] judges the answers. "Not there" counts only if the
//! endpoint had executed the slot *before* it was asked for the receipts. Its count is read first: a
//! count that is read later may include a block that the receipts were not searched in (I8). Endpoints
//! that do not answer are left out of the result after one endpoint alone has answered for
//! [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after) (I15).

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{ChainUnavailable, SlotSearch, TxLocation};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, Nonce, Route, TxHash};

use super::corroboration::ChainSource;
use super::pool_member::{ChainCheck, PoolMember};
use super::receipts::mined_in;
use super::replay::add_revert_reason;
use super::router::{Router, unavailable};
use crate::endpoint::json::{Quantity, ReceiptJson, TransactionJson};
use crate::endpoint::{RpcError, RpcErrorKind};

/// One endpoint's answer about one attempt, with the receipt if there is one.
type ReceiptAnswer = (ReceiptLookup, Option<TxReceipt>);

/// Asks all endpoints at once.
pub(super) async fn search(
    router: &Router,
    source: &ChainSource,
    of: Address,
    nonce: Nonce,
    attempts: &[TxHash],
) -> SlotSearch {
    let now = Instant::now();
    let readers = router.all_readers(now);
    let answers = join_all(readers.iter().map(async |(member, chain_check)| match chain_check {
        ChainCheck::Passed => {
            let deadline = router.deadline_for(member, now);
            ask(member, of, nonce, attempts, deadline).await
        }
        // It may be on another chain, where the slot is another one.
        ChainCheck::Pending | ChainCheck::Failed(_) => no_answers(attempts),
    }))
    .await;
    let is_heard = |answers: &&Vec<ReceiptAnswer>| {
        answers.iter().any(|(answer, _)| *answer != ReceiptLookup::NoAnswer)
    };
    let heard = answers.iter().filter(is_heard).count();
    let is_alone = source.is_enough(heard, router) && heard == 1;
    let counted = || answers.iter().filter(|answers| !is_alone || is_heard(answers));
    let of_attempt = |place: usize| counted().map(move |answers| answers[place].0).collect();
    let looked = (0..attempts.len()).map(of_attempt).collect();
    let found = first_found(&readers, &answers, attempts.len());
    SlotSearch {
        looked,
        found: match found {
            Some((member, mut receipt)) => {
                add_revert_reason(router, member, &mut receipt).await;
                Some(receipt)
            }
            None => None,
        },
    }
}

/// The receipt of the first attempt that has one, by the best endpoint that has it.
fn first_found<'a>(
    readers: &'a [(Arc<PoolMember>, ChainCheck)],
    answers: &[Vec<ReceiptAnswer>],
    attempts: usize,
) -> Option<(&'a Arc<PoolMember>, TxReceipt)> {
    (0..attempts).find_map(|place| {
        readers.iter().zip(answers).find_map(|((member, _), answers)| {
            answers[place].1.clone().map(|receipt| (member, receipt))
        })
    })
}

fn no_answers(attempts: &[TxHash]) -> Vec<ReceiptAnswer> {
    attempts.iter().map(|_| (ReceiptLookup::NoAnswer, None)).collect()
}

async fn ask(
    member: &PoolMember,
    of: Address,
    nonce: Nonce,
    attempts: &[TxHash],
    deadline: Instant,
) -> Vec<ReceiptAnswer> {
    let endpoint = &member.endpoint;
    let params = json!([of.to_string(), "latest"]);
    let count = endpoint.call_until("eth_getTransactionCount", params, deadline).await;
    let without = match count {
        Ok(Quantity(count)) if count > nonce.get() => ReceiptLookup::NotThere,
        Ok(Quantity::<u64>(_)) => ReceiptLookup::Behind,
        // A receipt counts whatever the count; a missing one tells nothing without it.
        Err(RpcError { kind: RpcErrorKind::Node | RpcErrorKind::Unreadable, .. }) => {
            ReceiptLookup::NoAnswer
        }
        Err(_) => return no_answers(attempts),
    };
    let params: Vec<Value> = attempts.iter().map(|hash| json!([hash.to_string()])).collect();
    let receipts = endpoint.call_each_until("eth_getTransactionReceipt", &params, deadline).await;
    attempts.iter().zip(receipts).map(|(hash, answer)| read(*hash, answer, without)).collect()
}

/// Reads one answer. Only an answer without a receipt means "none"; neither an error nor a receipt of
/// another transaction or without a block does.
fn read(
    of: TxHash,
    answer: Result<Option<ReceiptJson>, RpcError>,
    without: ReceiptLookup,
) -> ReceiptAnswer {
    match answer {
        Ok(None) => (without, None),
        Ok(Some(wire)) => match mined_in(&wire).filter(|mined| mined.tx_hash == of) {
            Some(mined) => (ReceiptLookup::Found, Some(mined)),
            None => (ReceiptLookup::NoAnswer, None),
        },
        Err(_) => (ReceiptLookup::NoAnswer, None),
    }
}

/// Finds a transaction at any endpoint of its route.
pub(super) async fn sighting(
    router: &Router,
    of: TxHash,
    route: Route,
) -> Result<Option<TxLocation>, ChainUnavailable> {
    let now = Instant::now();
    let mut readers = router.readers_on(route, now);
    // Resting endpoints are not waited for, unless there are no others.
    let awake = readers.iter().take_while(|m| !m.endpoint.health().is_resting(now)).count();
    readers.truncate(awake.max(1));
    let deadline = router.read_deadline_for(&readers);
    let answers = join_all(readers.iter().map(async |member| {
        let params = json!([of.to_string()]);
        let call = member.endpoint.call_until("eth_getTransactionByHash", params, deadline);
        (member.endpoint.name(), call.await)
    }))
    .await;
    let (mut pending, mut answered, mut refusals) = (false, false, Vec::new());
    for (name, answer) in answers {
        let seen: Option<TransactionJson> = match answer {
            Ok(seen) => seen,
            Err(error) => {
                refusals.push(format!("{name}: {error}"));
                continue;
            }
        };
        answered = true;
        let Some(seen) = seen.filter(|seen| seen.hash.0 == of) else { continue };
        // One endpoint may have it in a block while another still has it in the pool.
        if let (Some(number), Some(hash)) = (seen.block_number, seen.block_hash) {
            return Ok(Some(TxLocation::InBlock { number: number.0, hash: hash.0 }));
        }
        pending = true;
    }
    match answered {
        true => Ok(pending.then_some(TxLocation::Pending)),
        false => Err(unavailable("eth_getTransactionByHash", &refusals)),
    }
}
