//! One RPC endpoint: a view of the chain with its own pool, dialect, features and faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::shared::Shared;
use super::{control, eth};
use crate::chain::{Chain, View};
use crate::dialect::Dialect;
use crate::error::RpcError;
use crate::fault::{CallFaults, FaultPlan, Faults};
use crate::options::Features;

/// The settings of an endpoint, apart from faults of single calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) dialect: Dialect,
    pub(crate) features: Features,
    /// Answers reads from this many blocks ago.
    pub(crate) lag: u64,
    /// The offset added to every transaction count.
    pub(crate) nonce_offset: i64,
    /// Says that it syncs.
    pub(crate) is_syncing: bool,
    /// Subscriptions stay open and say nothing.
    pub(crate) is_mute: bool,
    /// Has the states of this many blocks before its head; `None`: of all that are kept.
    pub(crate) states: Option<u64>,
    /// Its false answers, and the data that it never has.
    pub(crate) untruths: Untruths,
}

/// Consistent deviations of an endpoint from the chain that it is a view of.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Untruths {
    /// Its head is this many blocks above its real one, in blocks that it can't deliver.
    pub(crate) head_ahead: u64,
    /// `safe` and `finalized` are its head.
    pub(crate) tags_at_head: bool,
    /// The offset added to every pending count, on top of that of all counts.
    pub(crate) pending_offset: i64,
    /// Everything that it says about prices, times this.
    pub(crate) fee_factor: Option<u64>,
    /// The fixed result of every estimate.
    pub(crate) estimate: Option<u64>,
    /// Has receipts, and transactions by hash, of this many blocks before its head only.
    pub(crate) receipts: Option<u64>,
    /// Never has one receipt in so many.
    pub(crate) lacked_receipts: Option<u64>,
    /// The status of one receipt in so many is the opposite of the true one.
    pub(crate) flipped_receipts: Option<u64>,
    /// Never has one block in so many, by number, unless it is the head.
    pub(crate) lacked_blocks: Option<u64>,
    /// Another node behind the same URL.
    pub(crate) balancer: Option<Balancer>,
    /// Accepts connections and calls, and never answers.
    pub(crate) is_silent: bool,
}

/// A second node behind one URL, which some calls go to.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Balancer {
    /// The number of blocks that the other node lags behind.
    pub(crate) lag: u64,
    /// The probability that a call goes to the other node.
    pub(crate) probability: f64,
}

impl Untruths {
    /// A price as this endpoint reports it.
    pub(super) fn price(&self, wei: u128) -> u128 {
        wei.saturating_mul(u128::from(self.fee_factor.unwrap_or(1)))
    }

    /// The block of this number is never available.
    pub(super) fn lacks_block(&self, number: u64) -> bool {
        self.lacked_blocks.is_some_and(|one_in| one_in > 0 && number % one_in == one_in - 1)
    }

    /// Receipts of transactions in the block of this number are missing.
    pub(super) fn lacks_receipt(&self, hash: &B256, number: u64, head: u64) -> bool {
        let is_pruned = self.receipts.is_some_and(|kept| number.saturating_add(kept) < head);
        is_pruned || is_one_in(self.lacked_receipts, hash)
    }

    /// The receipt tells the opposite of the true status.
    pub(super) fn flips_receipt(&self, hash: &B256) -> bool {
        is_one_in(self.flipped_receipts, hash)
    }
}

/// Chooses one transaction in so many by its hash.
fn is_one_in(one_in: Option<u64>, hash: &B256) -> bool {
    one_in.is_some_and(|one_in| one_in > 0 && u64::from(hash[31]) % one_in == one_in - 1)
}

/// Access control of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortState {
    /// New connections are refused.
    pub(crate) is_closed: bool,
    /// Grows when all open connections are to close.
    pub(crate) epoch: u64,
}

pub(crate) struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: usize,
    pub(crate) port_state: watch::Sender<PortState>,
    settings: Mutex<Settings>,
    faults: Mutex<Faults>,
}

impl Endpoint {
    pub(crate) fn new(
        shared: Arc<Shared>,
        pool: usize,
        (dialect, features): (Dialect, Features),
        plan: FaultPlan,
    ) -> Self {
        let settings = Settings { dialect, features, ..Settings::default() };
        Self {
            shared,
            pool,
            port_state: watch::channel(PortState { is_closed: false, epoch: 0 }).0,
            settings: Mutex::new(settings),
            faults: Mutex::new(Faults::new(plan)),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings of the node behind the URL that gets this call.
    pub(super) fn settings_of_call(&self) -> Settings {
        let mut settings = self.settings();
        if let Some(Balancer { lag, probability }) = settings.untruths.balancer
            && self.faults().draws(probability)
        {
            settings.lag += lag;
        }
        settings
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn view<'a>(&self, chain: &'a Chain, settings: &Settings) -> View<'a> {
        chain.view(self.pool, settings.lag)
    }

    /// The faults of a call. Control methods are exempt.
    pub(super) fn judge(&self, method: &str) -> CallFaults {
        if method.starts_with("devchain_") {
            return CallFaults::default();
        }
        if self.settings().untruths.is_silent {
            return CallFaults { is_silent: true, ..CallFaults::default() };
        }
        self.faults().decide(method, self.shared.now_ms())
    }

    /// Carries a call out, without faults.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method.strip_prefix("devchain_") {
            Some(name) => control::call(self, name, params),
            None => eth::call(self, method, params, false),
        }
    }

    /// Carries a call out; a sent transaction may be forgotten at once.
    pub(super) fn call_as(
        &self,
        method: &str,
        params: &Value,
        verdict: &CallFaults,
    ) -> Result<Value, RpcError> {
        if verdict.forgets {
            eth::call(self, method, params, true)
        } else {
            self.call(method, params)
        }
    }

    /// Closes all connections that are open now.
    pub(crate) fn hang_up(&self) {
        self.port_state.send_modify(|port_state| port_state.epoch += 1);
    }

    /// Refuses new connections and closes the open ones, or lets callers in again.
    pub(crate) fn shut(&self, is_closed: bool) {
        self.port_state.send_modify(|port_state| {
            port_state.is_closed = is_closed;
            port_state.epoch += u64::from(is_closed);
        });
    }
}
