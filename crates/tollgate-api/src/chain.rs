//! The chains that a node serves, and the node's readiness.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A chain that a node serves.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Its id, as in `chainId` of requests.
    pub chain_id: u64,
    /// Its name in `[[chains]]`, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `ready`; `starting` until an endpoint has delivered a block; `down` while no endpoint answers.
    pub status: Cow<'static, str>,
    /// The reason, if it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The newest block that the node has seen.
    #[schema(required)]
    pub head: Option<u64>,
    /// The number of blocks that make a receipt final, its own included; null where the chain's `safe` or
    /// `finalized` block decides, and before the chain has started.
    #[serde(default)]
    #[schema(required)]
    pub confirmations_needed: Option<u64>,
}

/// An RPC endpoint of a chain.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Scheme, host and port.
    pub name: String,
    /// Its use: `full`, `send_only`, `read_only` or `private`.
    #[serde(default)]
    pub role: Cow<'static, str>,
    /// `good`, `unchecked` while it has not answered, or why it is not used.
    pub check: String,
    /// True while it gets no calls, because of failures or a rate limit.
    pub resting: bool,
    /// The head that it last reported.
    #[schema(required)]
    pub head: Option<u64>,
}

/// A chain with its endpoints.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct ChainWithEndpoints {
    /// The chain.
    #[serde(flatten)]
    pub chain: Chain,
    /// Its endpoints, in the order of the configuration; none before one has answered.
    pub endpoints: Vec<Endpoint>,
}

/// The chains of a node.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct ChainList {
    /// In the order of the configuration.
    pub items: Vec<ChainWithEndpoints>,
}

/// The node can work.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Always `ready`; a node that is not answers with a problem.
    pub status: Cow<'static, str>,
    /// Its chains. A chain in trouble does not make the node unready for the others.
    pub chains: Vec<Chain>,
}
