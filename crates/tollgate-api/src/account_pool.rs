//! Account pools: named sets of accounts, of which the least loaded takes a create.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The members of a pool, all of them.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPool {
    /// Accounts of the chain that are submitters: from 1 to 1000.
    #[schema(value_type = Vec<schema::Address>, required)]
    pub members: Vec<String>,
    /// For the audit log: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A pool with the load of its members.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// The chain.
    pub chain_id: u64,
    /// The name. Creates use it as `pool:NAME`.
    pub name: String,
    /// The members, in the order of their addresses.
    pub members: Vec<PoolMember>,
}

/// A member of a pool.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct PoolMember {
    /// The account, with its checksum.
    #[schema(value_type = schema::Address)]
    pub address: String,
    /// `available` if it takes creates of the pool, as far as its funds suffice; otherwise the reason.
    #[schema(value_type = schema::Availability)]
    pub availability: Cow<'static, str>,
    /// Open transactions.
    pub open: u64,
}

/// A pool in a list.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct PoolEntry {
    /// The name.
    pub name: String,
    /// The members, with their checksums.
    #[schema(value_type = Vec<schema::Address>)]
    pub members: Vec<String>,
}
