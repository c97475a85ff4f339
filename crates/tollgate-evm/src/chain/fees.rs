//! What a transaction has to pay now.
//!
//! Owns a quote for a short time. Knows no caps: what is too dear is the engine's business. Finds
//! out by itself what the chain and its nodes have: a base fee or none, `eth_feeHistory` or not.

use std::time::Duration;

use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tollgate_model::GasPrice;
use tollgate_model::port::chain::{ChainUnavailable, FeeQuote, Speed};

use super::member::Member;
use super::router::{Needs, Router};
use crate::endpoint::wire::{FeeHistoryWire, Quantity};
use crate::endpoint::{Ability, RpcError};

/// How many blocks are looked back on.
const BLOCKS: u64 = 10;
/// The tip of the cheapest, the middle and the dearest tenth: slow, normal, fast.
const PERCENTILES: [f64; 3] = [10.0, 50.0, 90.0];
/// What is offered where nobody has paid anything and no node has an opinion: one gwei.
const TIP_UNKNOWN: u128 = 1_000_000_000;
/// No pool takes less.
const TIP_MIN: u128 = 1;
/// What a speed pays of a single price, in percent.
const SCALE: [u128; 3] = [100, 110, 125];
/// For how long an old quote stands in where no new one can be had.
const STALE_MAX: Duration = Duration::from_secs(60);
/// How long a new quote is waited for where an old one can stand in: everybody who signs waits.
const STAND_IN_PATIENCE: Duration = Duration::from_secs(2);
/// A failure that took so long is not repeated for each caller …
const FAILURE_IS_SLOW: Duration = Duration::from_millis(500);
/// … but believed for this long.
const FAILURE_BELIEVED: Duration = Duration::from_secs(5);

/// Quotes of the three speeds.
type Quotes = [FeeQuote; 3];

/// The last quotes. The lock is held while new ones are fetched, so that a thousand callers ask
/// once; for no longer than one read may take.
#[derive(Debug, Default)]
pub(super) struct FeeCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    last: Option<(Quotes, Instant)>,
    /// Why nothing came of the last try, if that took long.
    failed: Option<(ChainUnavailable, Instant)>,
}

impl Known {
    fn younger_than(&self, limit: Duration) -> Option<Quotes> {
        self.last.filter(|(_, at)| at.elapsed() < limit).map(|(quotes, _)| quotes)
    }

    fn recent_failure(&self) -> Option<ChainUnavailable> {
        let failed = self.failed.as_ref().filter(|(_, at)| at.elapsed() < FAILURE_BELIEVED);
        failed.map(|(why, _)| why.clone())
    }
}

/// A quote that is new enough.
pub(super) async fn quote(
    router: &Router,
    cache: &FeeCache,
    speed: Speed,
) -> Result<FeeQuote, ChainUnavailable> {
    let mut known = cache.known.lock().await;
    if let Some(quotes) = known.younger_than(router.config.fee_cache) {
        return Ok(quotes[speed as usize]);
    }
    let stand_in = known.younger_than(STALE_MAX);
    let missing = |error| stand_in.map(|quotes| quotes[speed as usize]).ok_or(error);
    if let Some(error) = known.recent_failure() {
        return missing(error);
    }
    let patience = if stand_in.is_some() { STAND_IN_PATIENCE } else { Duration::MAX };
    let begun = Instant::now();
    let error = match timeout(patience.min(router.config.read_deadline), fetch(router)).await {
        Ok(Ok(quotes)) => {
            *known = Known { last: Some((quotes, Instant::now())), failed: None };
            return Ok(quotes[speed as usize]);
        }
        Ok(Err(error)) => error,
        Err(_) => ChainUnavailable("no quote of fees in time".to_owned()),
    };
    if begun.elapsed() > FAILURE_IS_SLOW {
        known.failed = Some((error.clone(), Instant::now()));
    }
    missing(error)
}

async fn fetch(router: &Router) -> Result<Quotes, ChainUnavailable> {
    let now = Instant::now();
    let readers = router.readers(Needs::Head, now);
    let head = readers.iter().find_map(|member| member.head().filter(|h| h.has_base_fee.is_some()));
    let Some(head) = head else {
        return Err(ChainUnavailable("no endpoint has told its head yet".to_owned()));
    };
    if head.has_base_fee == Some(false) {
        return legacy(gas_price(router).await?);
    }
    let able: Vec<_> = readers
        .iter()
        .filter(|member| member.endpoint.abilities().may_have(Ability::FeeHistory, now))
        .cloned()
        .collect();
    let params = json!([format!("{BLOCKS:#x}"), "latest", PERCENTILES]);
    let history = router
        .read(&able, "eth_feeHistory", params, |member, answer| {
            let history: FeeHistoryWire = answer.map_err(|error| refusal(member, &error, now))?;
            let base = history.base_fee_per_gas.last().ok_or("no base fee in it")?.0;
            Ok((base, tips(&history)))
        })
        .await;
    let (base, tips) = match history {
        Ok((base, Some(tips))) => (base, tips),
        // Blocks without a transaction tell the base fee, but no tip.
        Ok((base, None)) => (base, scaled(tip(router, base).await)),
        // A block changes the base fee by an eighth at most, and twice of it is offered anyway.
        Err(_) => {
            let base = head.base_fee.unwrap_or_default();
            (base, scaled(tip(router, base).await))
        }
    };
    dynamic(base, tips)
}

