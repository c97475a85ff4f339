//! The audit log, as administrators read it.

use serde::{Deserialize, Serialize};
use tollgate_model::audit::StoredAuditEntry;
use utoipa::ToSchema;

use crate::schema;
use crate::time::format_time;

/// A change that somebody asked for.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Grows with the entries.
    pub number: u64,
    /// When, by the database's clock.
    #[schema(value_type = schema::Time)]
    pub time: String,
    /// The id of the caller's API key; null where no key was asked for, and for commands on the database.
    #[schema(required)]
    pub key_id: Option<String>,
    /// The name of the key; `cli` for commands on the database.
    pub author: String,
    /// The address of the caller's connection: of the proxy, if there is one. Null for commands on the database.
    #[schema(required)]
    pub address: Option<String>,
    /// The change: the `operationId` of the call in this document, `logIn`, `logOut`, `replayEvents` or
    /// `replayDeadLetters`.
    pub action: String,
    /// The object of the change: a transaction's id, `CHAIN:ADDRESS` of an account, the name of a pool, the id of a
    /// key.
    pub subject: String,
    /// The reason, if one was given.
    #[schema(required)]
    pub reason: Option<String>,
}

impl From<&StoredAuditEntry> for AuditEntry {
    fn from(entry: &StoredAuditEntry) -> Self {
        Self {
            number: entry.number,
            time: format_time(entry.at),
            key_id: entry.author.key_id.as_ref().map(ToString::to_string),
            author: entry.author.name.to_string(),
            address: entry.author.address.map(|address| address.to_string()),
            action: entry.action.clone(),
            subject: entry.subject.to_string(),
            reason: entry.reason.as_ref().map(ToString::to_string),
        }
    }
}
