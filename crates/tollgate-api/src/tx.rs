//! Transactions, as callers and as operators see them.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tollgate_model::authorization::Authorization;
use tollgate_model::port::{Attempt as StoredAttempt, HistoryEntry, LineHead, TxRecord};
use tollgate_model::{Intent, RequestId, Route};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::attempt::Attempt;
use crate::duration::format_duration;
use crate::history::write_state;
use crate::result::{ConfirmationList, TxLogs, TxResult};
use crate::schema;
use crate::time::format_time;

/// A transaction.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Tx {
    /// Its id, a UUID v7: ids sort by the time of acceptance.
    #[schema(value_type = schema::TxId)]
    pub tx_id: String,
    /// The chain that it is for.
    pub chain_id: u64,
    /// The account that sends it, with its checksum.
    #[schema(value_type = schema::Address)]
    pub submitter: String,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>, required)]
    pub request_id: Option<String>,
    /// The tenant whose request it is; left out if it is none's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The account or contract that is called; null for the creation of a contract.
    #[schema(value_type = Option<schema::Address>, required)]
    pub to: Option<String>,
    /// The value that is paid, in wei.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub value: Option<String>,
    /// Its slot; only in lists for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// The state. CONFIRMED and FAILED_FINAL are final.
    #[schema(value_type = schema::State)]
    pub state: Cow<'static, str>,
    /// More about the state; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    pub sub_state: Option<Cow<'static, str>>,
    /// The hash of the mined attempt, else of the newest one; null while there is none.
    #[schema(value_type = Option<schema::Hash>, required)]
    pub tx_hash: Option<String>,
    /// The result of its execution; null while it is in no block.
    #[schema(required)]
    pub result: Option<TxResult>,
    /// The blocks on top of it; only where `confirmations.expose` is set, and in reads of one transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<ConfirmationList>,
    /// Its log entries; only with `logs=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<TxLogs>,
    /// The transaction that it waits for, if the account's line stands still. Null in the answer to a new create, and
    /// in lists of more than one account.
    #[schema(required)]
    pub blocked_by: Option<BlockedBy>,
    /// When it was accepted.
    #[schema(value_type = schema::Time)]
    pub created_at: String,
    /// When it last changed.
    #[schema(value_type = schema::Time)]
    pub updated_at: String,
    /// Until when it is wanted; null if for ever.
    #[schema(value_type = Option<schema::Time>, required)]
    pub valid_until: Option<String>,
    /// Before when it is not sent; null if it is sent as soon as possible.
    #[schema(value_type = Option<schema::Time>, required)]
    pub not_before: Option<String>,
    /// Its authorizations (EIP-7702); left out if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_list: Vec<TxAuthorization>,
    /// `true`: another call may replace it.
    pub replaceable: bool,
    /// The route that its caller chose.
    #[serde(default = "public")]
    #[schema(value_type = schema::Route)]
    pub route: Cow<'static, str>,
    /// The time after which a private transaction is sent to public endpoints as well; null if never.
    #[serde(default)]
    #[schema(value_type = Option<schema::Duration>, required)]
    pub fallback_after: Option<String>,
    /// The caller's own notes, byte for byte as they were given.
    #[schema(value_type = schema::Anything, required)]
    pub metadata: Option<Box<RawValue>>,
    /// `true`: the transaction was removed from the database, and only its id, request id, state, hash and
    /// times are known. Only in the answer to a repeated create; left out otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

/// The route in answers of nodes that know none.
pub(crate) const fn public() -> Cow<'static, str> {
    Cow::Borrowed(Route::Public.name())
}

/// An authorization of a transaction (EIP-7702).
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct TxAuthorization {
    /// The chain; 0 is any.
    pub chain_id: u64,
    /// The contract; zero ends a delegation.
    #[schema(value_type = schema::Address)]
    pub address: String,
    /// The nonce of the authority that it uses.
    pub nonce: u64,
    /// The account that gives the permission.
    #[schema(value_type = schema::Address)]
    pub authority: String,
}

impl From<&Authorization> for TxAuthorization {
    fn from(item: &Authorization) -> Self {
        Self {
            chain_id: item.chain_id,
            address: item.address.to_checksum(None),
            nonce: item.nonce,
            authority: item.authority.to_checksum(None),
        }
    }
}

