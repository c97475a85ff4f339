//! The completions feed.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use tollgate_model::port::{Completion as Entry, FeedKind};
use tollgate_model::{Intent, Seq};
use utoipa::ToSchema;

use crate::history::write_state;
use crate::result::TxResult;
use crate::schema;
use crate::time::format_time;
use crate::tx::tenant_of;

/// A part of the feed, in order.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct Feed {
    /// The entries.
    pub items: Vec<Completion>,
    /// The `after` of the next call. It also moves past entries of other chains and kinds.
    pub next: u64,
}

/// One entry: an outcome, or a transaction that became stuck or ceased to be.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// Its place in the feed.
    pub seq: u64,
    /// The reason for the entry.
    #[schema(value_type = schema::FeedKind)]
    #[serde(default = "final_kind")]
    pub kind: Cow<'static, str>,
    /// The transaction.
    #[schema(value_type = schema::TxId)]
    pub tx_id: String,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>, required)]
    pub request_id: Option<String>,
    /// The tenant whose request it is; left out if it is none's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The chain that it was for.
    pub chain_id: u64,
    /// The account that sent it.
    #[schema(value_type = schema::Address)]
    pub submitter: String,
    /// The account or contract that was called; null for the creation of a contract.
    #[schema(value_type = Option<schema::Address>, required)]
    pub to: Option<String>,
    /// The value that was paid, in wei.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub value: Option<String>,
    /// The state that was reached.
    #[schema(value_type = schema::State)]
    pub state: Cow<'static, str>,
    /// More about it; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    pub sub_state: Option<Cow<'static, str>>,
    /// The hash of what was mined, if anything was.
    #[schema(value_type = Option<schema::Hash>, required)]
    pub tx_hash: Option<String>,
    /// The result of a final transaction that was mined, else null.
    #[schema(required)]
    pub result: Option<TxResult>,
    /// When the state was reached.
    #[schema(value_type = schema::Time)]
    pub time: String,
}

/// Nodes of the version before tell final entries alone, without their kind.
fn final_kind() -> Cow<'static, str> {
    FeedKind::Final.name().into()
}

impl Feed {
    /// These entries, and the place to read on from.
    pub fn of(entries: &[Entry], next: Seq) -> Self {
        Self { items: entries.iter().map(Completion::from).collect(), next: next.get() }
    }
}

impl Completion {
    /// Its state, and its sub-state if it has one.
    pub fn state_name(&self) -> impl fmt::Display {
        fmt::from_fn(|f| write_state(f, &self.state, self.sub_state.as_deref()))
    }
}

impl From<&Entry> for Completion {
    fn from(entry: &Entry) -> Self {
        let kind = FeedKind::of_state(entry.state);
        let mined = entry.mined.as_ref().filter(|_| kind == FeedKind::Final);
        let intent = entry.payload.as_ref().and_then(|bytes| Intent::from_payload(bytes).ok());
        let (to, value) = intent.map_or((None, None), |it| (it.to, Some(it.value)));
        Self {
            seq: entry.seq.get(),
            kind: kind.name().into(),
            to: to.map(|to| to.to_checksum(None)),
            value: value.map(|value| value.to_string()),
            result: mined.map(TxResult::from),
            tx_id: entry.tx_id.to_string(),
            request_id: entry.request_id.as_ref().map(ToString::to_string),
            tenant: tenant_of(entry.request_id.as_ref()),
            chain_id: entry.submitter.chain_id.get(),
            submitter: entry.submitter.address.to_checksum(None),
            state: entry.state.name().into(),
            sub_state: entry.state.sub_name().map(Into::into),
            tx_hash: entry.tx_hash.map(|hash| hash.to_string()),
            time: format_time(entry.at),
        }
    }
}