fn refusal(member: &Member, error: &RpcError, now: Instant) -> String {
    if error.is_method_missing() {
        member.endpoint.abilities().lacks(Ability::FeeHistory, now);
    }
    error.to_string()
}

async fn gas_price(router: &Router) -> Result<u128, ChainUnavailable> {
    let price: Quantity<u128> = router.ask(Needs::Head, "eth_gasPrice", json!([])).await?;
    Ok(price.0)
}

/// A tip where no history tells one.
async fn tip(router: &Router, base: u128) -> u128 {
    let now = Instant::now();
    let mut able = router.readers(Needs::Head, now);
    able.retain(|member| member.endpoint.abilities().may_have(Ability::PriorityFee, now));
    let method = "eth_maxPriorityFeePerGas";
    let asked = router.read(&able, method, json!([]), |member, answer| {
        answer.map_err(|error: RpcError| {
            if error.is_method_missing() {
                member.endpoint.abilities().lacks(Ability::PriorityFee, now);
            }
            error.to_string()
        })
    });
    match asked.await {
        Ok(Quantity::<u128>(tip)) => tip,
        Err(_) => match gas_price(router).await {
            Ok(price) if price > base => price - base,
            _ => TIP_UNKNOWN,
        },
    }
}

/// The middle of what was paid at each percentile, over the blocks that held anything.
fn tips(history: &FeeHistoryWire) -> Option<[u128; 3]> {
    let rewards = history.reward.as_ref()?;
    let full: Vec<_> = rewards
        .iter()
        .zip(history.gas_used_ratio.iter().chain(std::iter::repeat(&1.0)))
        .filter(|(row, ratio)| **ratio > 0.0 && row.len() == PERCENTILES.len())
        .map(|(row, _)| row)
        .collect();
    if full.is_empty() {
        return None;
    }
    let mut least = TIP_MIN;
    Some(std::array::from_fn(|place| {
        let mut column: Vec<_> = full.iter().map(|row| row[place].0).collect();
        column.sort_unstable();
        // Faster is never cheaper, whatever the nodes say.
        least = column[column.len() / 2].max(least);
        least
    }))
}

fn scaled(price: u128) -> [u128; 3] {
    SCALE.map(|percent| (price.saturating_mul(percent) / 100).max(TIP_MIN))
}

fn price(wei: u128) -> Result<GasPrice, ChainUnavailable> {
    GasPrice::from_wei(wei).map_err(|error| ChainUnavailable(error.to_string()))
}

/// Twice the base fee leaves room for six full blocks in a row.
fn dynamic(base: u128, tips: [u128; 3]) -> Result<Quotes, ChainUnavailable> {
    let [slow, normal, fast] = tips.map(|tip| {
        Ok(FeeQuote {
            base_fee: Some(price(base)?),
            max_fee: price(base.saturating_mul(2).saturating_add(tip))?,
            max_priority_fee: Some(price(tip)?),
        })
    });
    Ok([slow?, normal?, fast?])
}

fn legacy(gas_price: u128) -> Result<Quotes, ChainUnavailable> {
    let [slow, normal, fast] = scaled(gas_price)
        .map(|wei| Ok(FeeQuote { base_fee: None, max_fee: price(wei)?, max_priority_fee: None }));
    Ok([slow?, normal?, fast?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(rewards: &[[u128; 3]], ratios: &[f64]) -> FeeHistoryWire {
        let reward = rewards.iter().map(|row| row.iter().map(|tip| Quantity(*tip)).collect());
        FeeHistoryWire {
            base_fee_per_gas: vec![Quantity(7)],
            gas_used_ratio: ratios.to_vec(),
            reward: Some(reward.collect()),
        }
    }

    #[test]
    fn the_middle_block_decides_and_empty_ones_do_not_count() {
        let rows = [[1, 2, 3], [10, 20, 30], [5, 6, 7], [0, 0, 0]];
        assert_eq!(tips(&history(&rows, &[0.5, 1.0, 0.1, 0.0])), Some([5, 6, 7]));
        assert_eq!(tips(&history(&[[0, 0, 0]], &[0.0])), None);
        assert_eq!(tips(&history(&[[9, 4, 6]], &[0.5])), Some([9, 9, 9]), "faster is not cheaper");
        assert_eq!(tips(&history(&[[0, 0, 6]], &[0.5])), Some([1, 1, 6]), "nothing is too little");
    }

    #[test]
    fn a_quote_leaves_room_for_the_base_fee_to_double() {
        let [slow, _, fast] = dynamic(100, [1, 2, 3]).unwrap();
        assert_eq!((slow.max_fee.wei(), fast.max_fee.wei()), (201, 203));
        assert!(dynamic(u128::MAX, [1, 2, 3]).is_err());
        let [slow, normal, fast] = legacy(1_000).unwrap();
        assert_eq!(slow.max_priority_fee, None);
        assert_eq!([slow, normal, fast].map(|quote| quote.max_fee.wei()), [1_000, 1_100, 1_250]);
    }
}
