//! Prints transactions as tables.

use tollgate_api::{ActionAnswer, Attempt, BlockedBy, OperatorTx, Tx, TxAnswer, TxPage};

use crate::cli::remote::{Failed, print_line};
use crate::cli::table::{Fields, Table, cell};

/// One transaction, as callers see it.
pub(super) fn tx(tx: &Tx) -> Result<(), Failed> {
    fields(tx, None).print()
}

/// One transaction, as operators see it.
pub(super) fn operator_tx(tx: &OperatorTx) -> Result<(), Failed> {
    let mut fields = fields(&tx.tx, tx.nonce);
    fields.add("token", tx.fencing_token);
    fields.add("resubmits", tx.resubmits);
    fields.add_some("next resend", tx.next_resubmit_at.as_ref());
    fields.add_some("last error", tx.last_error.as_ref());
    fields.add_some("diagnosis", tx.diagnosis.as_ref());
    fields.print()?;
    if tx.attempts.is_empty() {
        return Ok(());
    }
    print_line("")?;
    attempts(&tx.attempts)
}

fn fields(tx: &Tx, nonce: Option<u64>) -> Fields {
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
        fields.add("result", &result.status);
        fields.add_some("contract", result.contract_address.as_ref());
        fields.add("gas used", &result.gas_used);
        fields.add_some("gas price", result.effective_gas_price.as_ref());
        fields.add_some("fee", result.fee.as_ref());
        fields.add_some("revert", result.revert_reason.as_ref());
    }
    fields.add("created", &tx.created_at);
    fields.add("updated", &tx.updated_at);
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
    let head = ["ATTEMPT", "KIND", "OUTCOME", "MAX FEE", "TIP", "SENT", "HASH"];
    let mut table = Table::new(head);
    for attempt in attempts {
        table.row([
            attempt.number.to_string(),
            attempt.kind.to_string(),
            attempt.outcome.to_string(),
            attempt.fees.max_fee_per_gas.clone(),
            cell(attempt.fees.max_priority_fee_per_gas.as_ref()),
            attempt.sent_at.as_deref().map(clock).unwrap_or_default(),
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
        TxAnswer::Operator(shown) => operator_tx(shown),
        TxAnswer::Caller(shown) => tx(shown),
    }
}

/// A page of transactions.
pub(super) fn list(page: &TxPage) -> Result<(), Failed> {
    let mut table = Table::new(["TX", "STATE", "SUBMITTER", "CREATED", "REQUEST"]);
    for tx in &page.items {
        table.row([
            tx.tx_id.clone(),
            listed_state(tx),
            tx.submitter.clone(),
            to_the_second(&tx.created_at),
            cell(tx.request_id.as_ref()),
        ]);
    }
    table.print_page(page.next.as_deref())
}

/// The state, and until when a queued transaction is not sent.
fn listed_state(tx: &Tx) -> String {
    let queued = tx.not_before.as_deref().filter(|_| tx.state == "QUEUED");
    let start = queued.map(|start| format!(", not before {}", to_the_second(start)));
    format!("{}{}", tx.state_name(), start.unwrap_or_default())
}

/// The transaction that everything else of the account waits for, and why.
pub(in crate::cli) fn blocked_by(blocked: &BlockedBy) -> String {
    let nonce = blocked.nonce.map(|nonce| format!(", nonce {nonce}")).unwrap_or_default();
    format!("{} ({}{nonce})", blocked.tx_id, blocked.reason)
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
    fn time_is_shown_to_the_millisecond_or_to_the_second() {
        assert_eq!(clock("2026-11-16T09:30:00.123456Z"), "09:30:00.123");
        assert_eq!(clock("2026-11-16T09:30:00Z"), "09:30:00.000");
        assert_eq!(clock("2026-11-16T09:30:00.5Z"), "09:30:00.500");
        assert_eq!(to_the_second("2026-11-16T09:30:00.5Z"), "2026-11-16T09:30:00Z");
        assert_eq!(to_the_second("2026-11-16T09:30:00Z"), "2026-11-16T09:30:00Z");
    }
}
