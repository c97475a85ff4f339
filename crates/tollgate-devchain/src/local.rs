//! Endpoints without sockets: the same answers and the same faults, on the clock of the runtime that
//! calls. For simulations, where everything must follow from a seed.

use std::sync::{Arc, MutexGuard};

use serde_json::Value;

use crate::chain::Chain;
use crate::error::RpcError;
use crate::fault::{FaultPlan, FaultRule};
use crate::options::Features;
use crate::rpc::{Endpoint, Shared, post_locally};

/// A chain that is reached within the process. Nothing happens by itself: its owner mines and
/// gossips.
pub struct LocalChain {
    shared: Arc<Shared>,
}

impl LocalChain {
    pub fn new(chain: Chain) -> Self {
        Self { shared: Arc::new(Shared::new(chain, None)) }
    }

    /// The core, under its lock, which is never to be held across an `await`.
    pub fn lock(&self) -> MutexGuard<'_, Chain> {
        self.shared.chain()
    }

    /// Milliseconds since the start, by the runtime's clock: what gossip goes by.
    pub fn now_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    /// An endpoint with this pool. `seed` is what its faults by chance follow from.
    pub fn view(&self, pool: usize, seed: u64) -> LocalView {
        let plan = FaultPlan { seed, ..FaultPlan::default() };
        let speaks = (crate::Dialect::default(), Features::default());
        LocalView { endpoint: Endpoint::new(self.shared.clone(), pool, speaks, plan) }
    }
}

pub struct LocalView {
    endpoint: Endpoint,
}

/// The response to a POST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocalAnswer {
    Said {
        status: u16,
        retry_after_s: Option<u64>,
        /// Its body, JSON-RPC or not.
        body: String,
    },
    Closed,
    /// Nothing, however long anybody waits.
    Silence,
}

impl LocalView {
    /// Answers the body of a POST, single call or batch, with the faults of this endpoint.
    pub async fn post(&self, body: &[u8]) -> LocalAnswer {
        post_locally(&self.endpoint, body).await
    }

    /// Carries out any method without faults: the way to the `devchain_*` methods.
    ///
    /// # Errors
    /// The endpoint's answer.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.endpoint.call(method, params)
    }

    /// Adds a fault; false if there are too many.
    pub fn fail(&self, rule: FaultRule) -> bool {
        self.endpoint.faults().add(rule)
    }
}
