//! The `devchain_*` methods that make one endpoint misbehave. Those that move the chain are in
//! [`super::control_chain`]. `docs/devchain.md` describes them all.

use std::time::Duration;

use serde_json::{Value, json};

use super::control_chain;
use super::endpoint::{Balancer, Endpoint, Settings, Untruths};
use super::params::Params;
use crate::dialect::Dialect;
use crate::error::RpcError;
use crate::fault::{Fault, FaultPlan, FaultRule, Loss};

type Answer = Result<Value, RpcError>;

/// Carries out `devchain_<name>`.
pub(super) fn call(endpoint: &Endpoint, name: &str, params: &Value) -> Answer {
    let params = Params::new(params, endpoint.settings().dialect);
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
        "setLag" => {
            let lag = params.number(0, "blocks")?.unwrap_or(0);
            set(endpoint, |settings| settings.lag = lag)
        }
        "setNonceOffset" => {
            let offset = params.signed(0, "offset")?;
            set(endpoint, |settings| settings.nonce_offset = offset)
        }
        "setDialect" => {
            let dialect = params.get(0, "dialect").cloned().unwrap_or_default();
            let dialect: Dialect =
                serde_json::from_value(dialect).map_err(|error| params.bad(error))?;
            set(endpoint, |settings| settings.dialect = dialect)
        }
        "setFeature" => set_feature(endpoint, &params),
        "setSyncing" => {
            let is_syncing = params.flag(0, "syncing").unwrap_or(true);
            set(endpoint, |settings| settings.is_syncing = is_syncing)
        }
        "muteHeads" => {
            let is_mute = params.flag(0, "mute").unwrap_or(true);
            set(endpoint, |settings| settings.is_mute = is_mute)
        }
        "setStates" => {
            let states = params.number(0, "blocks")?;
            set(endpoint, |settings| settings.states = states)
        }
        "setHeadAhead" => {
            let ahead = params.number(0, "blocks")?.unwrap_or(0);
            lie(endpoint, |untruths| untruths.head_ahead = ahead)
        }
        "setTagsAtHead" => {
            let at_head = params.flag(0, "atHead").unwrap_or(true);
            lie(endpoint, |untruths| untruths.tags_at_head = at_head)
        }
        "setPendingOffset" => {
            let offset = params.signed(0, "offset")?;
            lie(endpoint, |untruths| untruths.pending_offset = offset)
        }
        "setFeeFactor" => {
            let factor = params.number(0, "factor")?;
            lie(endpoint, |untruths| untruths.fee_factor = factor)
        }
        "setEstimate" => {
            let gas = params.number(0, "gas")?;
            lie(endpoint, |untruths| untruths.estimate = gas)
        }
        "setReceipts" => {
            let blocks = params.number(0, "blocks")?;
            lie(endpoint, |untruths| untruths.receipts = blocks)
        }
        "lackReceipts" => {
            let one_in = params.number(0, "oneIn")?;
            lie(endpoint, |untruths| untruths.lacked_receipts = one_in)
        }
        "lackBlocks" => {
            let one_in = params.number(0, "oneIn")?;
            lie(endpoint, |untruths| untruths.lacked_blocks = one_in)
        }
        "setBalancer" => {
            let (lag, probability) = (params.number(0, "lag")?, params.float(1, "probability"));
            let probability = probability.unwrap_or(0.5);
            let balancer = lag.map(|lag| Balancer { lag, probability });
            lie(endpoint, |untruths| untruths.balancer = balancer)
        }
        "goSilent" => {
            let is_silent = params.flag(0, "silent").unwrap_or(true);
            lie(endpoint, |untruths| untruths.is_silent = is_silent)
        }
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
        _ => control_chain::call(endpoint, name, &params),
    }
}

fn set(endpoint: &Endpoint, change: impl FnOnce(&mut Settings)) -> Answer {
    endpoint.change(change);
    Ok(json!(true))
}

fn lie(endpoint: &Endpoint, change: impl FnOnce(&mut Untruths)) -> Answer {
    set(endpoint, |settings| change(&mut settings.untruths))
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
    set(endpoint, |settings| settings.features = features)
}

fn faults(endpoint: &Endpoint) -> Value {
    let faults = endpoint.faults();
    json!({ "settings": endpoint.settings(), "rules": faults.rules(), "plan": faults.plan() })
}

/// Everything as at the start, apart from dialect and features.
fn clear(endpoint: &Endpoint) -> Answer {
    *endpoint.faults() = Default::default();
    endpoint.shut(false);
    set(endpoint, |settings| {
        settings.lag = 0;
        settings.nonce_offset = 0;
        settings.is_syncing = false;
        settings.is_mute = false;
        settings.states = None;
        settings.untruths = Untruths::default();
    })
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
