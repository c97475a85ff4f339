//! What an endpoint says that is not so: answers of a real node, bent on their way.

use serde_json::{Value, json};

/// How many blocks a head is ahead.
const AHEAD: u128 = 500;
/// How many transactions too many are pending.
const TOO_MANY: u128 = 100_000;
/// How many times too much everything costs.
const FACTOR: u128 = 1_000;

/// One kind of untruth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lie {
    /// A head that nobody can deliver.
    HeadAhead,
    /// Pending counts that are too high.
    Counts,
    /// Prices that are too high.
    Fees,
    /// No receipts, and no transactions by hash.
    NoReceipts,
    /// More gas than a number holds.
    Estimates,
}

impl Lie {
    /// Bends the answer to a request, single or batch.
    pub(crate) fn bend(self, asked: &Value, said: &mut Value) {
        match (asked, said) {
            (Value::Array(calls), Value::Array(answers)) => {
                for answer in answers {
                    let is_it = |call: &&Value| call["id"] == answer["id"];
                    if let Some(call) = calls.iter().find(is_it) {
                        self.bend_one(call, answer);
                    }
                }
            }
            (call, answer) => self.bend_one(call, answer),
        }
    }

    fn bend_one(self, call: &Value, answer: &mut Value) {
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
            (Self::Counts, "eth_getTransactionCount") if call["params"][1] == "pending" => {
                add(result, TOO_MANY);
            }
            (Self::Fees, "eth_gasPrice" | "eth_maxPriorityFeePerGas") => multiply(result, FACTOR),
            (Self::Fees, "eth_feeHistory") => {
                each(&mut result["baseFeePerGas"], |fee| multiply(fee, FACTOR));
                each(&mut result["reward"], |row| each(row, |tip| multiply(tip, FACTOR)));
            }
            (
                Self::NoReceipts,
                "eth_getTransactionReceipt" | "eth_getBlockReceipts" | "eth_getTransactionByHash",
            ) => *result = Value::Null,
            (Self::Estimates, "eth_estimateGas") => *result = json!("0xffffffffffffffff"),
            _ => {}
        }
    }
}

fn each(list: &mut Value, change: impl Fn(&mut Value)) {
    list.as_array_mut().into_iter().flatten().for_each(change);
}

fn number(value: &Value) -> Option<u128> {
    u128::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn add(value: &mut Value, more: u128) {
    if let Some(number) = number(value) {
        *value = json!(format!("{:#x}", number + more));
    }
}

fn multiply(value: &mut Value, factor: u128) {
    if let Some(number) = number(value) {
        *value = json!(format!("{:#x}", number.saturating_mul(factor)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bent(lie: Lie, call: Value, result: Value) -> Value {
        let mut said = json!({ "id": call["id"], "result": result });
        lie.bend(&call, &mut said);
        said["result"].take()
    }

    #[test]
    fn each_lie_bends_what_it_is_about_and_nothing_else() {
        let count =
            json!({ "id": 1, "method": "eth_getTransactionCount", "params": ["0xa", "pending"] });
        assert_eq!(bent(Lie::Counts, count.clone(), json!("0x1")), json!("0x186a1"));
        assert_eq!(bent(Lie::Fees, count, json!("0x1")), json!("0x1"));
        let latest =
            json!({ "id": 1, "method": "eth_getTransactionCount", "params": ["0xa", "latest"] });
        assert_eq!(bent(Lie::Counts, latest, json!("0x1")), json!("0x1"));
        let history = json!({ "id": 1, "method": "eth_feeHistory", "params": [] });
        let said = json!({ "baseFeePerGas": ["0x1"], "reward": [["0x2"]] });
        let wanted = json!({ "baseFeePerGas": ["0x3e8"], "reward": [["0x7d0"]] });
        assert_eq!(bent(Lie::Fees, history, said), wanted);
        let receipt = json!({ "id": 1, "method": "eth_getTransactionReceipt", "params": [] });
        assert_eq!(bent(Lie::NoReceipts, receipt, json!({ "status": "0x1" })), Value::Null);
        let block = |tag: &str| json!({ "id": 1, "method": "eth_getBlockByNumber", "params": [tag, false] });
        let said = json!({ "number": "0x1", "hash": "0xa", "parentHash": "0xb" });
        assert_eq!(bent(Lie::HeadAhead, block("latest"), said.clone())["number"], json!("0x1f5"));
        assert_eq!(bent(Lie::HeadAhead, block("0x1"), said.clone()), said);
    }

    #[test]
    fn answers_of_a_batch_are_bent_by_their_ids() {
        let call = |id: u64, method: &str| json!({ "id": id, "method": method, "params": [] });
        let asked = json!([call(1, "eth_gasPrice"), call(2, "eth_blockNumber")]);
        let mut said = json!([{ "id": 2, "result": "0x1" }, { "id": 1, "result": "0x1" }]);
        Lie::Fees.bend(&asked, &mut said);
        assert_eq!(said, json!([{ "id": 2, "result": "0x1" }, { "id": 1, "result": "0x3e8" }]));
    }
}
