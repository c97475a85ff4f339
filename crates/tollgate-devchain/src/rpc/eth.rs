//! The methods of the real clients: a read under the lock, the answer written outside of it.

use std::sync::Arc;

use alloy_primitives::{Address, B256, hex, keccak256};
use serde_json::{Map, Value, json};

use super::endpoint::{Endpoint, Settings};
use super::json;
use super::params::Params;
use crate::chain::{Account, Block, BlockId, Found, Tx};
use crate::error::RpcError;

/// A head that an endpoint makes up: so many blocks above one that is there.
pub(super) fn ahead_of(block: &Block, ahead: u64) -> Block {
    let mut made_up = block.clone();
    made_up.header.number += ahead;
    made_up.header.parent_hash = keccak256(made_up.header.number.to_be_bytes());
    made_up.hash = keccak256(made_up.header.parent_hash);
    (made_up.txs, made_up.receipts) = Default::default();
    made_up
}

/// Stands for the code of everything that has code: there is no EVM.
const CODE: &str = "0xfe";

/// One question to one endpoint.
struct Ask<'a> {
    endpoint: &'a Endpoint,
    settings: &'a Settings,
    params: Params<'a>,
}

type Answer = Result<Value, RpcError>;

/// Runs a closure on the view, with the lock held for no longer.
macro_rules! seen {
    ($ask:expr, $view:ident => $body:expr) => {{
        let chain = $ask.endpoint.shared.chain();
        let $view = $ask.endpoint.view(&chain, $ask.settings);
        $body
    }};
}

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
    let ask = Ask { endpoint, settings: &settings, params };
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
        "txpool_status" => Ok(ask.pool_status()),
        "txpool_content" => Ok(ask.pool_content()),
        "txpool_contentFrom" => ask.pool_content_from(),
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

