//! What an account has, and what the newest blocks allow: what intake judges by.

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{ChainLimits, ChainUnavailable, Funds};
use tollgate_model::{Address, Nonce, U256, Wei};

use super::router::{Needs, Router, unavailable};
use crate::endpoint::wire::Quantity;

/// How many endpoints are asked what an account has.
const ASKED_MAX: usize = 3;

/// What each of the endpoints that count says. The count is read after the balance, so that whatever
/// it counts is off the balance that is compared with it, or the balance is too high: never too low.
pub(super) async fn funds(router: &Router, of: Address) -> Result<Vec<Funds>, ChainUnavailable> {
    let asked = router.voters(Needs::Head, ASKED_MAX, Instant::now());
    let deadline = router.deadline_of(&asked);
    let words = join_all(asked.iter().map(async |member| {
        let params = json!([of.to_string(), "latest"]);
        let endpoint = &member.endpoint;
        let word = async {
            let balance = endpoint.call_until("eth_getBalance", params.clone(), deadline).await?;
            let count = endpoint.call_until("eth_getTransactionCount", params, deadline).await?;
            Ok((balance, count))
        };
        let word: Result<(Quantity<U256>, Quantity<u64>), crate::endpoint::RpcError> = word.await;
        let (balance, count) = word.map_err(|error| format!("{}: {error}", endpoint.name()))?;
        let mined = Nonce::new(count.0).map_err(|error| format!("{}: {error}", endpoint.name()))?;
        Ok::<_, String>(Funds { balance: Wei(balance.0), mined })
    }))
    .await;
    let (mut funds, mut refusals) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            Ok(word) => funds.push(word),
            Err(why) => refusals.push(why),
        }
    }
    if funds.is_empty() { Err(unavailable("eth_getBalance", &refusals)) } else { Ok(funds) }
}

/// What the heads of the endpoints show. One that says less than the others refuses nothing by itself.
pub(super) fn limits(router: &Router) -> ChainLimits {
    let readers = router.members.iter().filter(|member| member.reads() && member.is_good());
    let heads: Vec<_> = readers.filter_map(|member| member.head()).collect();
    ChainLimits {
        // Chains without a limit of their own say zero.
        block_gas: heads.iter().filter_map(|head| head.gas_limit).filter(|gas| *gas > 0).max(),
        has_calldata_floor: !heads.is_empty() && heads.iter().all(|head| head.has_requests),
    }
}
