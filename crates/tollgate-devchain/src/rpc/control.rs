//! The `devchain_*` methods: those that make one endpoint misbehave, and those that move the chain.
//! `docs/devchain.md` describes them all.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};

use super::endpoint::{Balancer, Endpoint, Settings};
use super::json;
use super::params::Params;
use super::shared::Mining;
use crate::accounts::{dev_account, dev_accounts};
use crate::chain::{Behaviour, Beyond, Block, Chain, DroppedTxs, PoolLimits, Reorg, Tx};
use crate::error::RpcError;
use crate::fault::{Fault, FaultPlan, FaultRule, Loss};
use crate::sign;

/// Blocks that one call mines, at most.
const MINE_MAX: u64 = 10_000;

type Answer = Result<Value, RpcError>;

/// Carries out `devchain_<name>`.
pub(super) fn call(endpoint: &Endpoint, name: &str, params: &Value) -> Answer {
    let params = Params::new(params, endpoint.settings().dialect);
    if endpoint.change(|settings| change(settings, name, &params))? {
        return Ok(json!(true));
    }
    match name {
        "fail" => add(endpoint, &params, params.whole()?),
        "delay" => delay(endpoint, &params),
        "httpError" => http_error(endpoint, &params),
        "rpcError" => rpc_error(endpoint, &params),
        "closeConnection" => add(endpoint, &params, rule(&params, 1, Fault::Close)?),
        "loseAnswer" => lose_answer(endpoint, &params),
        "forgetNext" => add(endpoint, &params, forget(&params)?),
        "rateLimit" => rate_limit(endpoint, &params),
        "setFaultPlan" => {
            endpoint.faults().set_plan(params.whole::<FaultPlan>()?);
            Ok(json!(true))
        }
        "faults" => Ok(faults(endpoint)),
        "clearFaults" => clear(endpoint),
        "setFeature" => set_feature(endpoint, &params),
        "swallow" => {
            let swallows = params.flag(0, "swallows").unwrap_or(true);
            let mut chain = endpoint.shared.chain();
            let pool = chain.pool_mut(endpoint.pool);
            pool.gossip_delay_ms = if swallows { None } else { Some(0) };
            pool.is_mined_from = !swallows;
            Ok(json!(true))
        }
        "closeConnections" => {
            endpoint.hang_up();
            Ok(json!(true))
        }
        "refuseConnections" => refuse_connections(endpoint, &params),
        _ => move_chain(endpoint, name, &params),
    }
}

/// Changes the setting of this method; false if it has none.
fn change(settings: &mut Settings, name: &str, params: &Params<'_>) -> Result<bool, RpcError> {
    let untruths = &mut settings.untruths;
    match name {
        "setLag" => settings.lag = params.number(0, "blocks")?.unwrap_or(0),
        "setNonceOffset" => settings.nonce_offset = params.signed(0, "offset")?,
        "setDialect" => {
            let dialect = params.get(0, "dialect").cloned().unwrap_or_default();
            settings.dialect =
                serde_json::from_value(dialect).map_err(|error| params.bad(error))?;
        }
        "setSyncing" => settings.is_syncing = params.flag(0, "syncing").unwrap_or(true),
        "muteHeads" => settings.is_mute = params.flag(0, "mute").unwrap_or(true),
        "setStates" => settings.states = params.number(0, "blocks")?,
        "setHeadAhead" => untruths.head_ahead = params.number(0, "blocks")?.unwrap_or(0),
        "setTagsAtHead" => untruths.tags_at_head = params.flag(0, "atHead").unwrap_or(true),
        "setPendingOffset" => untruths.pending_offset = params.signed(0, "offset")?,
        "setFeeFactor" => untruths.fee_factor = params.number(0, "factor")?,
        "setEstimate" => untruths.estimate = params.number(0, "gas")?,
        "setReceipts" => untruths.receipts = params.number(0, "blocks")?,
        "lackReceipts" => untruths.lacked_receipts = params.number(0, "oneIn")?,
        "flipReceipts" => untruths.flipped_receipts = params.number(0, "oneIn")?,
        "lackBlocks" => untruths.lacked_blocks = params.number(0, "oneIn")?,
        "setBalancer" => {
            let probability = params.float(1, "probability").unwrap_or(0.5);
            let lag = params.number(0, "lag")?;
            untruths.balancer = lag.map(|lag| Balancer { lag, probability });
        }
        "goSilent" => untruths.is_silent = params.flag(0, "silent").unwrap_or(true),
        _ => return Ok(false),
    }
    Ok(true)
}

fn add(endpoint: &Endpoint, params: &Params<'_>, rule: FaultRule) -> Answer {
    if endpoint.faults().add(rule) { Ok(json!(true)) } else { Err(params.bad("too many faults")) }
}

