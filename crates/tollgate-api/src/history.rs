//! The audit trails of transactions and of submitters.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use tollgate_model::TxState;
use tollgate_model::port::{HistoryEntry as Entry, SubmitterEntry as StoredEntry};
use utoipa::ToSchema;

use crate::schema;
use crate::time::format_time;

/// One change of a transaction.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Grows by one with each change.
    pub version: u32,
    /// When, by the database's clock.
    #[schema(value_type = schema::Time)]
    pub time: String,
    /// The node that made the change.
    pub node: String,
    /// Under which fencing token.
    pub fencing_token: u64,
    /// The event, in one word.
    pub event: String,
    /// The state before; null for the first entry.
    #[schema(required)]
    pub from: Option<StateName>,
    /// The state after.
    pub to: StateName,
    /// More, for people.
    #[schema(required)]
    pub detail: Option<String>,
}

/// A state with its sub-state.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[schema(as = StateWords)]
#[serde(rename_all = "camelCase")]
pub struct StateName {
    /// The state.
    #[schema(value_type = schema::State)]
    pub state: Cow<'static, str>,
    /// More about it; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    pub sub_state: Option<Cow<'static, str>>,
}

impl From<TxState> for StateName {
    fn from(state: TxState) -> Self {
        Self { state: state.name().into(), sub_state: state.sub_name().map(Into::into) }
    }
}

/// `STATE`, or `STATE/SUB_STATE`.
impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_state(f, &self.state, self.sub_state.as_deref())
    }
}

pub(crate) fn write_state(
    f: &mut fmt::Formatter<'_>,
    state: &str,
    sub_state: Option<&str>,
) -> fmt::Result {
    match sub_state {
        Some(sub_state) => write!(f, "{state}/{sub_state}"),
        None => f.write_str(state),
    }
}

impl From<&Entry> for HistoryEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            version: entry.version,
            time: format_time(entry.at),
            node: entry.node.as_str().to_owned(),
            fencing_token: entry.token.get(),
            event: entry.event.clone(),
            from: entry.from.map(StateName::from),
            to: entry.to.into(),
            detail: entry.detail.as_ref().map(|detail| detail.as_str().to_owned()),
        }
    }
}

/// One change of a submitter.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct SubmitterEntry {
    /// Grows with each change of the submitter.
    pub number: u64,
    /// When, by the database's clock.
    #[schema(value_type = schema::Time)]
    pub time: String,
    /// The node that made the change.
    pub node: String,
    /// Under which fencing token.
    pub fencing_token: u64,
    /// The event, in one word: `paused`, `resumed`, `protected`, `mode_changed`,
    /// `cursor_moved`.
    pub event: String,
    /// The reason that was given, or from where to where; null if the caller must not see it.
    #[schema(required)]
    pub detail: Option<String>,
}

impl From<&StoredEntry> for SubmitterEntry {
    fn from(entry: &StoredEntry) -> Self {
        Self {
            number: entry.number,
            time: format_time(entry.at),
            node: entry.node.as_str().to_owned(),
            fencing_token: entry.token.get(),
            event: entry.event.clone(),
            detail: entry.detail.as_ref().map(|detail| detail.as_str().to_owned()),
        }
    }
}
