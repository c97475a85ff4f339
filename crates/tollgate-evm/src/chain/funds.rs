//! An account's balance, and the limits of the newest blocks. Intake checks creates against both.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{ChainLimits, ChainUnavailable, Funds, agreed_balance};
use tollgate_model::{Address, Nonce, U256, Wei};

use super::corroboration::ChainSource;
use super::disagreements::{Basis, Claim, LASTING, Subject};
use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};
use super::votes::{further_patience, gather};
use crate::endpoint::RpcError;
use crate::endpoint::json::Quantity;

/// Endpoints that are asked for a balance.
const ASKED_MAX: usize = 3;
/// The least time of further endpoints after the first balance.
const FURTHER_BALANCES_PATIENCE: Duration = Duration::from_millis(500);

/// The balance that the endpoints agree on ([`agreed_balance`]).
pub(super) async fn balance(router: &Router, of: Address) -> Result<Wei, ChainUnavailable> {
    let now = Instant::now();
    let readers = router.readers(Needs::Head, now);
    let asked = router.witnesses(Needs::Head, ASKED_MAX, now);
    let deadline = router.read_deadline_for(&readers);
    let asked_at_once = asked.iter().map(async |member| {
        let name = member.endpoint.name();
        let balance = balance_at(member, of, deadline).await;
        balance.map(|it| (name.to_owned(), it)).map_err(|error| format!("{name}: {error}"))
    });
    let patience = further_patience(&asked, FURTHER_BALANCES_PATIENCE);
    let (mut told, mut refusals) = gather(asked_at_once, deadline, patience).await;
    let others = readers.iter().filter(|it| asked.iter().all(|other| other.place != it.place));
    let others: Vec<_> = others.cloned().collect();
    for (member, until) in router.in_turn(&others) {
        if !told.is_empty() {
            break;
        }
        match balance_at(member, of, until).await {
            Ok(balance) => told.push((member.endpoint.name().to_owned(), balance)),
            Err(error) => refusals.push(format!("{}: {error}", member.endpoint.name())),
        }
    }
    let balances: Vec<_> = told.iter().map(|(_, balance)| *balance).collect();
    let agreed =
        agreed_balance(&balances).ok_or_else(|| unavailable("eth_getBalance", &refusals))?;
    let claims: Vec<_> = told.iter().map(|(name, balance)| Claim::new(name, balance)).collect();
    let subject = Subject { what: "balance", of: &of.to_string() };
    router.disagreements.note(subject, agreed, &claims, (Basis::Votes, LASTING));
    Ok(agreed)
}

/// The balance and count by each voting endpoint; nothing while one alone of several answers (I16). The count is
/// read after the balance, so that every transaction it includes is already paid from the balance, or the balance is
/// too high: never too low.
pub(super) async fn funds(
    router: &Router,
    single: &ChainSource,
    of: Address,
) -> Result<Vec<Funds>, ChainUnavailable> {
    let asked = router.witnesses(Needs::Head, ASKED_MAX, Instant::now());
    let deadline = router.read_deadline_for(&asked);
    let asked_at_once = asked.iter().map(async |member| {
        let told = funds_at(member, of, deadline).await;
        told.map_err(|error| format!("{}: {error}", member.endpoint.name()))
    });
    let patience = further_patience(&asked, FURTHER_BALANCES_PATIENCE);
    let (funds, refusals) = gather(asked_at_once, deadline, patience).await;
    if funds.is_empty() {
        return Err(unavailable("eth_getBalance", &refusals));
    }
    Ok(if single.is_enough(funds.len(), router) { funds } else { Vec::new() })
}

async fn funds_at(member: &PoolMember, of: Address, deadline: Instant) -> Result<Funds, String> {
    let text = |error: RpcError| error.to_string();
    let balance = balance_at(member, of, deadline).await.map_err(text)?;
    let params = json!([of.to_string(), "latest"]);
    let count = member.endpoint.call_until("eth_getTransactionCount", params, deadline);
    let Quantity::<u64>(count) = count.await.map_err(text)?;
    let mined = Nonce::new(count).map_err(|error| error.to_string())?;
    Ok(Funds { balance, mined })
}

async fn balance_at(member: &PoolMember, of: Address, deadline: Instant) -> Result<Wei, RpcError> {
    let params = json!([of.to_string(), "latest"]);
    let answer = member.endpoint.call_until("eth_getBalance", params, deadline).await;
    answer.map(|Quantity::<U256>(balance)| Wei(balance))
}

/// The limits that the heads of the endpoints show. One that shows less than the others refuses nothing
/// by itself, nor does the first one that reports its head.
pub(super) fn limits(router: &Router) -> ChainLimits {
    let readers = router.members.iter().filter(|member| member.reads() && member.is_on_chain());
    let heads: Vec<_> = readers.filter_map(|member| member.head()).collect();
    let has_enough = heads.len() >= router.readers_configured().min(2);
    let is_waited_for = router.followed_since.elapsed() < router.config.single_source_after;
    let is_confirmed = has_enough || !heads.is_empty() && !is_waited_for;
    ChainLimits {
        // Chains without a limit report zero.
        block_gas: heads.iter().filter_map(|head| head.gas_limit).filter(|gas| *gas > 0).max(),
        has_calldata_floor: is_confirmed && heads.iter().all(|head| head.has_requests),
        is_confirmed,
    }
}
