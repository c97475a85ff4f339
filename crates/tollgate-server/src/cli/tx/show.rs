//! Transactions as tables.

use serde_json::Value;

use crate::cli::remote::{Trouble, say};
use crate::cli::table::{Fields, Table};

/// One transaction, with what operators see if it is there.
pub(super) fn tx(tx: &Value) -> Result<(), Trouble> {
    let mut fields = Fields::default();
    let result = &tx["result"];
    fields.add("tx", text(&tx["txId"]));
    fields.add("state", Some(state(tx)));
    fields.add("blocked by", blocked_by(tx));
    fields.add("submitter", text(&tx["submitter"]));
    fields.add("request", text(&tx["requestId"]));
    fields.add("nonce", text(&tx["nonce"]));
    fields.add("hash", text(&tx["txHash"]));
    fields.add("block", text(&result["blockNumber"]));
    fields.add("result", text(&result["status"]));
    fields.add("contract", text(&result["contractAddress"]));
    fields.add("gas used", text(&result["gasUsed"]));
    fields.add("gas price", text(&result["effectiveGasPrice"]));
    fields.add("fee", text(&result["fee"]));
    fields.add("revert", text(&result["revertReason"]));
    fields.add("created", text(&tx["createdAt"]));
    fields.add("updated", text(&tx["updatedAt"]));
    fields.add("valid until", text(&tx["validUntil"]));
    fields.add("replaceable", text(&tx["replaceable"]).filter(|word| word == "true"));
    fields.add("metadata", text(&tx["metadata"]));
    fields.add("token", text(&tx["fencingToken"]));
    fields.add("resubmits", text(&tx["resubmits"]));
    fields.add("next resend", text(&tx["nextResubmitAt"]));
    fields.add("last error", text(&tx["lastError"]));
    fields.add("diagnosis", text(&tx["diagnosis"]));
    fields.print()?;
    match tx["attempts"].as_array() {
        Some(attempts) if !attempts.is_empty() => {
            say("")?;
            show_attempts(attempts)
        }
        _ => Ok(()),
    }
}

fn show_attempts(attempts: &[Value]) -> Result<(), Trouble> {
    let head = ["ATTEMPT", "KIND", "OUTCOME", "MAX FEE", "TIP", "SENT", "HASH"];
    let mut table = Table::new(head);
    for attempt in attempts {
        let sent = attempt["sentAt"].as_str().map(clock).unwrap_or_default();
        table.row([
            cell(&attempt["number"]),
            cell(&attempt["kind"]),
            cell(&attempt["outcome"]),
            cell(&attempt["fees"]["maxFeePerGas"]),
            cell(&attempt["fees"]["maxPriorityFeePerGas"]),
            sent,
            cell(&attempt["txHash"]),
        ]);
    }
    table.print()
}

/// What an action did, and the transaction since.
pub(super) fn acted(answer: &Value) -> Result<(), Trouble> {
    let mut fields = Fields::default();
    fields.add("outcome", text(&answer["outcome"]));
    fields.add("new hash", text(&answer["txHash"]));
    fields.print()?;
    say("")?;
    tx(&answer["tx"])
}

/// A page of transactions.
pub(super) fn list(page: &Value) -> Result<(), Trouble> {
    let mut table = Table::new(["TX", "STATE", "SUBMITTER", "CREATED", "REQUEST"]);
    for tx in page["items"].as_array().into_iter().flatten() {
        table.row([
            cell(&tx["txId"]),
            state(tx),
            cell(&tx["submitter"]),
            to_the_second(tx["createdAt"].as_str().unwrap_or_default()),
            cell(&tx["requestId"]),
        ]);
    }
    table.print()?;
    if let Some(next) = page["next"].as_str() {
        eprintln!("more with --cursor {next}");
    }
    Ok(())
}

/// `STATE`, or `STATE/SUB_STATE`.
pub(in crate::cli) fn state(of: &Value) -> String {
    let word = |name: &str| of[name].as_str().unwrap_or_default();
    match word("subState") {
        "" => word("state").to_owned(),
        sub => format!("{}/{sub}", word("state")),
    }
}

/// A value as people read it; `None` for null.
pub(in crate::cli) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// What everything else of the account waits for, and why; `None` if nothing is in the way.
pub(in crate::cli) fn blocked_by(of: &Value) -> Option<String> {
    let blocked = of["blockedBy"].as_object()?;
    let word = |name: &str| blocked.get(name).and_then(text).unwrap_or_default();
    let nonce = blocked.get("nonce").and_then(text);
    let nonce = nonce.map(|nonce| format!(", nonce {nonce}")).unwrap_or_default();
    Some(format!("{} ({}{nonce})", word("txId"), word("reason")))
}

pub(in crate::cli) fn cell(value: &Value) -> String {
    text(value).unwrap_or_else(|| "-".to_owned())
}

/// The time of day of an RFC 3339 time, to the millisecond.
pub(super) fn clock(time: &str) -> String {
    let of_day = time.split_once('T').map_or(time, |(_, of_day)| of_day).trim_end_matches('Z');
    let (seconds, part) = of_day.split_once('.').unwrap_or((of_day, ""));
    let millis: String = part.chars().chain("000".chars()).take(3).collect();
    format!("{seconds}.{millis}")
}

/// An RFC 3339 time in UTC without its fraction.
pub(in crate::cli) fn to_the_second(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_where_people_stop_reading() {
        assert_eq!(clock("2026-11-16T09:30:00.123456Z"), "09:30:00.123");
        assert_eq!(clock("2026-11-16T09:30:00Z"), "09:30:00.000");
        assert_eq!(clock("2026-11-16T09:30:00.5Z"), "09:30:00.500");
        assert_eq!(to_the_second("2026-11-16T09:30:00.5Z"), "2026-11-16T09:30:00Z");
        assert_eq!(to_the_second("2026-11-16T09:30:00Z"), "2026-11-16T09:30:00Z");
    }
}
