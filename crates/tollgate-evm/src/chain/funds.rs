//! An account's balance, and the limits of the newest blocks. Intake checks creates against both.

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{ChainLimits, ChainUnavailable, Funds};
use tollgate_model::{Address, Nonce, U256, Wei};

use super::router::{Needs, Router, unavailable};
use crate::endpoint::json::Quantity;

/// Endpoints that are asked for a balance.
const ASKED_MAX: usize = 3;

/// The balance and count by each voting endpoint. The count is read after the balance, so that every
/// transaction it includes is already paid from the balance, or the balance is too high: never too low.
pub(super) async fn funds(router: &Router, of: Address) -> Result<Vec<Funds>, ChainUnavailable> {
    let asked = router.voters(Needs::Head, ASKED_MAX, Instant::now());
    let deadline = router.read_deadline_for(&asked);
    let answers = join_all(asked.iter().map(async |member| {
        let params = json!([of.to_string(), "latest"]);
        let endpoint = &member.endpoint;
        let answer = async {
            let balance = endpoint.call_until("eth_getBalance", params.clone(), deadline).await?;
            let count = endpoint.call_until("eth_getTransactionCount", params, deadline).await?;
            Ok((balance, count))
        };
        let answer: Result<(Quantity<U256>, Quantity<u64>), crate::endpoint::RpcError> =
            answer.await;
        let (balance, count) = answer.map_err(|error| format!("{}: {error}", endpoint.name()))?;
        let mined = Nonce::new(count.0).map_err(|error| format!("{}: {error}", endpoint.name()))?;
        Ok::<_, String>(Funds { balance: Wei(balance.0), mined })
    }))
    .await;
    let (mut funds, mut refusals) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(answer) => funds.push(answer),
            Err(why) => refusals.push(why),
        }
    }
    if funds.is_empty() { Err(unavailable("eth_getBalance", &refusals)) } else { Ok(funds) }
}

/// The limits that the heads of the endpoints show. One that shows less than the others refuses nothing
/// by itself.
pub(super) fn limits(router: &Router) -> ChainLimits {
    let readers = router.members.iter().filter(|member| member.reads() && member.is_on_chain());
    let heads: Vec<_> = readers.filter_map(|member| member.head()).collect();
    ChainLimits {
        // Chains without a limit report zero.
        block_gas: heads.iter().filter_map(|head| head.gas_limit).filter(|gas| *gas > 0).max(),
        has_calldata_floor: !heads.is_empty() && heads.iter().all(|head| head.has_requests),
    }
}
