//! Changes of calls and answers: classes of wrong answers, and endpoints that are some blocks behind.

use serde_json::{Value, json};

/// Blocks by which a head is too high.
const AHEAD: i128 = 500;
/// By how much a pending count is too high.
const PENDING_TOO_MANY: i128 = 100_000;
/// By which factor prices are too high.
const PRICE_FACTOR: u128 = 1_000;

/// A class of answers that an endpoint gets wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongAnswer {
    /// A head whose block no endpoint has.
    HeadAhead,
    /// Pending counts that are too high.
    PendingCounts,
    /// Prices that are too high.
    Fees,
    /// No receipts, and no transactions by hash.
    NoReceipts,
    /// Receipts that name the opposite of what happened.
    FlippedReceipts,
    /// Gas estimates of 2^64 − 1.
    Estimates,
}

impl WrongAnswer {
    pub(super) fn change(self, call: &Value, answer: &mut Value) {
        let Some(result) = answer.get_mut("result") else { return };
        let method = call["method"].as_str().unwrap_or_default();
        match (self, method) {
            (Self::HeadAhead, "eth_blockNumber") => add(result, AHEAD),
            (Self::HeadAhead, "eth_getBlockByNumber") if call["params"][0] == "latest" => {
                add(&mut result["number"], AHEAD);
                result["parentHash"] = result["hash"].clone();
                result["hash"] = json!(format!("0x{}", "5a".repeat(32)));
                result["transactions"] = json!([]);
            }
            (Self::PendingCounts, "eth_getTransactionCount") if call["params"][1] == "pending" => {
                add(result, PENDING_TOO_MANY);
            }
            (Self::Fees, "eth_gasPrice" | "eth_maxPriorityFeePerGas") => multiply(result),
            (Self::Fees, "eth_feeHistory") => {
                each(&mut result["baseFeePerGas"], multiply);
                each(&mut result["reward"], |row| each(row, multiply));
            }
            (
                Self::NoReceipts,
                "eth_getTransactionReceipt" | "eth_getBlockReceipts" | "eth_getTransactionByHash",
            ) => *result = Value::Null,
            (Self::FlippedReceipts, "eth_getTransactionReceipt") => flip(result),
            (Self::FlippedReceipts, "eth_getBlockReceipts") => each(result, flip),
            (Self::Estimates, "eth_estimateGas") => *result = json!("0xffffffffffffffff"),
            _ => {}
        }
    }
}

fn flip(receipt: &mut Value) {
    if let Some(status) = receipt.get_mut("status") {
        *status = json!(if *status == "0x1" { "0x0" } else { "0x1" });
    }
}

fn each(list: &mut Value, change: impl Fn(&mut Value)) {
    list.as_array_mut().into_iter().flatten().for_each(change);
}

