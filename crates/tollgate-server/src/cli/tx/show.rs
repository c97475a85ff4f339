//! Prints transactions as tables.

use tollgate_api::{
    ActionAnswer, Attempt, BlockedBy, OperatorTx, Tx, TxAnswer, TxPage, format_eth,
};

use crate::cli::remote::{Failed, print_line};
use crate::cli::table::{Fields, Table, cell};
use crate::cli::units::{age, gwei, moment, time_until, to_the_second};

/// One transaction, as callers see it. `needed` is the number of blocks that make it final.
pub(super) fn tx(tx: &Tx, needed: Option<u64>) -> Result<(), Failed> {
    fields(tx, None, needed).print()
}

/// One transaction, as operators see it.
pub(super) fn operator_tx(tx: &OperatorTx, needed: Option<u64>) -> Result<(), Failed> {
    let mut fields = fields(&tx.tx, tx.nonce, needed);
    fields.add("token", tx.fencing_token);
    fields.add("resubmits", tx.resubmits);
    fields.add_some("next resend", tx.next_resubmit_at.as_deref().map(to_the_second));
    fields.add_some("last error", tx.last_error.as_ref());
    fields.add_some("diagnosis", tx.diagnosis.as_ref());
    fields.print()?;
    if tx.attempts.is_empty() {
        return Ok(());
    }
    print_line("")?;
    attempts(&tx.attempts)
}

pub(super) fn fields(tx: &Tx, nonce: Option<u64>, needed: Option<u64>) -> Fields {
    let mut fields = Fields::default();
    fields.add("tx", &tx.tx_id);
    fields.add("state", tx.state_name());
    fields.add_some("blocked by", tx.blocked_by.as_ref().map(blocked_by));
    fields.add("submitter", &tx.submitter);
    fields.add_some("request", tx.request_id.as_ref());
    fields.add_some("nonce", nonce);
    fields.add_some("hash", tx.tx_hash.as_ref());
    if let Some(result) = &tx.result {
        fields.add("block", result.block_number);
        fields.add_some("blocks", progress(tx, needed));
        fields.add("result", &result.status);
        fields.add_some("contract", result.contract_address.as_ref());
        fields.add("gas used", &result.gas_used);
        fields.add_some("gas price", result.effective_gas_price.as_deref().map(gwei));
        fields.add_some("fee", result.fee.as_deref().map(format_eth));
        fields.add_some("revert", result.revert_reason.as_ref());
    }
    fields.add("created", moment(&tx.created_at));
    fields.add("updated", moment(&tx.updated_at));
    fields.add_some("not before", tx.not_before.as_ref());
    fields.add_some("valid until", tx.valid_until.as_ref());
    for item in &tx.authorization_list {
        let delegates = format!("{} to {} (nonce {})", item.authority, item.address, item.nonce);
        fields.add("authorizes", delegates);
    }
    fields.add_some("replaceable", tx.replaceable.then_some(true));
    fields.add_some("route", (tx.route != "public").then_some(&tx.route));
    fields.add_some("fallback after", tx.fallback_after.as_ref());
    fields.add_some("metadata", tx.metadata.as_ref().map(|metadata| metadata.get()));
    fields
}

fn attempts(attempts: &[Attempt]) -> Result<(), Failed> {
    let head = ["#", "KIND", "OUTCOME", "MAX FEE", "TIP", "SENT", "HASH"];
    let mut table = Table::new(head).shortens(&["HASH"]);
    for attempt in attempts {
        table.row([
            attempt.number.to_string(),
            attempt.kind.to_string(),
            attempt.outcome.to_string(),
            gwei(&attempt.fees.max_fee_per_gas),
            cell(attempt.fees.max_priority_fee_per_gas.as_deref().map(gwei).as_ref()),
            cell(attempt.sent_at.as_deref().map(age).as_ref()),
            attempt.tx_hash.clone(),
        ]);
    }
    table.print()
}

/// The outcome of an action, and the transaction after it.
pub(super) fn action(answer: &ActionAnswer) -> Result<(), Failed> {
    let mut fields = Fields::default();
    fields.add("outcome", &answer.outcome);
    fields.add_some("new hash", answer.tx_hash.as_ref());
    fields.print()?;
    print_line("")?;
    match &answer.tx {
        TxAnswer::Operator(shown) => operator_tx(shown, None),
        TxAnswer::Caller(shown) => tx(shown, None),
    }
}

/// The blocks on top of a transaction that is not final yet: `3 of 20`.
pub(super) fn progress(tx: &Tx, needed: Option<u64>) -> Option<String> {
    let blocks = tx.result.as_ref()?.confirmations?;
    if is_final(&tx.state) {
        return None;
    }
    Some(match needed {
        Some(needed) => format!("{} of {needed}", blocks.min(needed)),
        None => blocks.to_string(),
    })
}

/// Returns whether a state is an end.
pub(super) fn is_final(state: &str) -> bool {
    ["CONFIRMED", "FAILED_FINAL"].contains(&state)
}

