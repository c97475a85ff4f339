//! The `devchain_*` methods that move the chain: blocks, reorgs, pools, balances, behaviours.

use std::time::Duration;

use alloy_primitives::{B256, U256};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::json;
use super::params::Params;
use super::shared::Mining;
use crate::accounts::{dev_account, dev_accounts};
use crate::chain::{Behaviour, Beyond, Chain, DroppedTxs, PoolLimits, Reorg, Tx};
use crate::error::RpcError;
use crate::sign;

/// Blocks that one call mines, at most.
const MINE_MAX: u64 = 10_000;

type Answer = Result<Value, RpcError>;

pub(super) fn call(endpoint: &Endpoint, name: &str, params: &Params<'_>) -> Answer {
    match name {
        "mine" => mine(endpoint, params),
        "reorg" => reorg(endpoint, params),
        "setBlockInterval" => {
            let ms = params.number(0, "ms")?;
            set_mining(endpoint, |mining| mining.interval = ms.map(Duration::from_millis))
        }
        "pauseMining" => set_mining(endpoint, |mining| mining.is_paused = true),
        "resumeMining" => set_mining(endpoint, |mining| mining.is_paused = false),
        "dropTx" => {
            let hash = params.hash(0, "hash")?;
            Ok(json!(endpoint.shared.chain().drop_pooled(endpoint.pool, &hash)))
        }
        "evict" => evict(endpoint, params),
        "setPoolLimits" => set_pool_limits(endpoint, params),
        "setGossip" => {
            let delay_ms = params.number(0, "delayMs")?;
            endpoint.shared.chain().pool_mut(endpoint.pool).gossip_delay_ms = delay_ms;
            Ok(json!(true))
        }
        "setMinedFrom" => {
            let is_mined_from = params.flag(0, "mined").unwrap_or(true);
            endpoint.shared.chain().pool_mut(endpoint.pool).is_mined_from = is_mined_from;
            Ok(json!(true))
        }
        "setBehaviour" => set_behaviour(endpoint, params),
        "setBalance" => {
            let (address, wei) = (params.address(0, "address")?, params.wei(1, "wei")?);
            endpoint.shared.chain().set_balance(address, wei);
            Ok(json!(true))
        }
        "setBaseFee" => {
            let wei = params.number(0, "wei")?.ok_or_else(|| params.bad("wei is missing"))?;
            endpoint.shared.chain().set_next_base_fee(wei);
            Ok(json!(true))
        }
        "foreignTx" => foreign_tx(endpoint, params),
        "accounts" => Ok(accounts()),
        _ => Err(endpoint.settings().dialect.method_not_found(&format!("devchain_{name}"))),
    }
}

fn mine(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let count = params.number(0, "blocks")?.unwrap_or(1).min(MINE_MAX);
    let timestamp = params.number(1, "timestamp")?;
    let blocks = (0..count).map(|round| {
        let block = endpoint.shared.mine(timestamp.filter(|_| round == 0));
        json::hash(block.hash)
    });
    Ok(blocks.collect())
}

fn reorg(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let depth = params.number(0, "depth")?.unwrap_or(1);
    let dropped_txs = match params.text(1, "transactions").unwrap_or("kept") {
        "kept" => DroppedTxs::Kept,
        "moved" => DroppedTxs::Moved,
        "returned" => DroppedTxs::Returned,
        "dropped" => DroppedTxs::Dropped,
        _ => return Err(params.bad("transactions: kept, moved, returned or dropped")),
    };
    let replacements = params.number(2, "blocks")?.unwrap_or(depth).min(MINE_MAX);
    let beyond = match params.text(3, "beyond") {
        None => Beyond::Nothing,
        Some("safe") => Beyond::Safe,
        Some("finalized") => Beyond::Finalized,
        Some(_) => return Err(params.bad("beyond: safe or finalized")),
    };
    let reorg = Reorg { depth, replacements, dropped_txs, beyond };
    let outcome = endpoint.shared.reorg(reorg).map_err(|refused| params.bad(refused))?;
    let hashes = |blocks: &[std::sync::Arc<crate::chain::Block>]| {
        blocks.iter().map(|block| json::hash(block.hash)).collect::<Vec<_>>()
    };
    Ok(json!({
        "dropped": hashes(&outcome.dropped),
        "added": hashes(&outcome.added),
        "lost": outcome.lost.iter().map(|hash| json::hash(*hash)).collect::<Vec<_>>(),
    }))
}

