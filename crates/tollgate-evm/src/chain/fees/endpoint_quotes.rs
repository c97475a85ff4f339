//! The fee quotes of one endpoint.
//!
//! Owns no state. Adapts to the chain and its nodes: with or without a base fee, with or without
//! `eth_feeHistory`.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::GasPrice;
use tollgate_model::port::chain::FeeQuote;

use super::Quotes;
use crate::chain::pool_member::PoolMember;
use crate::endpoint::json::{FeeHistoryJson, Quantity};
use crate::endpoint::{Capability, RpcError};

/// Past blocks that tips are read from.
const BLOCKS: u64 = 10;
/// The percentiles of the tips of a block for slow, normal and fast.
const PERCENTILES: [f64; 3] = [10.0, 50.0, 90.0];
/// The tip if neither blocks nor the node suggest one: one gwei.
const TIP_UNKNOWN: u128 = 1_000_000_000;
/// The lowest tip that pools accept.
const TIP_MIN: u128 = 1;
/// The share of a single price that each speed pays, in percent.
const SCALE: [u128; 3] = [100, 110, 125];

/// The quotes of one endpoint.
pub(super) async fn quotes_of(member: &PoolMember, deadline: Instant) -> Result<Quotes, String> {
    let known = || member.head().filter(|head| head.has_base_fee.is_some());
    if known().is_none() {
        // Its watcher has just begun.
        member.refresh_head().await.map_err(|error| error.to_string())?;
    }
    let head = known().ok_or("has not reported its head yet")?;
    if head.has_base_fee == Some(false) {
        return legacy(gas_price(member, deadline).await.map_err(|error| error.to_string())?);
    }
    let (base, tips) = match history(member, deadline).await {
        Some((base, Some(tips))) => (base, tips),
        // Empty blocks have a base fee, but no tips.
        Some((base, None)) => (base, scaled(tip(member, base, deadline).await?)),
        // A block changes the base fee by an eighth at most, and twice the base fee is offered.
        None => {
            let base = head.base_fee.unwrap_or_default();
            (base, scaled(tip(member, base, deadline).await?))
        }
    };
    dynamic(base, tips)
}

/// The next base fee and recent tips, if the endpoint has the method.
async fn history(member: &PoolMember, deadline: Instant) -> Option<(u128, Option<[u128; 3]>)> {
    let params = json!([format!("{BLOCKS:#x}"), "latest", PERCENTILES]);
    let history: FeeHistoryJson =
        call(member, Capability::FeeHistory, "eth_feeHistory", params, deadline).await?;
    Some((history.base_fee_per_gas.last()?.0, tips(&history)))
}

/// Calls a method that not every node has. A node that lacks it is not asked for it again for a while.
async fn call<T: DeserializeOwned>(
    member: &PoolMember,
    capability: Capability,
    method: &'static str,
    params: Value,
    deadline: Instant,
) -> Option<T> {
    let (capabilities, now) = (member.endpoint.capabilities(), Instant::now());
    if !capabilities.may_have(capability, now) {
        return None;
    }
    match member.endpoint.call_until(method, params, deadline).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            if error.is_method_missing() {
                capabilities.lacks(capability, now);
            }
            None
        }
    }
}

async fn gas_price(member: &PoolMember, deadline: Instant) -> Result<u128, RpcError> {
    let price = member.endpoint.call_until("eth_gasPrice", json!([]), deadline).await;
    price.map(|Quantity::<u128>(price)| price)
}

/// A tip where the history has none. An endpoint that can't be asked has none, because its last head may
/// be old.
async fn tip(member: &PoolMember, base: u128, deadline: Instant) -> Result<u128, String> {
    let method = "eth_maxPriorityFeePerGas";
    if let Some(Quantity::<u128>(tip)) =
        call(member, Capability::PriorityFee, method, json!([]), deadline).await
    {
        return Ok(tip);
    }
    match gas_price(member, deadline).await {
        Ok(price) if price > base => Ok(price - base),
        Ok(_) => Ok(TIP_UNKNOWN),
        Err(error) if error.is_method_missing() => Ok(TIP_UNKNOWN),
        Err(error) => Err(error.to_string()),
    }
}

/// The median of the tips at each percentile, over the blocks that are not empty.
pub(in crate::chain) fn tips(history: &FeeHistoryJson) -> Option<[u128; 3]> {
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
        // Faster is never cheaper.
        least = column[column.len() / 2].max(least);
        least
    }))
}

pub(in crate::chain) fn scaled(price: u128) -> [u128; 3] {
    SCALE.map(|percent| (price.saturating_mul(percent) / 100).max(TIP_MIN))
}

/// A quote, or why the node's numbers make none.
type Quoted = Result<FeeQuote, String>;

pub(super) fn price(wei: u128) -> Result<GasPrice, String> {
    GasPrice::from_wei(wei).map_err(|error| error.to_string())
}

/// Twice the base fee leaves room for six full blocks in a row.
pub(in crate::chain) fn dynamic(base: u128, tips: [u128; 3]) -> Result<Quotes, String> {
    let [slow, normal, fast] = tips.map(|tip| -> Quoted {
        Ok(FeeQuote {
            base_fee: Some(price(base)?),
            max_fee: price(base.saturating_mul(2).saturating_add(tip))?,
            max_priority_fee: Some(price(tip)?),
        })
    });
    Ok([slow?, normal?, fast?])
}

pub(in crate::chain) fn legacy(gas_price: u128) -> Result<Quotes, String> {
    let [slow, normal, fast] = scaled(gas_price).map(|wei| -> Quoted {
        Ok(FeeQuote { base_fee: None, max_fee: price(wei)?, max_priority_fee: None })
    });
    Ok([slow?, normal?, fast?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(rewards: &[[u128; 3]], ratios: &[f64]) -> FeeHistoryJson {
        let reward = rewards.iter().map(|row| row.iter().map(|tip| Quantity(*tip)).collect());
        FeeHistoryJson {
            base_fee_per_gas: vec![Quantity(7)],
            gas_used_ratio: ratios.to_vec(),
            reward: Some(reward.collect()),
        }
    }

    #[test]
    fn tips_are_the_median_of_the_blocks_that_are_not_empty() {
        let rows = [[1, 2, 3], [10, 20, 30], [5, 6, 7], [0, 0, 0]];
        assert_eq!(tips(&history(&rows, &[0.5, 1.0, 0.1, 0.0])), Some([5, 6, 7]));
        assert_eq!(tips(&history(&[[0, 0, 0]], &[0.0])), None);
        assert_eq!(tips(&history(&[[9, 4, 6]], &[0.5])), Some([9, 9, 9]), "faster is not cheaper");
        assert_eq!(tips(&history(&[[0, 0, 6]], &[0.5])), Some([1, 1, 6]), "nothing is too little");
    }

    #[test]
    fn quote_leaves_room_for_the_base_fee_to_double() {
        let [slow, _, fast] = dynamic(100, [1, 2, 3]).unwrap();
        assert_eq!((slow.max_fee.wei(), fast.max_fee.wei()), (201, 203));
        assert!(dynamic(u128::MAX, [1, 2, 3]).is_err());
        let [slow, normal, fast] = legacy(1_000).unwrap();
        assert_eq!(slow.max_priority_fee, None);
        assert_eq!([slow, normal, fast].map(|quote| quote.max_fee.wei()), [1_000, 1_100, 1_250]);
    }
}
