//! Looks for the receipts of a slot's attempts at every endpoint.
//!
//! Owns no state, judges nothing: what follows from the words is for [`tollgate_model::reconcile`].
//! An endpoint says "not there" only if it had executed the slot *before* it was asked for the
//! receipts: its count is read first, because one that is read later may be of a block that the
//! receipts were not looked for in (I8).

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::port::MinedIn;
use tollgate_model::port::chain::SlotSearch;
use tollgate_model::reconcile::Looked;
use tollgate_model::{Address, Nonce, TxHash};

use super::member::{Member, Standing};
use super::receipts::{explain, mined_in};
use super::router::Router;
use crate::endpoint::wire::{Quantity, ReceiptWire};
use crate::endpoint::{RpcError, RpcErrorKind};

/// One endpoint's word on one attempt, with the receipt if there is one.
type Word = (Looked, Option<MinedIn>);

/// Asks everybody at once.
pub(super) async fn search(
    router: &Router,
    of: Address,
    nonce: Nonce,
    attempts: &[TxHash],
) -> SlotSearch {
    let now = Instant::now();
    let witnesses = router.witnesses(now);
    let words = join_all(witnesses.iter().map(async |(member, standing)| match standing {
        Standing::Good => {
            let deadline = router.patience(member, now);
            ask(member, of, nonce, attempts, deadline).await
        }
        // It may be on another chain, where the slot is another one.
        Standing::Unchecked | Standing::Refused(_) => silence(attempts),
    }))
    .await;
    let of_attempt = |place: usize| words.iter().map(move |words| words[place].0).collect();
    let looked = (0..attempts.len()).map(of_attempt).collect();
    let found = first_found(&witnesses, &words, attempts.len());
    SlotSearch {
        looked,
        found: match found {
            Some((member, mut receipt)) => {
                explain(router, member, &mut receipt).await;
                Some(receipt)
            }
            None => None,
        },
    }
}

/// The receipt of the first attempt that has one, by the best endpoint that has it.
fn first_found<'a>(
    witnesses: &'a [(Arc<Member>, Standing)],
    words: &[Vec<Word>],
    attempts: usize,
) -> Option<(&'a Arc<Member>, MinedIn)> {
    (0..attempts).find_map(|place| {
        witnesses.iter().zip(words).find_map(|((member, _), words)| {
            words[place].1.clone().map(|receipt| (member, receipt))
        })
    })
}

fn silence(attempts: &[TxHash]) -> Vec<Word> {
    attempts.iter().map(|_| (Looked::NoAnswer, None)).collect()
}

async fn ask(
    member: &Member,
    of: Address,
    nonce: Nonce,
    attempts: &[TxHash],
    deadline: Instant,
) -> Vec<Word> {
    let endpoint = &member.endpoint;
    let params = json!([of.to_string(), "latest"]);
    let count = endpoint.call_until("eth_getTransactionCount", params, deadline).await;
    let without = match count {
        Ok(Quantity(count)) if count > nonce.get() => Looked::NotThere,
        Ok(Quantity::<u64>(_)) => Looked::Behind,
        // A receipt is a receipt whatever the count; that there is none says nothing without it.
        Err(RpcError { kind: RpcErrorKind::Node | RpcErrorKind::Unreadable, .. }) => {
            Looked::NoAnswer
        }
        Err(_) => return silence(attempts),
    };
    let params: Vec<Value> = attempts.iter().map(|hash| json!([hash.to_string()])).collect();
    let receipts = endpoint.each_until("eth_getTransactionReceipt", &params, deadline).await;
    attempts.iter().zip(receipts).map(|(hash, answer)| word(*hash, answer, without)).collect()
}

/// What an answer means. Only an answer without a receipt is "none"; an error never is, nor a
/// receipt that is not this transaction's or in no block.
fn word(of: TxHash, answer: Result<Option<ReceiptWire>, RpcError>, without: Looked) -> Word {
    match answer {
        Ok(None) => (without, None),
        Ok(Some(wire)) => match mined_in(&wire).filter(|mined| mined.tx_hash == of) {
            Some(mined) => (Looked::Found, Some(mined)),
            None => (Looked::NoAnswer, None),
        },
        Err(_) => (Looked::NoAnswer, None),
    }
}