fn set_mining(endpoint: &Endpoint, change: impl FnOnce(&mut Mining)) -> Answer {
    endpoint.shared.mining.send_modify(change);
    Ok(json!(true))
}

fn evict(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let percent = params.float(0, "percent").unwrap_or(100.0);
    let gone = endpoint.shared.chain().evict(endpoint.pool, percent / 100.0);
    Ok(gone.into_iter().map(json::hash).collect())
}

/// Changes the limits that are named and leaves the others.
fn set_pool_limits(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let mut chain = endpoint.shared.chain();
    let limits: &mut PoolLimits = &mut chain.pool_mut(endpoint.pool).limits;
    // By name only: there are too many to remember their places.
    let by_name = usize::MAX;
    let size = |name| -> Result<Option<usize>, RpcError> {
        Ok(params
            .number(by_name, name)?
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    };
    limits.total = size("total")?.unwrap_or(limits.total);
    limits.per_sender = size("perSender")?.unwrap_or(limits.per_sender);
    limits.tx_bytes = size("txBytes")?.unwrap_or(limits.tx_bytes);
    limits.nonce_gap = params.number(by_name, "nonceGap")?.or(limits.nonce_gap);
    if let Some(wei) = params.number(by_name, "minTipWei")? {
        limits.min_tip_wei = u128::from(wei);
    }
    if params.get(by_name, "feeCapWei").is_some() {
        limits.fee_cap_wei = Some(params.wei(by_name, "feeCapWei")?);
    }
    if let Some(percent) = params.number(by_name, "priceBumpPercent")? {
        limits.price_bump_percent = u128::from(percent);
    }
    if let Some(refuse) = params.flag(by_name, "refuseBelowBaseFee") {
        limits.refuse_below_base_fee = refuse;
    }
    Ok(json!(true))
}

fn set_behaviour(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let address = params.address(0, "address")?;
    let behaviour = match params.text(1, "behaviour").unwrap_or("succeed") {
        "succeed" => Behaviour::Succeed,
        "revert" => Behaviour::Revert(params.text(2, "reason").unwrap_or_default().to_owned()),
        "burn" => Behaviour::Burn(params.number(2, "gas")?.unwrap_or(0)),
        "outOfGas" => Behaviour::OutOfGas,
        _ => return Err(params.bad("behaviour: succeed, revert, burn or outOfGas")),
    };
    endpoint.shared.chain().set_behaviour(address, behaviour);
    Ok(json!(true))
}

/// Somebody else uses a dev account's key: mined at once if the nonce is the next one and it is not
/// to be pooled, else left in the pool of this endpoint.
fn foreign_tx(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let address = params.address(0, "address")?;
    let account = dev_account(address).ok_or_else(|| params.bad("not a dev account"))?;
    let mut chain = endpoint.shared.chain();
    let next = chain.accounts().now(address).nonce;
    let nonce = params.number(1, "nonce")?.unwrap_or(next);
    let tx = sign_foreign(&chain, nonce, (address, account.private_key));
    let tx = tx.ok_or_else(|| params.bad("can't be signed"))?;
    if nonce != next || params.flag(2, "pooled").unwrap_or(false) {
        let now_ms = endpoint.shared.now_ms();
        let refused = |rejection| endpoint.settings().dialect.rejection(&rejection);
        chain.submit(endpoint.pool, &tx, now_ms).map_err(refused)?;
        return Ok(json::hash(tx.hash));
    }
    let (block, left) = chain.mine_exactly(vec![tx.clone()], 0);
    drop(chain);
    endpoint.shared.announce(&block);
    if left.is_empty() { Ok(json::hash(tx.hash)) } else { Err(params.bad("it can't be mined")) }
}

fn sign_foreign(
    chain: &Chain,
    nonce: u64,
    (address, key): (alloy_primitives::Address, B256),
) -> Option<std::sync::Arc<Tx>> {
    // Pays well, so that it wins against what is pooled.
    let tip_wei = chain.config().suggested_tip_wei * 20;
    let base_fee = chain.next_base_fee();
    let tx =
        sign::transfer(chain.config().chain_id, nonce, (address, U256::ZERO), base_fee, tip_wei);
    Tx::decode(sign::sign(tx, &key).ok()?).ok()
}

fn accounts() -> Value {
    let list = dev_accounts().into_iter().map(|account| {
        json!({ "address": account.address.to_string(), "privateKey": account.private_key.to_string() })
    });
    list.collect()
}
