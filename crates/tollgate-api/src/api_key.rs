//! API keys, as administrators make and see them.

use serde::{Deserialize, Serialize};
use tollgate_model::access::ApiKey as StoredApiKey;
use utoipa::ToSchema;

use crate::schema;
use crate::time::format_time;

/// The wish for a key.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewApiKey {
    /// The user and the purpose of the key: up to 100 bytes without control characters.
    #[schema(required)]
    pub name: Option<String>,
    /// The rights of the key: any of `read`, `submit`, `operate` and `admin`.
    #[schema(value_type = Vec<schema::Role>, required)]
    pub roles: Option<Vec<String>>,
    /// The tenant whose requests it makes and sees: up to 40 letters, digits, `-`, `_` and `.`. Without it, the key
    /// sees the transactions of all tenants.
    #[schema(value_type = Option<String>)]
    pub tenant: Option<String>,
    /// The chains that it is for, at most 100. Without them, every chain.
    #[schema(value_type = Option<Vec<u64>>)]
    pub chains: Vec<u64>,
    /// The accounts that it is for, at most 100. Without them and `pools`, every account.
    #[schema(value_type = Option<Vec<schema::Address>>)]
    pub submitters: Vec<String>,
    /// The pools that it is for, at most 100.
    #[schema(value_type = Option<Vec<String>>)]
    pub pools: Vec<String>,
    /// Requests per second at each node, and how many at once: `20` or `20/100`. Without it, no limit.
    #[schema(value_type = Option<String>)]
    pub rate: Option<String>,
    /// When it ends. Without it, the key is valid until it is revoked.
    #[schema(value_type = Option<schema::Time>)]
    pub expires_at: Option<String>,
    /// For the audit log: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The wish for a new key in the place of another one.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateApiKey {
    /// The time for which the old key stays valid, like `30m` or `24h`: at most 720h, and 24h if it is left out.
    #[schema(value_type = Option<String>)]
    pub grace: Option<String>,
    /// For the audit log: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A key, without its secret.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its public id: the twelve characters after `tg_live_`.
    pub key_id: String,
    /// The user and the purpose of the key.
    pub name: String,
    /// The rights of the key.
    #[schema(value_type = Vec<schema::Role>)]
    pub roles: Vec<String>,
    /// The tenant whose requests it makes and sees; null for all.
    #[schema(required)]
    pub tenant: Option<String>,
    /// The chains that it is for; null for all.
    #[schema(required)]
    pub chains: Option<Vec<u64>>,
    /// The accounts that it is for; null if neither accounts nor pools are listed, for all.
    #[schema(value_type = Option<Vec<schema::Address>>, required)]
    pub submitters: Option<Vec<String>>,
    /// The pools that it is for; null as `submitters`.
    #[schema(required)]
    pub pools: Option<Vec<String>>,
    /// Requests per second at each node, and how many at once; null for no limit.
    #[schema(required)]
    pub rate: Option<String>,
    /// When it was made.
    #[schema(value_type = schema::Time)]
    pub created_at: String,
    /// The author of the key: `cli`, or the id of a key.
    pub created_by: String,
    /// When it ends; null for never.
    #[schema(value_type = Option<schema::Time>, required)]
    pub expires_at: Option<String>,
    /// When it was revoked; null if it was not.
    #[schema(value_type = Option<schema::Time>, required)]
    pub revoked_at: Option<String>,
    /// When it was last used, to within a minute or two; null if it never was.
    #[schema(value_type = Option<schema::Time>, required)]
    pub last_used_at: Option<String>,
}

impl From<&StoredApiKey> for ApiKey {
    fn from(key: &StoredApiKey) -> Self {
        let scope = &key.rights.scope;
        let chains = scope.chains();
        let senders = scope.senders();
        let address = |it: &tollgate_model::Address| it.to_checksum(None);
        Self {
            key_id: key.id.to_string(),
            name: key.name.to_string(),
            roles: key.rights.roles.to_string().split(',').map(str::to_owned).collect(),
            tenant: key.rights.tenant.as_ref().map(ToString::to_string),
            chains: chains.map(|chains| chains.iter().map(|chain| chain.get()).collect()),
            submitters: senders.map(|senders| senders.submitters.iter().map(address).collect()),
            pools: senders.map(|senders| senders.pools.iter().map(ToString::to_string).collect()),
            rate: key.rate.map(|rate| rate.to_string()),
            created_at: format_time(key.created_at),
            created_by: key.created_by.to_string(),
            expires_at: key.expires_at.map(format_time),
            revoked_at: key.revoked_at.map(format_time),
            last_used_at: key.last_used_at.map(format_time),
        }
    }
}

/// A key that was just made. Its secret is in this answer and nowhere else.
#[derive(Serialize, Deserialize, ToSchema, Clone)]
#[serde(rename_all = "camelCase")]
pub struct MadeApiKey {
    /// The secret, to be sent as `Authorization: Bearer …`.
    pub secret: String,
    /// The key.
    pub key: ApiKey,
}

/// A page of keys.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct ApiKeyPage {
    /// The keys, in the order of their last changes.
    pub items: Vec<ApiKey>,
    /// The start of the next page; null on the last one.
    #[schema(required)]
    pub next: Option<u64>,
}
