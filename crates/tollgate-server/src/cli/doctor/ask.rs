//! Asks one endpoint everything about an account. What it does not tell stays open.

use alloy_primitives::{U256, hex};
use serde_json::{Value, json};
use tollgate_evm::endpoint::{Endpoint, RpcError, RpcErrorKind};
use tollgate_evm::{RpcAnswer, explain};
use tollgate_model::Address;
use tollgate_model::doctor::{EndpointFacts, PoolTx};

/// Transactions of a pool that are looked at (I13).
const POOL_MAX: usize = 10_000;

pub(super) async fn ask(endpoint: Endpoint, of: Address) -> EndpointFacts {
    let mut facts = EndpointFacts { name: endpoint.name().to_owned(), ..EndpointFacts::default() };
    let account = of.to_string();
    let chain_id = endpoint.call::<Value>("eth_chainId", json!([])).await;
    // Where nothing answers, nothing more is asked.
    match chain_id {
        Ok(answer) => facts.chain_id = number(&answer),
        Err(error) => {
            facts.error = Some(words(&error));
            return facts;
        }
    }
    let (block, mined, pending, balance, price, tip, pool) = tokio::join!(
        endpoint.call::<Value>("eth_getBlockByNumber", json!(["latest", false])),
        endpoint.call::<Value>("eth_getTransactionCount", json!([account, "latest"])),
        endpoint.call::<Value>("eth_getTransactionCount", json!([account, "pending"])),
        endpoint.call::<Value>("eth_getBalance", json!([account, "latest"])),
        endpoint.call::<Value>("eth_gasPrice", json!([])),
        endpoint.call::<Value>("eth_maxPriorityFeePerGas", json!([])),
        pool(&endpoint, &account),
    );
    let needed = [&block, &mined, &pending, &balance];
    facts.error = needed.into_iter().find_map(|answer| answer.as_ref().err()).map(words);
    if let Ok(block) = block {
        facts.head = number(&block["number"]);
        facts.base_fee = wide(&block["baseFeePerGas"]);
    }
    facts.mined = mined.ok().and_then(|count| number(&count));
    facts.pending = pending.ok().and_then(|count| number(&count));
    facts.balance = balance.ok().and_then(|amount| amount.as_str()?.parse().ok());
    let price = price.ok().and_then(|price| wide(&price));
    let above = price.map(|price| price.saturating_sub(facts.base_fee.unwrap_or_default()));
    facts.tip = tip.ok().and_then(|tip| wide(&tip)).or(above);
    // A chain without a base fee has a price alone.
    if facts.base_fee.is_none() && price.is_some() {
        facts.base_fee = Some(0);
    }
    facts.pool = pool;
    facts
}

/// The account's transactions in the node's pool; `None` if it does not show it.
async fn pool(endpoint: &Endpoint, account: &str) -> Option<Vec<PoolTx>> {
    let own = endpoint.call::<Value>("txpool_contentFrom", json!([account])).await;
    let content = match own {
        Ok(content) => content,
        // Of everybody: some nodes have this method alone.
        Err(error) if error.kind == RpcErrorKind::Node => {
            let all = endpoint.call::<Value>("txpool_content", json!([])).await.ok()?;
            let part = |name: &str| {
                let of_all = all[name].as_object().into_iter().flatten();
                let own = of_all.into_iter().find(|(who, _)| who.eq_ignore_ascii_case(account));
                own.map_or_else(|| json!({}), |(_, txs)| txs.clone())
            };
            json!({ "pending": part("pending"), "queued": part("queued") })
        }
        Err(_) => return None,
    };
    let parts = [&content["pending"], &content["queued"]];
    let txs = parts.into_iter().filter_map(Value::as_object).flat_map(|part| part.values());
    Some(txs.take(POOL_MAX).filter_map(pool_tx).collect())
}

fn pool_tx(tx: &Value) -> Option<PoolTx> {
    let max_fee = wide(&tx["maxFeePerGas"]).or_else(|| wide(&tx["gasPrice"]))?;
    Some(PoolTx {
        nonce: number(&tx["nonce"])?,
        hash: tx["hash"].as_str().filter(|hash| is_hash(hash)).unwrap_or("?").to_owned(),
        max_fee,
        tip: wide(&tx["maxPriorityFeePerGas"]),
        gas: number(&tx["gas"])?,
        value: tx["value"].as_str()?.parse::<U256>().ok()?,
    })
}

fn is_hash(text: &str) -> bool {
    hex::decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

fn number(value: &Value) -> Option<u64> {
    u64::try_from(wide(value)?).ok()
}

fn wide(value: &Value) -> Option<u128> {
    u128::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// The words of `tollgate explain` about a failure.
fn words(error: &RpcError) -> String {
    let answer = RpcAnswer {
        code: error.code,
        status: error.status,
        message: &error.message,
        data: error.data.as_deref(),
    };
    let explained = explain(&answer);
    let message: String = error.message.chars().take(200).collect();
    format!("{message} ({}: {})", explained.class, explained.why)
}