/// A transaction that all those behind it wait for.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// The transaction.
    #[schema(value_type = schema::TxId)]
    pub tx_id: String,
    /// Its slot; only for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// The reason why it does not move: its sub-state in lower case.
    #[schema(value_type = schema::BlockReason)]
    pub reason: Cow<'static, str>,
}

impl BlockedBy {
    /// The head of a line, if it stands still.
    pub fn head(head: &LineHead) -> Option<Self> {
        let (tx_id, nonce) = (head.tx_id.to_string(), Some(head.nonce.get()));
        head.state.blocks_with().map(|reason| Self { tx_id, nonce, reason: reason.into() })
    }

    /// The transaction that another one waits for: the head of its line, if that stands still and is not itself.
    pub fn of(tx: &TxRecord, head: &LineHead) -> Option<Self> {
        let behind = tx.nonce.is_none_or(|nonce| nonce > head.nonce);
        Self::head(head).filter(|_| behind && tx.tx_id != head.tx_id)
    }

    /// As callers see it: without the nonce.
    #[must_use]
    pub fn for_callers(self) -> Self {
        Self { nonce: None, ..self }
    }
}

/// A transaction with what only operators need.
#[derive(Serialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct OperatorTx {
    /// The fields of the caller's view.
    #[serde(flatten)]
    pub tx: Tx,
    /// Its slot; null while it has none.
    #[schema(required)]
    pub nonce: Option<u64>,
    /// The token under which it was last written.
    pub fencing_token: u64,
    /// Its signed forms, first to last.
    pub attempts: Vec<Attempt>,
    /// The last error that the world gave for it.
    #[schema(required)]
    pub last_error: Option<String>,
    /// When it is to be sent again.
    #[schema(value_type = Option<schema::Time>, required)]
    pub next_resubmit_at: Option<String>,
    /// The number of resends.
    pub resubmits: u32,
    /// The result of a look into the nodes' pools; null where that is not done.
    #[schema(required)]
    pub diagnosis: Option<String>,
}

/// Reads the same object twice: a flattened field would not keep metadata byte for byte.
impl<'de> Deserialize<'de> for OperatorTx {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct OperatorFields {
            nonce: Option<u64>,
            fencing_token: u64,
            attempts: Vec<Attempt>,
            last_error: Option<String>,
            next_resubmit_at: Option<String>,
            resubmits: u32,
            diagnosis: Option<String>,
        }
        let whole = Box::<RawValue>::deserialize(deserializer)?;
        let tx = serde_json::from_str(whole.get()).map_err(Error::custom)?;
        let fields: OperatorFields = serde_json::from_str(whole.get()).map_err(Error::custom)?;
        Ok(Self {
            tx,
            nonce: fields.nonce,
            fencing_token: fields.fencing_token,
            attempts: fields.attempts,
            last_error: fields.last_error,
            next_resubmit_at: fields.next_resubmit_at,
            resubmits: fields.resubmits,
            diagnosis: fields.diagnosis,
        })
    }
}

/// A transaction in the view that was asked for.
#[derive(Serialize, Clone, Debug)]
#[serde(untagged)]
pub enum TxAnswer {
    /// For callers.
    Caller(Box<Tx>),
    /// For operators.
    Operator(Box<OperatorTx>),
}

/// Fields with a token are for operators.
impl<'de> Deserialize<'de> for TxAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Box::<RawValue>::deserialize(deserializer)?;
        if let Ok(tx) = serde_json::from_str(whole.get()) {
            return Ok(Self::Operator(tx));
        }
        serde_json::from_str(whole.get()).map(Self::Caller).map_err(Error::custom)
    }
}

/// Any of the two: what operators see is also what callers see, so that exactly one would be wrong.
impl PartialSchema for TxAnswer {
    fn schema() -> RefOr<Schema> {
        let view = |name: &str| Ref::from_schema_name(name);
        AnyOfBuilder::new().item(view(&Tx::name())).item(view(&OperatorTx::name())).into()
    }
}

impl ToSchema for TxAnswer {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Tx::name().into_owned(), Tx::schema()));
        schemas.push((OperatorTx::name().into_owned(), OperatorTx::schema()));
        OperatorTx::schemas(schemas);
    }
}

