//! From the name of a method to what answers it, and which of them are switched off.

use serde_json::{Value, json};

use super::endpoint::{Endpoint, Settings};
use super::params::Params;
use super::{eth, json, txpool};
use crate::error::RpcError;

/// Answers a method of the real clients.
pub(super) fn call(
    endpoint: &Endpoint,
    method: &str,
    params: &Value,
    forgets: bool,
) -> Result<Value, RpcError> {
    let settings = endpoint.settings_of_call();
    let dialect = settings.dialect;
    if is_off(method, endpoint, &settings) {
        return Err(dialect.method_not_found(method));
    }
    let params = Params::new(params, dialect);
    let ask = eth::Ask { endpoint, settings: &settings, params };
    match method {
        "web3_clientVersion" => Ok(json!(dialect.client_version())),
        "net_version" => Ok(json!(endpoint.shared.chain().config().chain_id.to_string())),
        "eth_chainId" => Ok(json::quantity(endpoint.shared.chain().config().chain_id)),
        "eth_syncing" => Ok(ask.syncing()),
        "eth_blockNumber" => Ok(ask.block_number()),
        "eth_getBlockByNumber" | "eth_getBlockByHash" => ask.block(),
        "eth_getBlockTransactionCountByNumber" => ask.block_transaction_count(),
        "eth_getTransactionCount" => ask.transaction_count(),
        "eth_getBalance" => ask.balance(),
        "eth_getCode" => ask.code(),
        "eth_sendRawTransaction" => ask.send_raw_transaction(forgets),
        "eth_getTransactionByHash" => ask.transaction(),
        "eth_getTransactionReceipt" => ask.receipt(),
        "eth_getBlockReceipts" => ask.block_receipts(),
        "eth_getLogs" => Ok(json!([])),
        "eth_feeHistory" => ask.fee_history(),
        "eth_gasPrice" => Ok(ask.gas_price()),
        "eth_maxPriorityFeePerGas" => Ok(ask.tip()),
        "eth_estimateGas" => ask.estimate_gas(),
        "eth_call" => ask.call(),
        "txpool_status" => Ok(txpool::status(&ask)),
        "txpool_content" => Ok(txpool::content(&ask)),
        "txpool_contentFrom" => txpool::content_from(&ask),
        _ => Err(dialect.method_not_found(method)),
    }
}

fn is_off(method: &str, endpoint: &Endpoint, settings: &Settings) -> bool {
    let features = settings.features;
    match method {
        "eth_getBlockReceipts" => !features.block_receipts,
        "eth_feeHistory" => {
            !features.fee_history || endpoint.shared.chain().next_base_fee().is_none()
        }
        _ => method.starts_with("txpool_") && !features.txpool,
    }
}
