//! The question to a stuck hook (`docs/stuck-hook.md`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_model::Intent;
use tollgate_model::port::policy::StuckContext;
use tollgate_model::port::{Attempt as StoredAttempt, TxRecord};

use crate::attempt::Fees;
use crate::time::format_time;
use crate::tx::tenant_of;

/// A question about a transaction that needs a decision.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HookQuestion {
    /// The same for every try at it, and of no other question.
    pub id: String,
    /// The reason of the question.
    pub trigger: Cow<'static, str>,
    /// The chain.
    pub chain_id: u64,
    /// The account that sends.
    pub submitter: String,
    /// The transaction.
    pub tx: HookTx,
    /// Its attempts, first to last.
    pub attempts: Vec<HookAttempt>,
    /// The last error that the world gave for it.
    pub last_error: Option<String>,
    /// The class of the last answer to a send.
    pub last_answer: Option<Cow<'static, str>>,
    /// The result of a look into the nodes' pools.
    pub diagnosis: Option<Cow<'static, str>>,
    /// For how long it has been open.
    pub age_seconds: u64,
    /// The number of open transactions of the account.
    pub depth: u64,
}

/// The transaction that a question is about.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HookTx {
    /// Its id.
    pub tx_id: String,
    /// The caller's own name for it.
    pub request_id: Option<String>,
    /// The tenant whose request it is; left out if it is none's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its slot.
    pub nonce: Option<u64>,
    /// Its state.
    pub state: Cow<'static, str>,
    /// More about the state.
    pub sub_state: Option<Cow<'static, str>>,
    /// When it was accepted.
    pub created_at: String,
    /// Until when it is wanted.
    pub valid_until: Option<String>,
    /// The caller's own notes.
    pub metadata: Option<Box<RawValue>>,
    /// `true`: an answer may bring another payload.
    pub replaceable: bool,
    /// Null for a record of another version of Tollgate, which this one can't read.
    pub payload: Option<HookPayload>,
}

/// The call of a transaction.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct HookPayload {
    /// The called account; null for a deployment.
    pub to: Option<String>,
    /// The value, in wei.
    pub value: String,
    /// The call's data as 0x-hex.
    pub data: String,
    /// The most gas it may use, if the caller said so.
    pub gas: Option<String>,
}

/// One signed form of a transaction.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HookAttempt {
    /// Its hash.
    pub tx_hash: String,
    /// The purpose of the attempt.
    pub kind: Cow<'static, str>,
    /// The gas limit and the fees.
    pub fees: Fees,
    /// When it was signed and kept.
    pub created_at: String,
}

impl HookQuestion {
    /// The question about a transaction that is stuck.
    pub fn new(id: String, context: &StuckContext) -> Self {
        let tx = &context.tx;
        Self {
            id,
            trigger: context.trigger.name().into(),
            chain_id: tx.submitter.chain_id.get(),
            submitter: tx.submitter.address.to_checksum(None),
            tx: tx.into(),
            attempts: context.attempts.iter().map(HookAttempt::from).collect(),
            last_error: tx.last_error.as_ref().map(|error| error.as_str().to_owned()),
            last_answer: context.last_answer.map(|answer| answer.name().into()),
            diagnosis: context.diagnosis.map(|diagnosis| diagnosis.name().into()),
            age_seconds: context.age.as_secs(),
            depth: context.depth,
        }
    }
}

impl From<&TxRecord> for HookTx {
    fn from(tx: &TxRecord) -> Self {
        let intent = Intent::from_payload(&tx.payload).ok();
        let metadata = intent.as_ref().and_then(|intent| intent.metadata.clone());
        Self {
            tx_id: tx.tx_id.to_string(),
            request_id: tx.request_id.as_ref().map(ToString::to_string),
            tenant: tenant_of(tx.request_id.as_ref()),
            nonce: tx.nonce.map(|nonce| nonce.get()),
            state: tx.row.state.name().into(),
            sub_state: tx.row.state.sub_name().map(Into::into),
            created_at: format_time(tx.created_at),
            valid_until: tx.valid_until.map(format_time),
            metadata: metadata.and_then(|text| RawValue::from_string(text).ok()),
            replaceable: intent.as_ref().is_some_and(|intent| intent.replaceable),
            payload: intent.as_ref().map(HookPayload::from),
        }
    }
}

impl From<&Intent> for HookPayload {
    fn from(intent: &Intent) -> Self {
        Self {
            to: intent.to.map(|to| to.to_checksum(None)),
            value: intent.value.to_string(),
            data: intent.data.to_string(),
            gas: intent.gas.map(|gas| gas.to_string()),
        }
    }
}

impl From<&StoredAttempt> for HookAttempt {
    fn from(attempt: &StoredAttempt) -> Self {
        Self {
            tx_hash: attempt.tx_hash.to_string(),
            kind: attempt.kind.name().into(),
            fees: (&attempt.fees).into(),
            created_at: format_time(attempt.created_at),
        }
    }
}
