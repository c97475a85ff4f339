//! An endpoint that is some blocks behind: calls about the newest block go to an older one, and what
//! is above that one is removed from answers.

use serde_json::{Value, json};

use super::wrong_answer::number;

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
}
