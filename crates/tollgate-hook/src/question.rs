//! What a hook is asked, as JSON in the shapes of the API.

use serde::Serialize;
use serde_json::value::RawValue;
use tollgate_api::format_time as time;
use tollgate_model::Intent;
use tollgate_model::port::policy::StuckContext;
use tollgate_model::port::{Attempt as StoredAttempt, TxRecord};

/// The id of a question: every try at it has the same, and no other question has it, because an
/// owner counts its questions under its token.
pub(crate) fn id(context: &StuckContext) -> String {
    let StuckContext { question, tx, .. } = context;
    format!("{}:{}:{question}", tx.tx_id, tx.fencing_token)
}

/// A question.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question<'a> {
    id: &'a str,
    trigger: &'static str,
    chain_id: u64,
    submitter: String,
    tx: Tx,
    attempts: Vec<Attempt>,
    last_error: Option<&'a str>,
    last_answer: Option<&'static str>,
    diagnosis: Option<&'static str>,
    age_seconds: u64,
    depth: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tx {
    tx_id: String,
    request_id: Option<String>,
    nonce: Option<u64>,
    state: &'static str,
    sub_state: Option<&'static str>,
    created_at: String,
    valid_until: Option<String>,
    metadata: Option<Box<RawValue>>,
    /// Whether an answer may bring another payload.
    replaceable: bool,
    /// `None` for a record of another version of Tollgate, which this one can't read.
    payload: Option<Payload>,
}

#[derive(Serialize)]
struct Payload {
    to: Option<String>,
    value: String,
    data: String,
    gas: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    tx_hash: String,
    kind: &'static str,
    fees: Fees,
    created_at: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fees {
    gas: String,
    max_fee_per_gas: String,
    max_priority_fee_per_gas: Option<String>,
}

impl<'a> Question<'a> {
    pub(crate) fn new(id: &'a str, context: &'a StuckContext) -> Self {
        let tx = &context.tx;
        Self {
            id,
            trigger: context.trigger.name(),
            chain_id: tx.submitter.chain_id.get(),
            submitter: tx.submitter.address.to_checksum(None),
            tx: Tx::new(tx),
            attempts: context.attempts.iter().map(Attempt::new).collect(),
            last_error: tx.last_error.as_ref().map(|error| error.as_str()),
            last_answer: context.last_answer.map(|answer| answer.name()),
            diagnosis: context.diagnosis.map(|diagnosis| diagnosis.name()),
            age_seconds: context.age.as_secs(),
            depth: context.depth,
        }
    }
}

impl Tx {
    fn new(tx: &TxRecord) -> Self {
        let intent = Intent::from_payload(&tx.payload).ok();
        let metadata = intent.as_ref().and_then(|intent| intent.metadata.clone());
        Self {
            tx_id: tx.tx_id.to_string(),
            request_id: tx.request_id.as_ref().map(ToString::to_string),
            nonce: tx.nonce.map(|nonce| nonce.get()),
            state: tx.seen.state.name(),
            sub_state: tx.seen.state.sub_name(),
            created_at: time(tx.created_at),
            valid_until: tx.valid_until.map(time),
            metadata: metadata.and_then(|text| RawValue::from_string(text).ok()),
            replaceable: intent.as_ref().is_some_and(|intent| intent.replaceable),
            payload: intent.as_ref().map(Payload::new),
        }
    }
}

impl Payload {
    fn new(intent: &Intent) -> Self {
        Self {
            to: intent.to.map(|to| to.to_checksum(None)),
            value: intent.value.to_string(),
            data: intent.data.to_string(),
            gas: intent.gas.map(|gas| gas.to_string()),
        }
    }
}

impl Attempt {
    fn new(attempt: &StoredAttempt) -> Self {
        let fees = &attempt.fees;
        Self {
            tx_hash: attempt.tx_hash.to_string(),
            kind: attempt.kind.name(),
            fees: Fees {
                gas: fees.gas_limit.to_string(),
                max_fee_per_gas: fees.max_fee.to_string(),
                max_priority_fee_per_gas: fees.max_priority_fee.map(|fee| fee.to_string()),
            },
            created_at: time(attempt.created_at),
        }
    }
}
