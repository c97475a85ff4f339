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
    /// One block in so many, by number, is never there unless it is the head.
    MissingBlocks { one_in: u64 },
    /// One receipt in so many, by hash, is never there, and neither is its transaction.
    MissingReceipts { one_in: u64 },
    /// Receipts, and transactions by hash, of so many blocks before the head and of no older ones.
    PrunedReceipts { kept: u64 },
}

impl WrongAnswer {
    /// Returns true if the answer depends on the newest block.
    pub(super) fn needs_head(self) -> bool {
        matches!(self, Self::MissingBlocks { .. } | Self::PrunedReceipts { .. })
    }

    /// Changes an answer; `head` is the newest block, where it is needed.
    pub(super) fn change(self, call: &Value, answer: &mut Value, head: Option<u64>) {
        let head = head.unwrap_or_default();
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
            (
                Self::MissingBlocks { one_in },
                "eth_getBlockByNumber" | "eth_getBlockByHash" | "eth_getBlockReceipts",
            ) => {
                let block = block_of(method, result).filter(|block| *block != u128::from(head));
                if block.is_some_and(|block| is_one_in(one_in, block)) {
                    *result = Value::Null;
                }
            }
            (
                Self::MissingReceipts { one_in },
                "eth_getTransactionReceipt" | "eth_getTransactionByHash",
            ) if is_mined(result) && is_missing_receipt(one_in, &call["params"][0]) => {
                *result = Value::Null;
            }
            (Self::MissingReceipts { one_in }, "eth_getBlockReceipts") => {
                if let Some(receipts) = result.as_array_mut() {
                    receipts.retain(|it| !is_missing_receipt(one_in, &it["transactionHash"]));
                }
            }
            (
                Self::PrunedReceipts { kept },
                "eth_getTransactionReceipt" | "eth_getTransactionByHash" | "eth_getBlockReceipts",
            ) => {
                let block = block_of(method, result);
                if block.is_some_and(|block| block + u128::from(kept) < u128::from(head)) {
                    *result = Value::Null;
                }
            }
            _ => {}
        }
    }
}

fn is_mined(tx: &Value) -> bool {
    tx["blockNumber"].is_string()
}

fn is_one_in(one_in: u64, number: u128) -> bool {
    number % u128::from(one_in) == u128::from(one_in) - 1
}

/// Chooses transactions by the last byte of their hash.
fn is_missing_receipt(one_in: u64, hash: &Value) -> bool {
    let digits = hash.as_str().and_then(|hash| hash.get(hash.len().saturating_sub(2)..));
    let last = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    last.is_some_and(|last| is_one_in(one_in, last.into()))
}

/// The number of the block that an answer holds.
fn block_of(method: &str, result: &Value) -> Option<u128> {
    match method {
        "eth_getBlockByNumber" | "eth_getBlockByHash" => number(&result["number"]),
        "eth_getBlockReceipts" => number(&result[0]["blockNumber"]),
        "eth_getTransactionReceipt" | "eth_getTransactionByHash" => number(&result["blockNumber"]),
        _ => None,
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
    let method = call["method"].as_str().unwrap_or_default();
    if method == "eth_blockNumber" {
        *result = hex(head);
        return;
    }
    if block_of(method, result).is_some_and(|block| block > head.into()) {
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

    const HEAD: u64 = 20;

    fn changed(wrong: WrongAnswer, call: &Value, result: Value) -> Value {
        let mut answer = json!({ "id": call["id"], "result": result });
        wrong.change(call, &mut answer, Some(HEAD));
        answer["result"].take()
    }

    #[test]
    fn one_block_in_so_many_is_missing_unless_it_is_the_head() {
        let wrong = WrongAnswer::MissingBlocks { one_in: 4 };
        let there = |number: &str| {
            let block = json!({ "number": number });
            !changed(wrong, &call("eth_getBlockByNumber", json!([number, false])), block).is_null()
        };
        assert!(there("0x10") && !there("0x13"));
        let receipts = json!([{ "blockNumber": "0x13" }]);
        assert!(changed(wrong, &call("eth_getBlockReceipts", json!(["0x13"])), receipts).is_null());
        let head = WrongAnswer::MissingBlocks { one_in: HEAD + 1 };
        let block = json!({ "number": "0x14" });
        let newest = call("eth_getBlockByNumber", json!(["latest", false]));
        assert_eq!(changed(head, &newest, block.clone()), block);
    }

    #[test]
    fn one_receipt_in_so_many_is_missing_with_its_transaction() {
        let wrong = WrongAnswer::MissingReceipts { one_in: 2 };
        let mined = json!({ "blockNumber": "0x3" });
        for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash"] {
            let ask = |hash: &str| changed(wrong, &call(method, json!([hash])), mined.clone());
            assert_eq!((ask("0xab01"), ask("0xab02")), (Value::Null, mined.clone()), "{method}");
        }
        let pooled = json!({ "blockNumber": null });
        let ask = call("eth_getTransactionByHash", json!(["0xab01"]));
        assert_eq!(changed(wrong, &ask, pooled.clone()), pooled, "only mined ones");
        let receipts = json!([{ "transactionHash": "0x01" }, { "transactionHash": "0x02" }]);
        let kept = changed(wrong, &call("eth_getBlockReceipts", json!(["0x3"])), receipts);
        assert_eq!(kept, json!([{ "transactionHash": "0x02" }]));
    }

    #[test]
    fn receipts_of_older_blocks_are_pruned() {
        let wrong = WrongAnswer::PrunedReceipts { kept: 3 };
        for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash"] {
            let ask = |number: &str| {
                changed(wrong, &call(method, json!([])), json!({ "blockNumber": number }))
            };
            assert!(ask("0x10").is_null() && !ask("0x11").is_null(), "{method}");
        }
        let block = json!({ "number": "0x1" });
        let ask = call("eth_getBlockByNumber", json!(["0x1", false]));
        assert_eq!(changed(wrong, &ask, block.clone()), block, "blocks stay");
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
