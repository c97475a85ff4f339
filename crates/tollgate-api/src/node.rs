//! The nodes that share the database.

use serde::{Deserialize, Serialize};
use tollgate_model::port::LiveNode;
use utoipa::ToSchema;

/// A node of a chain whose heartbeat is recent.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// The chain that it works for. A node of several chains is listed once for each.
    pub chain_id: u64,
    /// Its id: the name in its settings, and the id of this start.
    pub node: String,
    /// The URL at which the other nodes reach it.
    pub url: String,
    /// `true`: it is shutting down and takes no new work.
    pub draining: bool,
    /// The number of accounts that it serves; null if it does not say so.
    #[schema(required)]
    pub accounts: Option<u64>,
}

/// The live nodes of the chains that the asked node serves.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct NodeList {
    /// By chain, in the order of the configuration, and by id.
    pub items: Vec<Node>,
}

impl Node {
    /// A node that serves this many accounts.
    pub fn new(live: &LiveNode, accounts: Option<u64>) -> Self {
        Self {
            chain_id: live.chain_id.get(),
            node: live.node.to_string(),
            url: live.advertise_url.as_str().to_owned(),
            draining: live.draining,
            accounts,
        }
    }
}
