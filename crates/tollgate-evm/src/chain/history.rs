//! An account's past: how far it had counted at a block, and who used a slot.
//!
//! Owns no state. A number means a block only as long as the endpoint that is asked has the same
//! block there. Nodes without old states say so with an error, which is never evidence, or count
//! zero (Besu): that is too low, which only delays.

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::ChainUnavailable;
use tollgate_model::{Address, B256, Nonce, TxHash};

use super::counts::agreed;
use super::member::Member;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::wire::{BlockWire, FullBlockWire, Quantity, quantity};
use crate::endpoint::{RpcError, RpcErrorKind};

/// How many endpoints are asked for a count in the past.
const VOTERS_MAX: usize = 3;
/// How many times the limit of a read the search for an occupant may take, with all endpoints.
const PATIENCE: u32 = 3;
/// Whole blocks in flight at once.
const IN_FLIGHT: usize = 4;

/// One endpoint, asked about one account.
struct Asked<'a> {
    member: &'a Member,
    of: Address,
    deadline: Instant,
}

/// An account's count in the block of this number, by the word of two endpoints where there are
/// two: too high a count makes a slot look used (I8).
pub(super) async fn count_at(
    router: &Router,
    of: Address,
    number: u64,
) -> Result<Nonce, ChainUnavailable> {
    if router.head().is_none_or(|head| number > head.number) {
        return Err(ChainUnavailable(format!("there is no block {number} yet")));
    }
    let voters = router.voters(Needs::Block(number), VOTERS_MAX, Instant::now());
    let deadline = router.deadline_of(&voters);
    let answers = join_all(voters.iter().map(async |member| {
        let asked = Asked { member, of, deadline };
        (member.endpoint.name(), asked.steady_count(number).await)
    }))
    .await;
    let (mut readings, mut refusals) = (Vec::new(), Vec::new());
    for (name, answer) in answers {
        match answer {
            Ok(reading) => readings.push(reading),
            Err(why) => refusals.push(format!("{name}: {why}")),
        }
    }
    let Some(block) = same_block(&readings) else {
        let differ = || ChainUnavailable(format!("the endpoints differ about block {number}"));
        let nobody = readings.is_empty();
        return Err(if nobody { unavailable("a past count", &refusals) } else { differ() });
    };
    let counts = readings.iter().filter(|(hash, _)| *hash == block).map(|(_, count)| *count);
    let nonce = |count| Nonce::new(count).map_err(|error| ChainUnavailable(error.to_string()));
    nonce(agreed(counts).unwrap_or_default())
}

/// The block that all have who answered, or else one that two have.
fn same_block(readings: &[(B256, u64)]) -> Option<B256> {
    let (first, rest) = readings.split_first()?;
    if rest.iter().all(|(hash, _)| *hash == first.0) {
        return Some(first.0);
    }
    let had_by = |hash: B256| readings.iter().filter(|(other, _)| *other == hash).count();
    readings.iter().map(|(hash, _)| *hash).find(|hash| had_by(*hash) >= 2)
}

/// The hash of the transaction in an account's slot, if one of the last `lookback` blocks holds it.
/// Each endpoint is asked for its own view until one has it; `None` if those that could tell have
/// none.
pub(super) async fn occupant(
    router: &Router,
    of: Address,
    nonce: Nonce,
    lookback: u64,
) -> Result<Option<TxHash>, ChainUnavailable> {
    let until = Instant::now() + router.config.read_deadline * PATIENCE;
    let readers = router.readers(Needs::Head, Instant::now());
    let (mut has_none, mut refusals) = (false, Vec::new());
    for (place, member) in readers.iter().enumerate() {
        let now = Instant::now();
        // One that hangs must not use up the time of those behind it.
        let share = until.saturating_duration_since(now) / (readers.len() - place) as u32;
        let asked = Asked { member, of, deadline: now + share };
        match asked.find(nonce.get(), lookback).await {
            Ok(Some(hash)) => return Ok(Some(hash)),
            Ok(None) => has_none = true,
            Err(error) => refusals.push(format!("{}: {error}", member.endpoint.name())),
        }
    }
    if has_none { Ok(None) } else { Err(unavailable("the occupant of a slot", &refusals)) }
}

