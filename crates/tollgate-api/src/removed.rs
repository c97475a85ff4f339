//! Finished transactions that were removed from the database.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate_model::port::RemovedTx as StoredRemovedTx;
use utoipa::ToSchema;

use crate::schema;
use crate::time::format_time;
use crate::tx::{Tx, public, tenant_of};

/// The fields that are kept of a transaction that was removed.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RemovedTx {
    /// Its id.
    #[schema(value_type = schema::TxId)]
    pub tx_id: String,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>, required)]
    pub request_id: Option<String>,
    /// The tenant whose request it is; left out if it is none's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The final state.
    #[schema(value_type = schema::State)]
    pub state: Cow<'static, str>,
    /// More about the state; null for CONFIRMED.
    #[schema(value_type = Option<schema::SubState>, required)]
    pub sub_state: Option<Cow<'static, str>>,
    /// The hash of the mined attempt; null if none was mined.
    #[schema(value_type = Option<schema::Hash>, required)]
    pub tx_hash: Option<String>,
    /// When it became final.
    #[schema(value_type = schema::Time)]
    pub finished_at: String,
    /// When it was removed.
    #[schema(value_type = schema::Time)]
    pub removed_at: String,
}

impl From<&StoredRemovedTx> for RemovedTx {
    fn from(removed: &StoredRemovedTx) -> Self {
        Self {
            tx_id: removed.tx_id.to_string(),
            request_id: removed.request_id.as_ref().map(ToString::to_string),
            tenant: tenant_of(removed.request_id.as_ref()),
            state: removed.state.name().into(),
            sub_state: removed.state.sub_name().map(Into::into),
            tx_hash: removed.tx_hash.map(|hash| hash.to_string()),
            finished_at: format_time(removed.finished_at),
            removed_at: format_time(removed.removed_at),
        }
    }
}

impl Tx {
    /// The answer to a repeated request whose transaction was removed: what is kept of it, and null for the
    /// rest. The time of acceptance is that in the id.
    pub fn archived(removed: &StoredRemovedTx) -> Self {
        let RemovedTx { tx_id, request_id, tenant, state, sub_state, tx_hash, finished_at, .. } =
            RemovedTx::from(removed);
        Self {
            tx_id,
            chain_id: removed.submitter.chain_id.get(),
            submitter: removed.submitter.address.to_checksum(None),
            request_id,
            tenant,
            to: None,
            value: None,
            nonce: None,
            state,
            sub_state,
            tx_hash,
            result: None,
            confirmations: None,
            logs: None,
            blocked_by: None,
            created_at: format_time(removed.tx_id.time()),
            updated_at: finished_at,
            valid_until: None,
            not_before: None,
            authorization_list: Vec::new(),
            replaceable: false,
            route: public(),
            fallback_after: None,
            metadata: None,
            archived: true,
        }
    }
}