impl Tx {
    /// Its state, and its sub-state if it has one.
    pub fn state_name(&self) -> impl fmt::Display {
        fmt::from_fn(|f| write_state(f, &self.state, self.sub_state.as_deref()))
    }

    /// With the number of blocks on top of it so far, at this head of its chain.
    #[must_use]
    pub fn at_head(mut self, head: Option<u64>) -> Self {
        if let Some(result) = &mut self.result {
            let above = head.and_then(|head| head.checked_sub(result.block_number));
            result.confirmations = above.map(|above| above + 1);
        }
        self
    }
}

impl From<&TxRecord> for Tx {
    fn from(record: &TxRecord) -> Self {
        let intent = Intent::from_payload(&record.payload).ok();
        let replaceable = intent.as_ref().is_some_and(|intent| intent.replaceable);
        let to = intent.as_ref().and_then(|intent| intent.to);
        let value = intent.as_ref().map(|intent| intent.value);
        let private = match &intent {
            Some(intent) => intent.private,
            None => Intent::route_of_unreadable(&record.payload),
        };
        let route = if private.is_some() { Route::Private } else { Route::Public };
        let fallback_after = private.and_then(|private| private.fallback_after());
        let authorizations = intent.iter().flat_map(|intent| &intent.authorization_list);
        let authorization_list = authorizations.map(TxAuthorization::from).collect();
        let not_before = intent.as_ref().and_then(Intent::starts_at);
        let metadata = intent.and_then(|intent| intent.metadata);
        let mined = record.mined.as_ref();
        let hash = mined.map(|mined| mined.tx_hash).or(record.newest_hash);
        Self {
            tx_id: record.tx_id.to_string(),
            chain_id: record.submitter.chain_id.get(),
            submitter: record.submitter.address.to_checksum(None),
            request_id: record.request_id.as_ref().map(ToString::to_string),
            tenant: tenant_of(record.request_id.as_ref()),
            to: to.map(|to| to.to_checksum(None)),
            value: value.map(|value| value.to_string()),
            nonce: None,
            state: record.row.state.name().into(),
            sub_state: record.row.state.sub_name().map(Into::into),
            tx_hash: hash.map(|hash| hash.to_string()),
            result: mined.map(TxResult::from),
            confirmations: None,
            logs: None,
            blocked_by: None,
            created_at: format_time(record.created_at),
            updated_at: format_time(record.updated_at),
            valid_until: record.valid_until.map(format_time),
            not_before: not_before.map(format_time),
            authorization_list,
            replaceable,
            route: route.name().into(),
            fallback_after: fallback_after.map(format_duration),
            metadata: metadata.and_then(|text| RawValue::from_string(text).ok()),
            archived: false,
        }
    }
}

impl OperatorTx {
    /// A transaction with its attempts and what the audit trail tells of them.
    pub fn new(
        tx: Tx,
        record: &TxRecord,
        attempts: &[StoredAttempt],
        history: &[HistoryEntry],
    ) -> Self {
        Self {
            tx,
            nonce: record.nonce.map(|nonce| nonce.get()),
            fencing_token: record.fencing_token.get(),
            attempts: Attempt::of(record, attempts, history),
            last_error: record.last_error.as_ref().map(|error| error.as_str().to_owned()),
            next_resubmit_at: record.next_resubmit_at.map(format_time),
            resubmits: record.resubmits,
            diagnosis: record.diagnosis.as_ref().map(|found| found.as_str().to_owned()),
        }
    }
}

/// The tenant of a request.
pub(crate) fn tenant_of(request_id: Option<&RequestId>) -> Option<String> {
    request_id.and_then(RequestId::tenant).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_an_operators_view_are_read_byte_for_byte() {
        let metadata = r#"{ "amount": 18446744073709551617 }"#;
        let text = format!(
            r#"{{"txId":"a","chainId":1,"submitter":"0x","state":"QUEUED","subState":"HELD",
                "createdAt":"","updatedAt":"","replaceable":false,"metadata":{metadata},
                "fencingToken":3,"attempts":[],"resubmits":0}}"#
        );
        let read: OperatorTx = serde_json::from_str(&text).unwrap();
        assert_eq!(read.tx.metadata.as_ref().map(|metadata| metadata.get()), Some(metadata));
        assert_eq!(read.tx.state_name().to_string(), "QUEUED/HELD");
        assert_eq!(read.fencing_token, 3);
    }
}
