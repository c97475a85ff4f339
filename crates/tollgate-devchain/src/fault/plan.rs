//! The faults as values, as they stand in Rust and in the JSON of the `devchain_*` methods.

use serde::{Deserialize, Serialize};

/// The way in which an answer is lost after the call was executed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    /// The connection closes.
    #[default]
    Close,
    /// `504 Gateway Timeout` with a page of HTML.
    GatewayTimeout,
    /// Silence, until the caller gives up.
    Hang,
}

/// One thing that goes wrong with one call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// The call waits before it is carried out.
    Delay {
        /// The duration.
        ms: u64,
    },
    /// Not carried out: the connection closes.
    Close,
    /// Not carried out: an HTTP status instead (over a WebSocket: it closes).
    Http {
        /// 429, 500, 502, 503, …
        status: u16,
        /// The `Retry-After` header.
        #[serde(default)]
        retry_after_s: Option<u64>,
    },
    /// Not carried out: this JSON-RPC error instead.
    Rpc {
        /// Its code.
        code: i64,
        /// Its text.
        message: String,
    },
    /// Carried out, and the answer is lost.
    LoseAnswer {
        /// The way in which it is lost.
        #[serde(default)]
        how: Loss,
    },
    /// A sent transaction is accepted, answered, and then forgotten by this node's pool.
    Forget,
}

/// A fault, and when it strikes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultRule {
    /// The method; `*` at the end stands for any rest.
    #[serde(default = "any")]
    pub method: String,
    /// The fault.
    pub fault: Fault,
    /// The most times; `None`: no limit.
    #[serde(default)]
    pub times: Option<u32>,
    /// The probability at each call.
    #[serde(default = "certain")]
    pub probability: f64,
}

fn any() -> String {
    "*".to_owned()
}

fn certain() -> f64 {
    1.0
}

impl FaultRule {
    /// At every call of this method.
    pub fn always(method: &str, fault: Fault) -> Self {
        Self { method: method.to_owned(), fault, times: None, probability: 1.0 }
    }

    /// At the next call of this method.
    pub fn once(method: &str, fault: Fault) -> Self {
        Self { times: Some(1), ..Self::always(method, fault) }
    }

    /// At calls of this method with this probability.
    pub fn sometimes(method: &str, probability: f64, fault: Fault) -> Self {
        Self { probability, ..Self::always(method, fault) }
    }

    /// The rule applies to this method.
    pub fn is_about(&self, method: &str) -> bool {
        match self.method.strip_suffix('*') {
            Some(start) => method.starts_with(start),
            None => self.method == method,
        }
    }
}

/// A reorg after a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorgFault {
    /// The deepest; each is drawn from 1 to here.
    pub max_depth: u64,
}

/// The chain's own faults after each block.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockFault {
    /// The probability after each block.
    pub probability: f64,
    /// A reorg with a drawn depth and handling of transactions, never beyond `safe`.
    #[serde(default)]
    pub reorg: Option<ReorgFault>,
    /// Each pooled transaction of the view goes with this probability.
    #[serde(default)]
    pub evict: Option<f64>,
}

/// A schedule of faults that follows from a seed.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FaultPlan {
    /// The seed of all draws.
    pub seed: u64,
    /// For each call, every rule is drawn in this order.
    pub calls: Vec<FaultRule>,
    /// For each block, every fault is drawn in this order.
    pub blocks: Vec<BlockFault>,
}