pub(super) fn number(value: &Value) -> Option<u128> {
    u128::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

pub(super) fn add(value: &mut Value, difference: i128) {
    if let Some(number) = number(value) {
        *value = json!(format!("{:#x}", number.saturating_add_signed(difference)));
    }
}

fn multiply(value: &mut Value) {
    if let Some(number) = number(value) {
        *value = json!(format!("{:#x}", number.saturating_mul(PRICE_FACTOR)));
    }
}

/// Makes a call refer to the newest block that a lagging endpoint has.
pub(super) fn ask_behind(call: &mut Value, head: u64) {
    let Some(place) = call["method"].as_str().and_then(block_parameter) else { return };
    let Some(tag) = call["params"].get_mut(place) else { return };
    if *tag == "latest" || *tag == "pending" {
        *tag = hex(head);
    }
}

/// Removes from an answer what is above the newest block that a lagging endpoint has.
pub(super) fn hide_newer(call: &Value, answer: &mut Value, head: u64) {
    let Some(result) = answer.get_mut("result") else { return };
    let block = match call["method"].as_str().unwrap_or_default() {
        "eth_blockNumber" => {
            *result = hex(head);
            return;
        }
        "eth_getBlockByNumber" | "eth_getBlockByHash" => number(&result["number"]),
        "eth_getBlockReceipts" => number(&result[0]["blockNumber"]),
        "eth_getTransactionReceipt" | "eth_getTransactionByHash" => number(&result["blockNumber"]),
        _ => None,
    };
    if block.is_some_and(|block| block > head.into()) {
        *result = Value::Null;
    }
}

/// The position of the parameter that names a block.
fn block_parameter(method: &str) -> Option<usize> {
    match method {
        "eth_getBlockByNumber" | "eth_getBlockReceipts" => Some(0),
        "eth_getTransactionCount"
        | "eth_getBalance"
        | "eth_getCode"
        | "eth_call"
        | "eth_estimateGas"
        | "eth_feeHistory" => Some(1),
        _ => None,
    }
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, params: Value) -> Value {
        json!({ "id": 1, "method": method, "params": params })
    }

    #[test]
    fn newest_block_is_asked_for_as_an_older_one() {
        for (method, params, changed) in [
            ("eth_getBlockByNumber", json!(["latest", false]), json!(["0x10", false])),
            ("eth_getTransactionCount", json!(["0xa", "pending"]), json!(["0xa", "0x10"])),
            ("eth_getTransactionCount", json!(["0xa", "0x5"]), json!(["0xa", "0x5"])),
            ("eth_sendRawTransaction", json!(["latest"]), json!(["latest"])),
        ] {
            let mut call = call(method, params);
            ask_behind(&mut call, 16);
            assert_eq!(call["params"], changed, "{method}");
        }
    }

    #[test]
    fn blocks_and_receipts_above_the_head_are_not_there() {
        for (method, result, changed) in [
            ("eth_blockNumber", json!("0x12"), json!("0x10")),
            ("eth_getTransactionReceipt", json!({ "blockNumber": "0x11" }), Value::Null),
            (
                "eth_getTransactionReceipt",
                json!({ "blockNumber": "0x10" }),
                json!({ "blockNumber": "0x10" }),
            ),
            ("eth_getBlockReceipts", json!([{ "blockNumber": "0x11" }]), Value::Null),
        ] {
            let mut answer = json!({ "id": 1, "result": result });
            hide_newer(&call(method, json!([])), &mut answer, 16);
            assert_eq!(answer["result"], changed, "{method}");
        }
    }

    fn changed(wrong: WrongAnswer, call: &Value, result: Value) -> Value {
        let mut answer = json!({ "id": call["id"], "result": result });
        wrong.change(call, &mut answer);
        answer["result"].take()
    }

    #[test]
    fn each_class_changes_its_own_methods_only() {
        let count = call("eth_getTransactionCount", json!(["0xa", "pending"]));
        assert_eq!(changed(WrongAnswer::PendingCounts, &count, json!("0x1")), json!("0x186a1"));
        assert_eq!(changed(WrongAnswer::Fees, &count, json!("0x1")), json!("0x1"));
        let latest = call("eth_getTransactionCount", json!(["0xa", "latest"]));
        assert_eq!(changed(WrongAnswer::PendingCounts, &latest, json!("0x1")), json!("0x1"));
        let history = call("eth_feeHistory", json!([]));
        let result = json!({ "baseFeePerGas": ["0x1"], "reward": [["0x2"]] });
        let wanted = json!({ "baseFeePerGas": ["0x3e8"], "reward": [["0x7d0"]] });
        assert_eq!(changed(WrongAnswer::Fees, &history, result), wanted);
        let receipt = call("eth_getTransactionReceipt", json!([]));
        assert_eq!(changed(WrongAnswer::NoReceipts, &receipt, json!({ "a": 1 })), Value::Null);
        let flipped = changed(WrongAnswer::FlippedReceipts, &receipt, json!({ "status": "0x1" }));
        assert_eq!(flipped, json!({ "status": "0x0" }));
        let block = |tag: &str| call("eth_getBlockByNumber", json!([tag, false]));
        let result = json!({ "number": "0x1", "hash": "0xa", "parentHash": "0xb" });
        let ahead = changed(WrongAnswer::HeadAhead, &block("latest"), result.clone());
        assert_eq!(ahead["number"], json!("0x1f5"));
        assert_eq!(changed(WrongAnswer::HeadAhead, &block("0x1"), result.clone()), result);
    }
}
