//! The ports, options and channels that all actors of a node share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_metrics::ChainMetrics;
use tollgate_model::fees::FeeCaps;
use tollgate_model::nonce::NonceRules;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::ids::Ids;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::span::SpanSink;
use tollgate_model::port::{Alerts, AttemptKind, Checkpoints, NewAttempt, Store};
use tollgate_model::refusal::{AttemptCost, TxLimits};
use tollgate_model::{ChainId, NodeId, Submitter, TxHash};

use crate::account_pool::PoolMemory;
use crate::accounts::Accounts;
use crate::committer::Committer;
use crate::keeper::Keeper;
use crate::lookup::RequestLookup;
use crate::options::{EngineOptions, Policies};
use crate::placement::Placement;
use crate::supervisor::ActorGroup;
use crate::tracker::{OlderBlocks, SupportChecker};
use crate::view::ChainView;
use crate::watch::ValueReceiver;

/// The outside world of one node, and what its actors know together.
pub(crate) struct Context {
    pub(crate) node: NodeId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    pub(crate) policies: Policies,
    pub(crate) alerts: Arc<dyn Alerts>,
    pub(crate) metrics: Arc<ChainMetrics>,
    pub(crate) spans: Arc<dyn SpanSink>,
    pub(crate) actors: ActorGroup,
    pub(crate) options: EngineOptions,
    pub(crate) committer: Committer,
    pub(crate) keeper: Keeper,
    pub(crate) lookup: RequestLookup,
    pub(crate) attempts: AttemptIndex,
    pub(crate) view: ValueReceiver<ChainView>,
    pub(crate) older_blocks: Arc<OlderBlocks>,
    pub(crate) support: Arc<SupportChecker>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) pools: PoolMemory,
    pub(crate) placement: Placement,
    pub(crate) counts: EventCounts,
}

/// Events since the start that are judged by how often they happen.
#[derive(Default)]
pub(crate) struct EventCounts {
    fenced: AtomicU64,
    resends: AtomicU64,
}

impl EventCounts {
    /// A worker stopped because another node has its submitter.
    pub(crate) fn note_fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    /// Transactions were claimed to be sent again.
    pub(crate) fn note_resends(&self, count: usize) {
        self.resends.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    pub(crate) fn resends(&self) -> u64 {
        self.resends.load(Ordering::Relaxed)
    }
}

impl Context {
    pub(crate) fn has_key(&self, of: Submitter) -> bool {
        of.chain_id == self.chain.chain_id() && self.signer.signs_for(of.address)
    }

    /// The nonce rules of a submitter: its own settings win over the chain's.
    pub(crate) fn nonce_rules(&self, of: Submitter) -> NonceRules {
        self.accounts.nonce_rules(of.address, self.options.nonces)
    }

    /// The caps on fees of a submitter: its own settings win over the chain's.
    pub(crate) fn fee_caps(&self, of: Submitter) -> FeeCaps {
        self.accounts.fee_caps(of.address, self.options.fee_caps)
    }

    pub(crate) fn tx_limits(&self) -> TxLimits {
        self.options.tx_limits.on(self.chain.chain_id())
    }

    /// The cost of an attempt for the balance check. Only a replacement is decoded: the others
    /// transfer what the attempt before them does, or nothing.
    pub(crate) fn attempt_cost(
        &self,
        chain_id: ChainId,
        NewAttempt { kind, fees, raw, .. }: &NewAttempt,
    ) -> AttemptCost {
        let (kind, fees) = (*kind, *fees);
        let draft = || self.signer.read(chain_id, raw).ok();
        let replacement = (kind == AttemptKind::Replacement).then(draft).flatten();
        AttemptCost { kind, fees, replaced_value: replacement.map(|draft| draft.value.0) }
    }
}

/// The hashes of all open attempts of the submitters that this node owns: what the tracker looks
/// for in each block, so that a block costs the same whatever is pending.
#[derive(Clone, Default)]
pub(crate) struct AttemptIndex {
    owners: Arc<Mutex<HashMap<TxHash, Submitter>>>,
}

impl AttemptIndex {
    pub(crate) fn insert(&self, hash: TxHash, owner: Submitter) {
        self.lock().insert(hash, owner);
    }

    pub(crate) fn remove(&self, hashes: impl IntoIterator<Item = TxHash>) {
        let mut owners = self.lock();
        for hash in hashes {
            owners.remove(&hash);
        }
    }

    /// Those of a block's transactions that are ours, with their submitters.
    pub(crate) fn find(&self, hashes: &[TxHash]) -> Vec<(TxHash, Submitter)> {
        let owners = self.lock();
        let ours = |hash: &TxHash| owners.get(hash).map(|owner| (*hash, *owner));
        hashes.iter().filter_map(ours).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A submitter with an open attempt, always the same one while it has any.
    pub(crate) fn any_owner(&self) -> Option<Submitter> {
        self.lock().values().min().copied()
    }

    /// A worker that panicked while it held the lock left a whole map behind.
    fn lock(&self) -> MutexGuard<'_, HashMap<TxHash, Submitter>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
