//! The shapes that callers rely on.

use serde_json::{Value, json};
use tollgate_model::port::{Attempt, Completion, HistoryEntry, SubmitterOverview, TxRecord};
use tollgate_model::{Intent, Timestamp, TxState};

/// RFC 3339 in UTC.
pub(crate) fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.unix_micros())
        .map_or_else(|_| "out of range".to_owned(), |time| time.to_string())
}

/// A transaction; with nonce, token and schedule in the operator's view.
pub(crate) fn tx_json(tx: &TxRecord, operator: bool) -> Value {
    let metadata = Intent::from_payload(&tx.payload).ok().and_then(|intent| intent.metadata);
    let metadata: Option<Value> = metadata.and_then(|text| serde_json::from_str(&text).ok());
    let mined_hash = tx.mined.as_ref().map(|mined| mined.tx_hash);
    let mut shape = json!({
        "txId": tx.tx_id.to_string(),
        "chainId": tx.submitter.chain_id.get(),
        "submitter": tx.submitter.address.to_checksum(None),
        "requestId": tx.request_id.as_ref().map(|id| id.as_str()),
        "state": tx.seen.state.name(),
        "subState": tx.seen.state.sub_name(),
        "txHash": mined_hash.or(tx.newest_hash).map(|hash| hash.to_string()),
        "result": tx.mined.as_ref().map(|mined| json!({
            "blockNumber": mined.block_number,
            "blockHash": mined.block_hash.to_string(),
            "gasUsed": mined.gas_used.to_string(),
            "status": if mined.succeeded { "success" } else { "reverted" },
            "revertReason": mined.revert_reason.as_ref().map(|reason| reason.as_str()),
        })),
        "createdAt": time(tx.created_at),
        "updatedAt": time(tx.updated_at),
        "metadata": metadata,
    });
    if operator {
        shape["nonce"] = json!(tx.nonce.map(|nonce| nonce.get()));
        shape["fencingToken"] = json!(tx.fencing_token.get());
        shape["lastError"] = json!(tx.last_error.as_ref().map(|error| error.as_str()));
        shape["nextResubmitAt"] = json!(tx.next_resubmit_at.map(time));
        shape["resubmits"] = json!(tx.resubmits);
    }
    shape
}

/// An attempt, for operators.
pub(crate) fn attempt_json(attempt: &Attempt) -> Value {
    json!({
        "txHash": attempt.tx_hash.to_string(),
        "number": attempt.number,
        "fees": {
            "gas": attempt.fees.gas_limit.to_string(),
            "maxFeePerGas": attempt.fees.max_fee.to_string(),
            "maxPriorityFeePerGas": attempt.fees.max_priority_fee.map(|fee| fee.to_string()),
        },
        "createdAt": time(attempt.created_at),
    })
}

/// One line of an audit trail.
pub(crate) fn history_json(entry: &HistoryEntry) -> Value {
    let state = |state: TxState| json!({ "state": state.name(), "subState": state.sub_name() });
    json!({
        "version": entry.version,
        "time": time(entry.at),
        "node": entry.node.as_str(),
        "fencingToken": entry.token.get(),
        "event": entry.event,
        "from": entry.from.map(state),
        "to": state(entry.to),
        "detail": entry.detail.as_ref().map(|detail| detail.as_str()),
    })
}

/// One entry of the feed.
pub(crate) fn completion_json(entry: &Completion) -> Value {
    json!({
        "seq": entry.seq.get(),
        "txId": entry.tx_id.to_string(),
        "requestId": entry.request_id.as_ref().map(|id| id.as_str()),
        "chainId": entry.submitter.chain_id.get(),
        "submitter": entry.submitter.address.to_checksum(None),
        "state": entry.state.name(),
        "subState": entry.state.sub_name(),
        "txHash": entry.tx_hash.map(|hash| hash.to_string()),
        "time": time(entry.at),
    })
}

/// A submitter with its owner and load.
pub(crate) fn submitter_json(found: &SubmitterOverview, now: Timestamp) -> Value {
    let mut depth = serde_json::Map::new();
    for (state, count) in &found.depth {
        let sum = depth.get(state.name()).and_then(Value::as_u64).unwrap_or(0) + count;
        depth.insert(state.name().to_owned(), json!(sum));
    }
    let record = &found.record;
    json!({
        "chainId": record.submitter.chain_id.get(),
        "address": record.submitter.address.to_checksum(None),
        "mode": match record.mode {
            tollgate_model::nonce::Mode::Pipelined => "pipelined",
            tollgate_model::nonce::Mode::Strict => "strict",
        },
        "status": record.status.name(),
        "statusReason": record.status_reason.as_ref().map(|reason| reason.as_str()),
        "owner": found.owner.as_ref().map(|owner| owner.node.as_str()),
        "fencingToken": found.owner.as_ref().map(|owner| owner.token.get()),
        "nextNonce": record.next_nonce.get(),
        "depth": depth,
        "oldestPendingSeconds": found.oldest_open.map(|oldest| now.since(oldest).as_secs()),
    })
}
