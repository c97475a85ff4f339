//! The audit trails of transactions and of submitters.

use serde::Serialize;
use tollgate_model::TxState;
use tollgate_model::port::{HistoryEntry as Entry, SubmitterEntry as StoredEntry};
use utoipa::ToSchema;

use super::time;
use crate::http::schema;

/// A page of a transaction's audit trail, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryPage {
    /// The entries.
    items: Vec<HistoryEntry>,
    /// The `after` of the next page; null after the last one.
    #[schema(required)]
    next: Option<u32>,
}

/// One change of a transaction.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEntry {
    /// Grows by one with each change.
    version: u32,
    /// When, by the database's clock.
    #[schema(value_type = schema::Time)]
    time: String,
    /// Which node did it.
    node: String,
    /// Under which fencing token.
    fencing_token: u64,
    /// What happened, one word.
    event: String,
    /// Where it was; null for the first entry.
    #[schema(required)]
    from: Option<StateWords>,
    /// Where it is since.
    to: StateWords,
    /// More, for people.
    #[schema(required)]
    detail: Option<String>,
}

/// A state with its sub-state.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StateWords {
    /// The state.
    #[schema(value_type = schema::State)]
    state: &'static str,
    /// More about it; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    sub_state: Option<&'static str>,
}

impl HistoryPage {
    pub(crate) fn new(found: &[Entry], next: Option<u32>) -> Self {
        Self { items: found.iter().map(HistoryEntry::new).collect(), next }
    }
}

impl HistoryEntry {
    fn new(entry: &Entry) -> Self {
        let words =
            |state: TxState| StateWords { state: state.name(), sub_state: state.sub_name() };
        Self {
            version: entry.version,
            time: time(entry.at),
            node: entry.node.as_str().to_owned(),
            fencing_token: entry.token.get(),
            event: entry.event.clone(),
            from: entry.from.map(words),
            to: words(entry.to),
            detail: entry.detail.as_ref().map(|detail| detail.as_str().to_owned()),
        }
    }
}

/// A page of a submitter's audit trail, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct SubmitterHistoryPage {
    /// The entries.
    items: Vec<SubmitterEntry>,
    /// The `after` of the next page; null after the last one.
    #[schema(required)]
    next: Option<u64>,
}

/// One change of a submitter.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubmitterEntry {
    /// Grows with each change of the submitter.
    number: u64,
    /// When, by the database's clock.
    #[schema(value_type = schema::Time)]
    time: String,
    /// Which node did it.
    node: String,
    /// Under which fencing token.
    fencing_token: u64,
    /// What happened, one word: `paused`, `resumed`, `protected`, `mode_changed`,
    /// `cursor_moved`.
    event: String,
    /// The reason that was given, or from where to where.
    #[schema(required)]
    detail: Option<String>,
}

impl SubmitterHistoryPage {
    pub(crate) fn new(found: &[StoredEntry], full: bool) -> Self {
        let next = found.last().filter(|_| full).map(|entry| entry.number);
        Self { items: found.iter().map(SubmitterEntry::new).collect(), next }
    }
}

impl SubmitterEntry {
    fn new(entry: &StoredEntry) -> Self {
        Self {
            number: entry.number,
            time: time(entry.at),
            node: entry.node.as_str().to_owned(),
            fencing_token: entry.token.get(),
            event: entry.event.clone(),
            detail: entry.detail.as_ref().map(|detail| detail.as_str().to_owned()),
        }
    }
}