/// A page of transactions.
pub(super) fn list(page: &TxPage, is_wide: bool) -> Result<(), Failed> {
    table_of(&page.items).wide(is_wide).print_page(page.next.as_deref())
}

fn table_of(items: &[Tx]) -> Table {
    let mut table = Table::new(["TX", "STATE", "AGE", "SUBMITTER", "REQUEST"])
        .shortens(&["SUBMITTER", "TX"])
        .cuts(&["REQUEST"]);
    for tx in items {
        table.row([
            tx.tx_id.clone(),
            listed_state(tx),
            age(&tx.created_at),
            tx.submitter.clone(),
            cell(tx.request_id.as_ref()),
        ]);
    }
    table
}

/// The state, and how long a queued transaction is not sent yet.
fn listed_state(tx: &Tx) -> String {
    let queued = tx.not_before.as_deref().filter(|_| tx.state == "QUEUED");
    let start = queued.map(|start| format!(", starts in {}", time_until(start)));
    format!("{}{}", tx.state_name(), start.unwrap_or_default())
}

/// The transaction that everything else of the account waits for, and why.
pub(in crate::cli) fn blocked_by(blocked: &BlockedBy) -> String {
    let nonce = blocked.nonce.map(|nonce| format!(", nonce {nonce}")).unwrap_or_default();
    format!("{} ({}{nonce})", blocked.tx_id, blocked.reason)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::cli::table::WIDTH;

    fn sample(state: &str, sub_state: Value, request_id: &str) -> Value {
        json!({
            "txId": "0198c0de-7a11-7000-8000-00000000cafe", "chainId": 31_337,
            "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "requestId": request_id,
            "to": null, "value": "1", "state": state, "subState": sub_state,
            "txHash": format!("0x{}", "ab".repeat(32)), "blockedBy": null,
            "result": {
                "blockNumber": 12_345_678, "blockHash": format!("0x{}", "cd".repeat(32)),
                "blockTime": null, "transactionIndex": null, "gasUsed": "21000",
                "effectiveGasPrice": "1000000007", "fee": "21000000147000", "contractAddress": null,
                "status": "reverted", "revertReason": "余额不足".repeat(30), "confirmations": 3,
            },
            "createdAt": "2026-11-19T09:30:00.123456Z", "updatedAt": "2026-11-19T09:30:01.123456Z",
            "validUntil": null, "notBefore": null, "replaceable": false,
            "metadata": {"备注": "提币 ".repeat(40), "note": "word ".repeat(40)},
        })
    }

    fn read(sample: Value) -> Tx {
        serde_json::from_str(&sample.to_string()).unwrap()
    }

    fn assert_fits(lines: &[String]) {
        for line in lines {
            assert!(line.width() <= WIDTH, "{} columns: {line}", line.width());
        }
    }

    #[test]
    fn every_state_and_request_id_fits_the_list() {
        for (state, sub_state, request) in [
            ("CONFIRMED", Value::Null, "order-1"),
            ("ALLOCATED", json!("UNKNOWN_SUBMIT_RESULT"), "order-1"),
            ("STUCK", json!("RESUBMITS_EXHAUSTED"), &*"提币流水号".repeat(12)),
            ("FAILED_FINAL", json!("NONCE_TAKEN"), &*"x".repeat(256)),
        ] {
            let lines = table_of(&[read(sample(state, sub_state, request))]).lines();
            assert_fits(&lines);
            assert!(lines[1].contains(state) && lines[1].contains("0xf39Fd6…2266"), "{lines:?}");
        }
        let mut scheduled = sample("QUEUED", json!("WAITING"), "order-1");
        scheduled["notBefore"] = json!("2999-11-20T09:30:00Z");
        let lines = table_of(&[read(scheduled)]).lines();
        assert_fits(&lines);
        assert!(lines[1].contains("QUEUED/WAITING, starts in 3"), "{lines:?}");
    }

    #[test]
    fn one_transaction_is_shown_in_gwei_and_eth_with_its_age_and_its_blocks() {
        let tx = read(sample("TRACKING", json!("MINED"), &"提币".repeat(60)));
        let lines = fields(&tx, Some(7), Some(20)).lines();
        assert_fits(&lines);
        let shown = lines.join("\n");
        for part in ["gas price  1 gwei", "fee        0.000021000000147 eth", "3 of 20", " ago)"] {
            assert!(shown.contains(part), "no {part:?} in\n{shown}");
        }
    }

    #[test]
    fn blocks_are_counted_until_the_transaction_is_final() {
        let mut mined = sample("TRACKING", json!("MINED"), "order-1");
        assert_eq!(progress(&read(mined.clone()), Some(20)).unwrap(), "3 of 20");
        assert_eq!(progress(&read(mined.clone()), Some(2)).unwrap(), "2 of 2");
        assert_eq!(progress(&read(mined.clone()), None).unwrap(), "3");
        mined["result"]["confirmations"] = Value::Null;
        assert_eq!(progress(&read(mined), Some(20)), None);
        assert_eq!(progress(&read(sample("CONFIRMED", Value::Null, "order-1")), Some(20)), None);
    }
}
