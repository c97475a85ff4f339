//! One RPC endpoint: a view of the chain with its own pool, dialect, features and faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::shared::Shared;
use super::{answer, control};
use crate::chain::{Chain, View};
use crate::dialect::Dialect;
use crate::error::RpcError;
use crate::fault::{FaultPlan, Faults, Verdict};
use crate::options::Features;

/// How an endpoint answers, apart from single calls that fail.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) dialect: Dialect,
    pub(crate) features: Features,
    /// Answers reads from this many blocks ago.
    pub(crate) lag: u64,
    /// What is added to every transaction count.
    pub(crate) nonce_offset: i64,
    /// Says that it syncs.
    pub(crate) is_syncing: bool,
    /// Subscriptions stay open and say nothing.
    pub(crate) is_mute: bool,
    /// Has the states of this many blocks before its head; `None`: of all that are kept.
    pub(crate) states: Option<u64>,
}

/// Who may reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Door {
    /// New connections are refused.
    pub(crate) is_shut: bool,
    /// Grows when all open connections are to close.
    pub(crate) epoch: u64,
}

/// An endpoint.
pub(crate) struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: usize,
    pub(crate) door: watch::Sender<Door>,
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
        let settings = Settings {
            dialect,
            features,
            lag: 0,
            nonce_offset: 0,
            is_syncing: false,
            is_mute: false,
            states: None,
        };
        Self {
            shared,
            pool,
            door: watch::channel(Door { is_shut: false, epoch: 0 }).0,
            settings: Mutex::new(settings),
            faults: Mutex::new(Faults::new(plan)),
        }
    }

    /// How it answers now.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes how it answers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Its faults.
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chain as it sees it.
    pub(super) fn view<'a>(&self, chain: &'a Chain, settings: &Settings) -> View<'a> {
        chain.view(self.pool, settings.lag)
    }

    /// What happens to a call. What controls the faults never fails by them.
    pub(super) fn judge(&self, method: &str) -> Verdict {
        if method.starts_with("devchain_") {
            return Verdict::default();
        }
        self.faults().decide(method, self.shared.now_ms())
    }

    /// Carries a call out, without faults.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method.strip_prefix("devchain_") {
            Some(name) => control::call(self, name, params),
            None => answer::call(self, method, params, false),
        }
    }

    /// Carries a call out; a sent transaction may be forgotten at once.
    pub(super) fn call_as(
        &self,
        method: &str,
        params: &Value,
        verdict: &Verdict,
    ) -> Result<Value, RpcError> {
        if verdict.forgets {
            answer::call(self, method, params, true)
        } else {
            self.call(method, params)
        }
    }

    /// Closes all connections that are open now.
    pub(crate) fn hang_up(&self) {
        self.door.send_modify(|door| door.epoch += 1);
    }

    /// Refuses new connections and closes the open ones, or lets callers in again.
    pub(crate) fn shut(&self, is_shut: bool) {
        self.door.send_modify(|door| {
            door.is_shut = is_shut;
            door.epoch += u64::from(is_shut);
        });
    }
}
