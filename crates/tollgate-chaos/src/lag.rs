//! An endpoint that is some blocks behind: what it is asked of its newest block is asked of an older
//! one, and what it can't have seen yet is not there.

use serde_json::{Value, json};

/// Asks about the newest block that a lagging endpoint has, where the newest one is asked for.
pub(crate) fn ask_behind(asked: &mut Value, head: u64) {
    each_call(asked, |call| {
        let Some(place) = call["method"].as_str().and_then(block_parameter) else { return };
        let Some(tag) = call["params"].get_mut(place) else { return };
        if *tag == "latest" || *tag == "pending" {
            *tag = hex(head);
        }
    });
}

/// Takes out of the answers what is above the newest block that a lagging endpoint has.
pub(crate) fn hide_newer(asked: &Value, said: &mut Value, head: u64) {
    match (asked, said) {
        (Value::Array(calls), Value::Array(answers)) => {
            for answer in answers {
                let is_it = |call: &&Value| call["id"] == answer["id"];
                if let Some(call) = calls.iter().find(is_it) {
                    hide_one(call, answer, head);
                }
            }
        }
        (call, answer) => hide_one(call, answer, head),
    }
}

fn hide_one(call: &Value, answer: &mut Value, head: u64) {
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
    if block.is_some_and(|block| block > head) {
        *result = Value::Null;
    }
}

/// Which parameter of a method names the block that is asked about.
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

fn each_call(asked: &mut Value, change: impl Fn(&mut Value)) {
    match asked {
        Value::Array(calls) => calls.iter_mut().for_each(change),
        call => change(call),
    }
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64, method: &str, params: Value) -> Value {
        json!({ "id": id, "method": method, "params": params })
    }

    #[test]
    fn newest_block_is_asked_for_as_an_older_one() {
        let mut asked = json!([
            call(1, "eth_getBlockByNumber", json!(["latest", false])),
            call(2, "eth_getTransactionCount", json!(["0xa", "pending"])),
            call(3, "eth_getTransactionCount", json!(["0xa", "0x5"])),
            call(4, "eth_sendRawTransaction", json!(["latest"])),
        ]);
        ask_behind(&mut asked, 16);
        let places = [("/0/params/0", "0x10"), ("/1/params/1", "0x10"), ("/2/params/1", "0x5")];
        for (place, wanted) in places.into_iter().chain([("/3/params/0", "latest")]) {
            assert_eq!(asked.pointer(place), Some(&json!(wanted)), "{place}");
        }
    }

    #[test]
    fn blocks_and_receipts_above_the_head_are_not_there() {
        let asked = json!([
            call(1, "eth_blockNumber", json!([])),
            call(2, "eth_getTransactionReceipt", json!(["0xa"])),
            call(3, "eth_getTransactionReceipt", json!(["0xb"])),
            call(4, "eth_getBlockReceipts", json!(["0x11"])),
        ]);
        let mut said = json!([
            { "id": 3, "result": { "blockNumber": "0x10" } },
            { "id": 2, "result": { "blockNumber": "0x11" } },
            { "id": 1, "result": "0x12" },
            { "id": 4, "result": [{ "blockNumber": "0x11" }] },
        ]);
        hide_newer(&asked, &mut said, 16);
        let wanted = json!([
            { "id": 3, "result": { "blockNumber": "0x10" } },
            { "id": 2, "result": null },
            { "id": 1, "result": "0x10" },
            { "id": 4, "result": null },
        ]);
        assert_eq!(said, wanted);
    }
}