impl Ask<'_> {
    fn no_block(&self) -> RpcError {
        self.settings.dialect.block_not_found()
    }

    /// An account in a state that this endpoint has.
    fn account(&self, address: Address, id: BlockId) -> Result<Account, RpcError> {
        self.check_state(id)?;
        seen!(self, view => view.account(address, id)).ok_or_else(|| self.no_block())
    }

    fn check_state(&self, id: BlockId) -> Result<(), RpcError> {
        let Some(states) = self.settings.states else { return Ok(()) };
        let (number, head) = seen!(self, view => (view.number(id), view.head()));
        match number.filter(|number| number.saturating_add(states) < head) {
            Some(number) => Err(self.settings.dialect.state_missing(number)),
            None => Ok(()),
        }
    }

    fn syncing(&self) -> Value {
        if !self.settings.is_syncing {
            return json!(false);
        }
        let head = seen!(self, view => view.head());
        json!({
            "startingBlock": "0x0",
            "currentBlock": json::quantity(head),
            "highestBlock": json::quantity(head + 1_000),
        })
    }

    fn block_number(&self) -> Value {
        let ahead = self.settings.untruths.head_ahead;
        json::quantity(seen!(self, view => view.head()) + ahead)
    }

    /// A block that this endpoint has: it may lack some of those that it should see.
    fn seen_block(&self, id: BlockId) -> Option<Arc<Block>> {
        let (block, head) = seen!(self, view => (view.block(id).cloned(), view.head()));
        let lacks = |number: u64| number != head && self.settings.untruths.lacks_block(number);
        block.filter(|block| !lacks(block.number()))
    }

    fn block(&self) -> Answer {
        let id = match self.params.block(0)? {
            BlockId::Safe | BlockId::Finalized if self.settings.untruths.tags_at_head => {
                BlockId::Latest
            }
            id => id,
        };
        let is_full = self.params.flag(1, "full").unwrap_or(false);
        let block = self.seen_block(id);
        let ahead = self.settings.untruths.head_ahead;
        if let (BlockId::Latest | BlockId::Pending, Some(head), 1..) = (id, &block, ahead) {
            return Ok(json::block(&ahead_of(head, ahead), is_full));
        }
        Ok(block.map_or(Value::Null, |block| json::block(&block, is_full)))
    }

    fn block_transaction_count(&self) -> Answer {
        let id = self.params.block(0)?;
        let block = seen!(self, view => view.block(id).cloned());
        Ok(block.map_or(Value::Null, |block| json::quantity(block.txs.len() as u64)))
    }

    fn transaction_count(&self) -> Answer {
        let address = self.params.address(0, "address")?;
        let id = self.params.block(1)?;
        let count = match (id, self.settings.dialect.count_without_state()) {
            (BlockId::Pending, _) => {
                let count = seen!(self, view => view.pending_nonce(address));
                count.saturating_add_signed(self.settings.untruths.pending_offset)
            }
            (id, Some(count)) if self.check_state(id).is_err() => count,
            (id, _) => self.account(address, id)?.nonce,
        };
        Ok(json::quantity(count.saturating_add_signed(self.settings.nonce_offset)))
    }

    fn balance(&self) -> Answer {
        let address = self.params.address(0, "address")?;
        let id = self.params.block(1)?;
        self.account(address, id).map(|account| json::big(account.balance))
    }

    fn code(&self) -> Answer {
        let address = self.params.address(0, "address")?;
        let id = self.params.block(1)?;
        self.check_state(id)?;
        let has_code = seen!(self, view => view.has_code(address, id));
        let has_code = has_code.ok_or_else(|| self.no_block())?;
        let delegate = seen!(self, view => view.delegate(address, id));
        Ok(match delegate {
            Some(contract) => json!(format!("0xef0100{}", hex::encode(contract))),
            None => json!(if has_code { CODE } else { "0x" }),
        })
    }

    /// The sender is recovered before the lock is taken.
    fn send_raw_transaction(&self, forgets: bool) -> Answer {
        let shared = &self.endpoint.shared;
        let raw = self.params.bytes(0, "raw")?;
        let refuse = |rejection| self.settings.dialect.rejection(&rejection);
        let tx = Tx::decode(raw).map_err(refuse)?;
        let now_ms = shared.now_ms();
        let mut chain = shared.chain();
        chain.submit(self.endpoint.pool, &tx, now_ms).map_err(refuse)?;
        if forgets {
            chain.drop_pooled(self.endpoint.pool, &tx.hash);
        }
        let is_slow = chain.pool(self.endpoint.pool).gossip_delay_ms.is_some_and(|ms| ms > 0);
        drop(chain);
        if is_slow {
            shared.gossip.notify_one();
        }
        Ok(json::hash(tx.hash))
    }

    fn transaction(&self) -> Answer {
        let hash = self.params.hash(0, "hash")?;
        let found = self.found(&hash);
        Ok(found.map_or(Value::Null, |found| json::found(&found)))
    }

    /// A transaction as this endpoint has it: what is pruned, or was never there, is not found.
    fn found(&self, hash: &B256) -> Option<Found> {
        let (found, head) = seen!(self, view => (view.tx(hash), view.head()));
        let lacks = |found: &Found| match found {
            Found::Mined(block, _) => {
                self.settings.untruths.lacks_receipt(hash, block.number(), head)
            }
            Found::Pooled(_) => false,
        };
        found.filter(|found| !lacks(found))
    }

    fn receipt(&self) -> Answer {
        let hash = self.params.hash(0, "hash")?;
        match self.found(&hash) {
            Some(Found::Mined(block, index)) => {
                Ok(json::receipt(&block, index, self.settings.untruths.flips_receipt(&hash)))
            }
            Some(Found::Pooled(_)) | None => Ok(Value::Null),
        }
    }

    fn block_receipts(&self) -> Answer {
        let id = self.params.block(0)?;
        let head = seen!(self, view => view.head());
        let untruths = self.settings.untruths;
        let Some(block) = self.seen_block(id) else { return Ok(Value::Null) };
        if untruths.receipts.is_some_and(|kept| block.number().saturating_add(kept) < head) {
            return Ok(Value::Null);
        }
        let has = |hash: &B256| !untruths.lacks_receipt(hash, block.number(), head);
        Ok(json::receipts(&block, has, |hash| untruths.flips_receipt(hash)))
    }

    fn fee_history(&self) -> Answer {
        let count = self.params.number(0, "blockCount")?.unwrap_or(1);
        let newest = self.params.block(1)?;
        let percentiles: Option<Vec<f64>> = self
            .params
            .get(2, "rewardPercentiles")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_f64).collect());
        let wanted = percentiles.as_deref().unwrap_or_default();
        let history = seen!(self, view => view.fee_history(count, newest, wanted));
        let history = history.ok_or_else(|| self.no_block())?;
        let blocks = history.gas_used_ratios.len();
        let price = |wei: u128| json::quantity(self.settings.untruths.price(wei));
        let quantities = |list: &[u128]| list.iter().map(|wei| price(*wei)).collect();
        let mut answer = json!({
            "oldestBlock": json::quantity(history.oldest),
            "baseFeePerGas":
                history.base_fees.iter().map(|wei| price(u128::from(*wei))).collect::<Vec<_>>(),
            "gasUsedRatio": history.gas_used_ratios,
            "baseFeePerBlobGas": vec!["0x1"; blocks + 1],
            "blobGasUsedRatio": vec![0.0; blocks],
        });
        if !wanted.is_empty() {
            let rewards: Vec<Value> = history.rewards.iter().map(|row| quantities(row)).collect();
            answer["reward"] = Value::Array(rewards);
        }
        Ok(answer)
    }

    fn gas_price(&self) -> Value {
        let chain = self.endpoint.shared.chain();
        let base_fee = self.endpoint.view(&chain, self.settings).next_base_fee().unwrap_or(0);
        let price = u128::from(base_fee) + chain.config().suggested_tip_wei;
        json::quantity(self.settings.untruths.price(price))
    }

    fn tip(&self) -> Value {
        let tip = self.endpoint.shared.chain().config().suggested_tip_wei;
        json::quantity(self.settings.untruths.price(tip))
    }

    fn estimate_gas(&self) -> Answer {
        let (call, id) = (self.params.call()?, self.params.block(1)?);
        let gas = seen!(self, view => view.call(&call, id));
        let gas = gas.map(|gas| self.settings.untruths.estimate.unwrap_or(gas));
        gas.map(json::quantity).map_err(|refused| self.settings.dialect.call_refused(&refused))
    }

    fn call(&self) -> Answer {
        let (call, id) = (self.params.call()?, self.params.block(1)?);
        let known = seen!(self, view => view.number(id).is_some());
        if !known {
            return Err(self.no_block());
        }
        let ran = seen!(self, view => view.call(&call, id));
        ran.map(|_| json!("0x")).map_err(|refused| self.settings.dialect.call_refused(&refused))
    }

    fn pool_status(&self) -> Value {
        let (pending, queued) = seen!(self, view => view.pool().counts());
        json!({ "pending": json::quantity(pending as u64), "queued": json::quantity(queued as u64) })
    }

    fn pool_content(&self) -> Value {
        let (mut pending, mut queued) = (Map::new(), Map::new());
        seen!(self, view => {
            let senders: Vec<Address> = view.pool().senders().collect();
            for sender in senders {
                let (now, later) = view.pooled(sender);
                for (list, map) in [(now, &mut pending), (later, &mut queued)] {
                    if !list.is_empty() {
                        map.insert(sender.to_string(), json::pooled(&list));
                    }
                }
            }
        });
        json!({ "pending": pending, "queued": queued })
    }

    fn pool_content_from(&self) -> Answer {
        let sender = self.params.address(0, "address")?;
        Ok(seen!(self, view => {
            let (now, later) = view.pooled(sender);
            json!({ "pending": json::pooled(&now), "queued": json::pooled(&later) })
        }))
    }
}
