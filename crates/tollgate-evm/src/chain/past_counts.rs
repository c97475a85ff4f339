//! An account's transaction count at a past block.
//!
//! Owns no counts, only since when a single endpoint reports them. A block number means one block only
//! while the endpoint has the same block there before and after. Nodes without old states answer with
//! an error, which is never evidence, or count zero (Besu), which is too low and only delays.

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::count_mark::agreed;
use tollgate_model::port::chain::{ChainUnavailable, PastCount};
use tollgate_model::{Address, B256, Nonce};

use super::corroboration::ChainSource;
use super::disagreements::{Basis, Claim, LASTING, Subject};
use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::RpcError;
use crate::endpoint::json::{BlockJson, Quantity, quantity};

/// Endpoints that are asked for a past count.
const VOTERS_MAX: usize = 3;

/// A question to one endpoint about one account.
struct PastCountQuery<'a> {
    member: &'a PoolMember,
    of: Address,
    deadline: Instant,
}

/// An account's count in the block of this number, confirmed by two endpoints where several are
/// configured ([`ChainSource`]): a count that is too high makes a slot look used (I8).
pub(super) async fn count_at(
    router: &Router,
    source: &ChainSource,
    of: Address,
    number: u64,
) -> Result<PastCount, ChainUnavailable> {
    if router.head().is_none_or(|head| number > head.number) {
        return Err(ChainUnavailable(format!("there is no block {number} yet")));
    }
    let voters = router.voters(Needs::Block(number), VOTERS_MAX, Instant::now());
    let deadline = router.read_deadline_for(&voters);
    let answers = join_all(voters.iter().map(async |member| {
        let query = PastCountQuery { member, of, deadline };
        (member.endpoint.name(), query.steady_count(number).await)
    }))
    .await;
    let (mut readings, mut refusals, mut claims) = (Vec::new(), Vec::new(), Vec::new());
    for (name, answer) in answers {
        match answer {
            Ok(reading) => {
                claims.push(Claim::new(name, format!("{} in {}", reading.1, reading.0)));
                readings.push(reading);
            }
            Err(why) => refusals.push(format!("{name}: {why}")),
        }
    }
    let Some(block) = same_block(&readings) else {
        let differ = || ChainUnavailable(format!("the endpoints differ about block {number}"));
        let is_unanswered = readings.is_empty();
        return Err(if is_unanswered { unavailable("a past count", &refusals) } else { differ() });
    };
    let in_block = readings.iter().filter(|(hash, _)| *hash == block);
    let counts: Vec<u64> = in_block.map(|(_, count)| *count).collect();
    if !source.is_enough(counts.len(), router) {
        refusals.push("no second endpoint confirms it".to_owned());
        return Err(unavailable("a past count", &refusals));
    }
    let nonce = |count| Nonce::new(count).map_err(|error| ChainUnavailable(error.to_string()));
    let highest = counts.iter().copied().max().unwrap_or_default();
    let count = agreed(counts).unwrap_or_default();
    let subject = Subject { what: "past count", of: &of.to_string() };
    router.disagreements.note(
        subject,
        format!("{count} in {block}"),
        &claims,
        (Basis::Votes, LASTING),
    );
    Ok(PastCount { count: nonce(count)?, highest: nonce(highest)? })
}

/// The block that all endpoints that answered have, or else one that two have.
fn same_block(readings: &[(B256, u64)]) -> Option<B256> {
    let (first, rest) = readings.split_first()?;
    if rest.iter().all(|(hash, _)| *hash == first.0) {
        return Some(first.0);
    }
    let had_by = |hash: B256| readings.iter().filter(|(other, _)| *other == hash).count();
    readings.iter().map(|(hash, _)| *hash).find(|hash| had_by(*hash) >= 2)
}

impl PastCountQuery<'_> {
    async fn block(&self, which: &str) -> Result<Option<BlockJson>, RpcError> {
        let params = json!([which, false]);
        self.member.call_with_retries("eth_getBlockByNumber", params, self.deadline).await
    }

    async fn count(&self, number: u64) -> Result<u64, RpcError> {
        let params = json!([self.of.to_string(), quantity(number)]);
        let count =
            self.member.call_with_retries("eth_getTransactionCount", params, self.deadline).await;
        count.map(|count: Quantity<u64>| count.0)
    }

    /// The count, and the hash of the block that the endpoint had before and after it was read.
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