impl Asked<'_> {
    async fn block(&self, which: &str) -> Result<Option<BlockWire>, RpcError> {
        let params = json!([which, false]);
        self.member.endpoint.call_until("eth_getBlockByNumber", params, self.deadline).await
    }

    async fn count(&self, number: u64) -> Result<u64, RpcError> {
        let params = json!([self.of.to_string(), quantity(number)]);
        let endpoint = &self.member.endpoint;
        let count = endpoint.call_until("eth_getTransactionCount", params, self.deadline).await;
        count.map(|count: Quantity<u64>| count.0)
    }

    /// The count, with the hash of the block that the endpoint had before and after.
    async fn steady_count(&self, number: u64) -> Result<(B256, u64), String> {
        let hash = async || {
            let block = self.block(&quantity(number)).await.map_err(|error| error.to_string())?;
            let at = block.and_then(|block| block.at()).filter(|at| at.number == number);
            at.map(|at| at.hash).ok_or_else(|| "does not have the block".to_owned())
        };
        let before = hash().await?;
        let count = self.count(number).await.map_err(|error| error.to_string())?;
        match hash().await? == before {
            true => Ok((before, count)),
            false => Err("the block was replaced meanwhile".to_owned()),
        }
    }

    /// Looks for the block in which the count passed the nonce, from the head downwards: the newer a
    /// state, the more nodes have it.
    async fn find(&self, nonce: u64, lookback: u64) -> Result<Option<TxHash>, String> {
        let said = |error: RpcError| error.to_string();
        let head = self.block("latest").await.map_err(said)?.and_then(|block| block.at());
        let head = head.ok_or("does not tell its head")?.number;
        if self.count(head).await.map_err(said)? <= nonce {
            return Ok(None);
        }
        let oldest = head.saturating_sub(lookback);
        // Used in `to`; unused before `from`, once that is known.
        let (mut from, mut to, mut step) = (None, head, 1_u64);
        while from.is_none_or(|from| from < to) {
            let probe = match from {
                Some(from) => from + (to - from) / 2,
                None if to > oldest => to.saturating_sub(step).max(oldest),
                // The whole range is behind: was it used before?
                None => match oldest.checked_sub(1) {
                    Some(before) => before,
                    None => break,
                },
            };
            match self.count(probe).await {
                Ok(count) if count > nonce && probe < oldest => return Ok(None),
                Ok(count) if count > nonce => to = probe,
                Ok(_) => from = Some(probe + 1),
                // It has no such state any more, or yet: its blocks it may have.
                Err(error) if error.kind == RpcErrorKind::Node => {
                    return self.walk(from.unwrap_or(oldest), to, nonce).await;
                }
                Err(error) => return Err(said(error)),
            }
            step = step.saturating_mul(2);
        }
        match self.walk(to, to, nonce).await? {
            Some(hash) => Ok(Some(hash)),
            // Some nodes (Besu) count zero where they have no state any more: it may be older.
            None if to > oldest => self.walk(oldest, to - 1, nonce).await,
            None => Ok(None),
        }
    }

    /// Looks into whole blocks, from the highest down.
    async fn walk(&self, from: u64, to: u64, nonce: u64) -> Result<Option<TxHash>, String> {
        let numbers = stream::iter((from..=to).rev());
        let whole = numbers.map(|number| {
            let params = json!([quantity(number), true]);
            self.member.endpoint.call_until("eth_getBlockByNumber", params, self.deadline)
        });
        let mut blocks = whole.buffered(IN_FLIGHT);
        while let Some(block) = blocks.next().await {
            let block: Option<FullBlockWire> =
                block.map_err(|error: RpcError| error.to_string())?;
            // Not to have a block is no word on what is in it.
            let FullBlockWire { transactions } = block.ok_or("lacks a block below its head")?;
            let its = transactions.iter().filter(|tx| tx.from.is_some_and(|at| at.0 == self.of));
            let mut below = false;
            for tx in its {
                let Some(Quantity(used)) = tx.nonce else { continue };
                if used == nonce {
                    return Ok(Some(tx.hash.0));
                }
                below |= used < nonce;
            }
            // What is older has lower nonces only.
            if below {
                return Ok(None);
            }
        }
        Ok(None)
    }
}
