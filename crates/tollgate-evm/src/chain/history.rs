//! An account's past: how far it had counted at a block.
//!
//! Owns no counts, only since when a single endpoint tells them. A number means a block only as long as the endpoint that is asked has the same
//! block there. Nodes without old states say so with an error, which is never evidence, or count
//! zero (Besu): that is too low, which only delays.

use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{ChainUnavailable, PastCount};
use tollgate_model::{Address, B256, Nonce};

use super::counts::agreed;
use super::member::Member;
use super::router::{Needs, Router, unavailable};
use super::voices::LoneVoice;
use crate::endpoint::RpcError;
use crate::endpoint::wire::{BlockWire, Quantity, quantity};

/// How many endpoints are asked for a count in the past.
const VOTERS_MAX: usize = 3;

/// Since when past counts have been one endpoint's word. Endpoints differ in which states they keep,
/// whatever the account.
#[derive(Debug, Default)]
pub(super) struct PastCounts {
    lone: Mutex<LoneVoice>,
}

/// One endpoint, asked about one account.
struct Asked<'a> {
    member: &'a Member,
    of: Address,
    deadline: Instant,
}

/// An account's count in the block of this number, by the word of two endpoints where several are
/// configured ([`LoneVoice`]): too high a count makes a slot look used (I8).
pub(super) async fn count_at(
    router: &Router,
    past: &PastCounts,
    of: Address,
    number: u64,
) -> Result<PastCount, ChainUnavailable> {
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
    let in_block = readings.iter().filter(|(hash, _)| *hash == block);
    let counts: Vec<u64> = in_block.map(|(_, count)| *count).collect();
    let (configured, after) = (router.readers_configured(), router.config.lone_voice_after);
    let mut lone = past.lone.lock().unwrap_or_else(PoisonError::into_inner);
    if !lone.is_enough(counts.len(), configured, Instant::now(), after) {
        refusals.push("one endpoint's word alone".to_owned());
        return Err(unavailable("a past count", &refusals));
    }
    let nonce = |count| Nonce::new(count).map_err(|error| ChainUnavailable(error.to_string()));
    let highest = counts.iter().copied().max().unwrap_or_default();
    let count = agreed(counts).unwrap_or_default();
    Ok(PastCount { count: nonce(count)?, highest: nonce(highest)? })
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

impl Asked<'_> {
    async fn block(&self, which: &str) -> Result<Option<BlockWire>, RpcError> {
        let params = json!([which, false]);
        self.member.insist("eth_getBlockByNumber", params, self.deadline).await
    }

    async fn count(&self, number: u64) -> Result<u64, RpcError> {
        let params = json!([self.of.to_string(), quantity(number)]);
        let count = self.member.insist("eth_getTransactionCount", params, self.deadline).await;
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
}
