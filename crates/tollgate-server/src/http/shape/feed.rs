//! The completions feed.

use serde::Serialize;
use tollgate_model::Seq;
use tollgate_model::port::{Completion as Entry, FeedPage, Page};
use utoipa::ToSchema;

use super::{address, time};
use crate::http::schema;

/// A part of the feed, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct Feed {
    /// The outcomes.
    items: Vec<Completion>,
    /// The `after` of the next call. It also moves past outcomes of other chains in the database.
    next: u64,
}

/// One outcome.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Completion {
    /// Its place in the feed.
    seq: u64,
    /// The transaction.
    #[schema(value_type = schema::TxId)]
    tx_id: String,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>, required)]
    request_id: Option<String>,
    /// The chain that it was for.
    chain_id: u64,
    /// The account that sent it.
    #[schema(value_type = schema::Address)]
    submitter: String,
    /// How it ended.
    #[schema(value_type = schema::State)]
    state: &'static str,
    /// More about it; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    sub_state: Option<&'static str>,
    /// The hash of what was mined, if anything was.
    #[schema(value_type = Option<schema::Hash>, required)]
    tx_hash: Option<String>,
    /// When it ended.
    #[schema(value_type = schema::Time)]
    time: String,
}

impl Feed {
    pub(crate) fn new(found: &FeedPage, after: Seq, asked: Page) -> Self {
        let next = found.next(after, asked).get();
        Self { items: found.items.iter().map(Completion::new).collect(), next }
    }
}

impl Completion {
    fn new(entry: &Entry) -> Self {
        Self {
            seq: entry.seq.get(),
            tx_id: entry.tx_id.to_string(),
            request_id: entry.request_id.as_ref().map(ToString::to_string),
            chain_id: entry.submitter.chain_id.get(),
            submitter: address(entry.submitter.address),
            state: entry.state.name(),
            sub_state: entry.state.sub_name(),
            tx_hash: entry.tx_hash.map(|hash| hash.to_string()),
            time: time(entry.at),
        }
    }
}