/// A rule for `method` (first parameter) and `times` (at this place; for ever if null).
fn rule(params: &Params<'_>, times_at: usize, fault: Fault) -> Result<FaultRule, RpcError> {
    let method = params.text(0, "method").unwrap_or("*").to_owned();
    let times =
        params.number(times_at, "times")?.map(|times| times.min(u64::from(u32::MAX)) as u32);
    let probability = params.float(usize::MAX, "probability").unwrap_or(1.0);
    Ok(FaultRule { method, fault, times, probability })
}

fn delay(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let ms = params.number(1, "ms")?.unwrap_or(0);
    let rule = rule(params, 2, Fault::Delay { ms })?;
    endpoint.faults().remove(&rule.method, |fault| matches!(fault, Fault::Delay { .. }));
    if ms == 0 { Ok(json!(true)) } else { add(endpoint, params, rule) }
}

fn http_error(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let status = params.number(1, "status")?.unwrap_or(503);
    let status = u16::try_from(status).ok().filter(|status| (400..600).contains(status));
    let status = status.ok_or_else(|| params.bad("status must be between 400 and 599"))?;
    let retry_after_s = params.number(3, "retryAfterS")?;
    add(endpoint, params, rule(params, 2, Fault::Http { status, retry_after_s })?)
}

fn rpc_error(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let code = params.signed(1, "code")?;
    let message = params.text(2, "message").unwrap_or("internal error").to_owned();
    add(endpoint, params, rule(params, 3, Fault::Rpc { code, message })?)
}

fn lose_answer(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let how = match params.get(1, "how") {
        Some(how) => serde_json::from_value(how.clone()).map_err(|error| params.bad(error))?,
        None => Loss::Close,
    };
    add(endpoint, params, rule(params, 2, Fault::LoseAnswer { how })?)
}

fn forget(params: &Params<'_>) -> Result<FaultRule, RpcError> {
    let times = params.number(0, "times")?.unwrap_or(1).min(u64::from(u32::MAX)) as u32;
    let rule = FaultRule::always("eth_sendRawTransaction", Fault::Forget);
    Ok(FaultRule { times: Some(times), ..rule })
}

fn rate_limit(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let rate = params.number(0, "perSecond")?.map(|rate| rate.min(u64::from(u32::MAX)) as u32);
    endpoint.faults().set_rate(rate);
    Ok(json!(true))
}

fn set_feature(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    let name = params.text(0, "feature").unwrap_or_default();
    let is_on = params.flag(1, "on").unwrap_or(false);
    let mut features = endpoint.settings().features;
    let feature = match name {
        "blockReceipts" => &mut features.block_receipts,
        "feeHistory" => &mut features.fee_history,
        "txpool" => &mut features.txpool,
        "webSocket" => &mut features.web_socket,
        _ => return Err(params.bad("blockReceipts, feeHistory, txpool or webSocket")),
    };
    *feature = is_on;
    endpoint.change(|settings| settings.features = features);
    Ok(json!(true))
}

fn faults(endpoint: &Endpoint) -> Value {
    let faults = endpoint.faults();
    json!({ "settings": endpoint.settings(), "rules": faults.rules(), "plan": faults.plan() })
}

/// Everything as at the start, apart from dialect and features.
fn clear(endpoint: &Endpoint) -> Answer {
    *endpoint.faults() = Default::default();
    endpoint.shut(false);
    endpoint.change(|settings| {
        let Settings { dialect, features, .. } = *settings;
        *settings = Settings { dialect, features, ..Settings::default() };
    });
    Ok(json!(true))
}

/// Closes the port for a limited time: a closed port can't receive the call that opens it.
fn refuse_connections(endpoint: &Endpoint, params: &Params<'_>) -> Answer {
    /// The answer to this very call still gets out.
    const GRACE: Duration = Duration::from_millis(20);
    let ms = params.number(0, "ms")?.unwrap_or(1_000);
    let port_state = endpoint.port_state.clone();
    tokio::spawn(async move {
        tokio::time::sleep(GRACE).await;
        port_state.send_modify(|port_state| {
            port_state.is_closed = true;
            port_state.epoch += 1;
        });
        tokio::time::sleep(Duration::from_millis(ms)).await;
        port_state.send_modify(|port_state| port_state.is_closed = false);
    });
    Ok(json!(true))
}

/// Carries out a method that moves the chain.
fn move_chain(endpoint: &Endpoint, name: &str, params: &Params<'_>) -> Answer {
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
    let hashes = |blocks: &[Arc<Block>]| {
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

fn sign_foreign(chain: &Chain, nonce: u64, (address, key): (Address, B256)) -> Option<Arc<Tx>> {
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
