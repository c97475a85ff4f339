//! The answers of a node without faults.

use serde_json::{Value, json};
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{B256, TxHash};

use super::{SendBehaviour, State, block};

type Chosen = Option<(BlockRef, Vec<TxHash>)>;

pub(super) fn wire_of(
    state: &State,
    choose: impl Fn(&[(BlockRef, Vec<TxHash>)]) -> Chosen,
) -> Value {
    let Some((at, transactions)) = choose(&state.branch) else { return Value::Null };
    let mut block = json!({
        "number": format!("{:#x}", at.number),
        "hash": at.hash.to_string(),
        "parentHash": at.parent.to_string(),
        "timestamp": "0x65000000",
        "transactions": transactions.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    if let Some(fee) = state.base_fee {
        block["baseFeePerGas"] = json!(format!("{fee:#x}"));
    }
    block
}

fn in_full(state: &State, hash: &Value) -> Value {
    let slot = hash.as_str().and_then(|hash| state.slots.get(&hash.parse::<B256>().ok()?));
    let (from, nonce) = slot.copied().unwrap_or_default();
    json!({"hash": hash, "from": from.to_string(), "nonce": format!("{nonce:#x}"), "value": "0x0"})
}

fn receipt_of(state: &State, at: &BlockRef, hash: &TxHash) -> Value {
    let mut receipt = json!({
        "transactionHash": hash.to_string(),
        "blockHash": at.hash.to_string(),
        "blockNumber": format!("{:#x}", at.number),
        "gasUsed": "0x5208",
        "status": if state.failed.contains(hash) { "0x0" } else { "0x1" },
    });
    for (name, value) in state.receipt_extras.as_object().into_iter().flatten() {
        receipt[name] = value.clone();
    }
    receipt
}

pub(super) fn result_of(
    state: &State,
    method: &str,
    params: &Value,
) -> Option<Result<Value, Value>> {
    let number = |value: &Value| {
        let digits = value.as_str().and_then(|text| text.strip_prefix("0x"))?;
        u64::from_str_radix(digits, 16).ok()
    };
    let by_number = |number: u64| {
        wire_of(state, |branch| branch.iter().find(|(at, _)| at.number == number).cloned())
    };
    let hash = || params[0].as_str().unwrap_or_default().parse::<B256>().unwrap_or_default();
    let holder = |hash: TxHash| {
        state.branch.iter().find(|(_, held)| held.contains(&hash)).map(|(at, _)| *at)
    };
    let hex = |number: u64| json!(format!("{number:#x}"));
    Some(Ok(match method {
        "eth_chainId" => hex(state.chain_id),
        "eth_getBlockByNumber" => match params[0].as_str()? {
            "latest" if state.head_ahead > 0 => wire_of(state, |branch| {
                let (at, _) = branch.last()?;
                Some((block(9, at.number + state.head_ahead), Vec::new()))
            }),
            "latest" => wire_of(state, |branch| branch.last().cloned()),
            "finalized" if state.finalized_as.is_some() => state.finalized_as.clone()?,
            "finalized" => state.finalized.map_or(Value::Null, by_number),
            _ => {
                let mut block = number(&params[0]).map_or(Value::Null, by_number);
                if let (Value::Bool(true), Some(held)) = (&params[1], block.get_mut("transactions"))
                {
                    *held = held.as_array()?.iter().map(|hash| in_full(state, hash)).collect();
                }
                block
            }
        },
        "eth_getBlockByHash" => {
            wire_of(state, |branch| branch.iter().find(|(at, _)| at.hash == hash()).cloned())
        }
        "eth_getTransactionCount" if params[1] == "latest" => hex(state.mined),
        "eth_getTransactionCount" if params[1] == "pending" => hex(state.pending),
        "eth_getTransactionCount" => {
            let at = number(&params[1])?;
            if let Some(count) = state.counts_without_state.filter(|_| at < state.oldest_state) {
                return Some(Ok(hex(count)));
            }
            if at < state.oldest_state || state.branch.iter().all(|(block, _)| block.number < at) {
                return Some(Err(json!({"code": -32000, "message": "missing trie node 0a"})));
            }
            let blocks = state.branch.iter().filter(|(block, _)| block.number <= at);
            let its = blocks.flat_map(|(_, held)| held).filter(|hash| {
                let slot = state.slots.get(*hash);
                slot.is_some_and(|(from, _)| params[0] == json!(from.to_string()))
            });
            hex(its.count() as u64)
        }
        "eth_getBalance" => json!("0xde0b6b3a7640000"),
        "eth_gasPrice" => hex(5_000),
        "eth_maxPriorityFeePerGas" => hex(70),
        "eth_feeHistory" => json!({
            "oldestBlock": "0x1", "gasUsedRatio": [0.5, 0.5, 0.0],
            "baseFeePerGas": ["0x3e8", "0x3e8", "0x3e8", "0x44c"],
            "reward": [["0x1", "0x2", "0x3"], ["0xa", "0x14", "0x1e"], ["0x0", "0x0", "0x0"]],
        }),
        "eth_estimateGas" => match &state.estimates_take_one {
            Some(error) if !params[1].is_null() => return Some(Err(error.clone())),
            Some(_) | None => hex(21_000),
        },
        "eth_getTransactionReceipt" if state.unreadable.contains(&hash()) => {
            return Some(Err(json!({"code": -32000, "message": "receipt can't be decoded"})));
        }
        "eth_getTransactionReceipt" => {
            holder(hash()).map_or(Value::Null, |at| receipt_of(state, &at, &hash()))
        }
        "eth_getBlockReceipts" => {
            let (at, held) =
                state.branch.iter().find(|(at, _)| Some(at.number) == number(&params[0]))?;
            let readable = held.iter().filter(|hash| !state.unreadable.contains(*hash));
            readable.map(|hash| receipt_of(state, at, hash)).collect()
        }
        "eth_getTransactionByHash" => {
            let at = holder(hash());
            if at.is_none() && !state.in_pool.contains(&hash()) {
                return Some(Ok(Value::Null));
            }
            json!({
                "hash": hash().to_string(), "from": format!("0x{}", "11".repeat(20)),
                "to": format!("0x{}", "22".repeat(20)), "value": "0x0", "input": "0x", "gas": "0x5208",
                "blockHash": at.map(|at| at.hash.to_string()),
                "blockNumber": at.map(|at| format!("{:#x}", at.number)),
            })
        }
        "eth_sendRawTransaction" => match &state.send_behaviour {
            SendBehaviour::Accepts => {
                let raw = alloy_primitives::hex::decode(params[0].as_str()?).unwrap();
                json!(alloy_primitives::keccak256(raw).to_string())
            }
            SendBehaviour::AnotherHash => json!(B256::ZERO.to_string()),
            SendBehaviour::Fails(message) => {
                return Some(Err(json!({"code": -32000, "message": message})));
            }
            SendBehaviour::LosesAnswer | SendBehaviour::Swallows => return None,
        },
        other => {
            return Some(Err(json!({"code": -32601, "message": format!("no method {other}")})));
        }
    }))
}
