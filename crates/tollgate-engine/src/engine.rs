//! A node's engine: starts the actors, and hands work to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tollgate_metrics::ChainMetrics;
use tollgate_model::fees::FeeCaps;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::chain::{AccountCounts, Chain, ChainUnavailable, FeeQuote, Logs, Speed};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::ids::Ids;
use tollgate_model::port::signer::Signer;
use tollgate_model::port::span::SpanSink;
use tollgate_model::port::{Alerts, Checkpoints, Keys, Store, TxReceipt};
use tollgate_model::{Address, ChainId, NodeId, Nonce, Submitter, Timestamp, Wei};

use crate::account_pool::PoolMemory;
use crate::accounts::{self, Accounts};
use crate::balances;
use crate::committer::Committer;
use crate::context::{AttemptIndex, Context, EventCounts};
use crate::errors::Unserved;
use crate::keeper::Keeper;
use crate::lookup::RequestLookup;
use crate::mailbox::{Mailbox, WorkerEvent};
use crate::options::{EngineOptions, Policies};
use crate::orphans::{adopt, wake_idle};
use crate::placement::Placement;
use crate::supervisor::{ActorGroup, supervise};
use crate::tracker::{
    OlderBlocks, ReaderSetup, ReceiptReader, SupportChecker, Tracker, WorkerNotifier,
};
use crate::view::ChainView;
use crate::watch;
use crate::worker::{Command, CreateJob, Inbox, Worker};

/// Commands that may wait for one submitter (I13).
const COMMANDS_MAX: usize = 64;

/// The ports of an engine.
pub struct EnginePorts {
    /// This start of this process.
    pub node: NodeId,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The chain.
    pub chain: Arc<dyn Chain>,
    /// The keys.
    pub signer: Arc<dyn Signer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
    /// Observers of the progress of writes; `NoCheckpoints` outside of tests.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// The policies for stuck transactions and for prices.
    pub policies: Policies,
    /// The receiver of alerts.
    pub alerts: Arc<dyn Alerts>,
    /// The keys of accounts that are opened while the engine runs.
    pub keys: Arc<dyn Keys>,
    /// The counters of the chain; `Arc::default()` where nobody reads them.
    pub metrics: Arc<ChainMetrics>,
    /// Receives what took time for traced transactions.
    pub spans: Arc<dyn SpanSink>,
}

/// A running engine for one chain. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) context: Arc<Context>,
    pub(crate) workers: Arc<Workers>,
}

/// The submitters that this node works for at the moment.
#[derive(Default)]
pub(crate) struct Workers {
    handles: Mutex<BTreeMap<Submitter, Handle>>,
}

#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) creates: mpsc::Sender<CreateJob>,
    pub(crate) commands: mpsc::Sender<Command>,
    mailbox: Mailbox,
}

impl Workers {
    pub(crate) fn works_for(&self, submitter: Submitter) -> bool {
        self.lock().get(&submitter).is_some_and(|handle| !handle.creates.is_closed())
    }

    /// Ends a worker that has released its lease, unless work came meanwhile. Work is given under the same
    /// lock, so none is given to a worker that ends.
    pub(crate) fn retire(&self, submitter: Submitter, inbox: &mut Inbox) -> bool {
        let mut handles = self.lock();
        let may_end = inbox.is_empty();
        if may_end {
            inbox.close();
            handles.remove(&submitter);
        }
        may_end
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Submitter, Handle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerNotifier for Workers {
    fn notify(&self, submitter: Submitter, events: Vec<WorkerEvent>) {
        if let Some(handle) = self.lock().get(&submitter) {
            handle.mailbox.post(events);
        }
    }
}

impl Engine {
    /// Starts the actors. They end when the last handle is gone.
    pub fn start(ports: EnginePorts, options: EngineOptions) -> Self {
        let EnginePorts {
            node,
            store,
            chain,
            signer,
            clock,
            ids,
            checkpoints,
            policies,
            alerts,
            keys,
            metrics,
            spans,
        } = ports;
        let actors = ActorGroup::of_chain(chain.chain_id(), metrics.clone());
        let batches = (options.batch_max, options.events);
        let committer = Committer::start(&store, &node, batches, &actors, &metrics, &spans);
        let keeper =
            Keeper::start(store.clone(), node.clone(), options.lease, &actors, metrics.clone());
        let lookup = RequestLookup::start(&store, &actors);
        let attempts = AttemptIndex::default();
        let configured = options.served_with(signer.as_ref());
        let accounts = Accounts::new(chain.chain_id(), store.clone(), keys, &configured);
        let accounts = Arc::new(accounts);
        let served = accounts.served();
        let placement = Placement::new(node.clone(), chain.chain_id(), &options.lease, served);
        let workers = Arc::new(Workers::default());
        let (view, watched) = watch::channel(ChainView::default());
        let setup = Arc::new(ReaderSetup {
            chain: chain.clone(),
            attempts: attempts.clone(),
            workers: workers.clone(),
            alerts: alerts.clone(),
            alert_after: options.receipt_alert_after,
            metrics: metrics.clone(),
        });
        let reader = Arc::new(ReceiptReader::new(setup.clone()));
        let older_blocks = Arc::new(OlderBlocks::new(setup.clone()));
        let support = Arc::new(SupportChecker::new(setup, options.finality));
        let tracker = Arc::new(Tracker {
            chain: chain.clone(),
            rule: options.finality,
            reader,
            older_blocks: older_blocks.clone(),
            support: support.clone(),
            view,
            clock: clock.clone(),
            metrics: metrics.clone(),
        });
        supervise(&actors, "tracker", move || tracker.clone().run());
        let context = Context {
            node,
            store,
            chain,
            signer,
            clock,
            ids,
            checkpoints,
            policies,
            alerts,
            metrics,
            spans,
            actors: actors.clone(),
            options,
            committer,
            keeper,
            lookup,
            attempts,
            view: watched,
            older_blocks,
            support,
            accounts,
            pools: PoolMemory::default(),
            placement,
            counts: EventCounts::default(),
        };
        let engine = Self { context: Arc::new(context), workers };
        let (context, workers) = (Arc::downgrade(&engine.context), Arc::downgrade(&engine.workers));
        let (seen, at_work) = (context.clone(), workers.clone());
        let followed = Arc::downgrade(&engine.context);
        let watched = followed.clone();
        supervise(&actors, "accounts", move || accounts::follow(followed.clone()));
        supervise(&actors, "balances", move || balances::watch(watched.clone()));
        supervise(&actors, "orphans", move || adopt(context.clone(), workers.clone()));
        supervise(&actors, "guard", move || wake_idle(seen.clone(), at_work.clone()));
        engine
    }

    /// True if this node serves a submitter: it has the key, or accepts transactions that were signed
    /// elsewhere.
    pub fn serves(&self, submitter: Submitter) -> bool {
        self.context.placement.serves(submitter)
    }

    /// The reason why nothing is done for a submitter that this node has no key for.
    pub(crate) fn refusal(&self, submitter: Submitter) -> Unserved {
        self.context.placement.refusal(submitter, self.workers.works_for(submitter))
    }

    /// Gives something to the submitter's worker, unless it would need a new worker and the submitter
    /// was just let go for another node.
    pub(crate) fn offer<T>(
        &self,
        submitter: Submitter,
        give: impl FnOnce(&Handle) -> T,
    ) -> Option<T> {
        let placement = &self.context.placement;
        if placement.is_left_to_another(submitter) && !self.workers.works_for(submitter) {
            return None;
        }
        self.give(submitter, give)
    }

    /// Gives something to the submitter's worker. It is enqueued before a new worker starts, so that a
    /// worker that can't have the lease still answers it. A node that drains starts none.
    pub(crate) fn give<T>(
        &self,
        submitter: Submitter,
        give: impl FnOnce(&Handle) -> T,
    ) -> Option<T> {
        let mut handles = self.workers.lock();
        if let Some(handle) = handles.get(&submitter).filter(|h| !h.creates.is_closed()) {
            return Some(give(handle));
        }
        if self.context.placement.is_draining() {
            return None;
        }
        let (creates, intents) = mpsc::channel(self.context.options.queued_max.max(1));
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let handle = Handle { creates, commands, mailbox: Mailbox::default() };
        let mailbox = handle.mailbox.clone();
        let inbox = Arc::new(AsyncMutex::new(Inbox { creates: intents, commands: asked }));
        let (context, workers) = (self.context.clone(), Arc::downgrade(&self.workers));
        let worker = Worker { context, workers, submitter, inbox, mailbox };
        let given = give(&handle);
        supervise(&self.context.actors, "worker", move || worker.clone().run());
        handles.insert(submitter, handle);
        Some(given)
    }

    /// Stops taking work and lets every lease go.
    pub async fn stop(&self) {
        self.drain();
        let handles: Vec<Handle> = self.workers.lock().values().cloned().collect();
        for handle in &handles {
            handle.mailbox.request_stop();
        }
        for handle in handles {
            handle.creates.closed().await;
        }
    }

    /// The chain that it works on.
    pub fn chain_id(&self) -> ChainId {
        self.context.chain.chain_id()
    }

    /// The node's own time.
    pub fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// The accounts that this node serves.
    pub fn accounts(&self) -> &Accounts {
        &self.context.accounts
    }

    /// The maximum number of open slots of a submitter in this mode.
    pub fn window(&self, of: Submitter, mode: Mode) -> u32 {
        NonceRules { mode, ..self.context.nonce_rules(of) }.open_slots_max()
    }

    /// The rule by which a block counts as settled.
    pub fn finality(&self) -> FinalityRule {
        self.context.options.finality
    }

    /// The mode of accounts that are opened without one.
    pub fn default_mode(&self) -> Mode {
        self.context.options.nonces.mode
    }

    /// The first nonce of accounts that are opened.
    pub fn default_start(&self) -> Nonce {
        self.context.options.start_from
    }

    /// The origin of a setting of the chain: `chain` or `node`.
    pub fn setting_from(&self, name: &str) -> &'static str {
        if self.context.options.set_by_chain.contains(&name) { "chain" } else { "node" }
    }

    /// The caps on fees that hold for a submitter.
    pub fn fee_caps(&self, of: Submitter) -> FeeCaps {
        self.context.fee_caps(of)
    }

    /// An account's transaction counts.
    pub async fn chain_counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        self.context.chain.counts(of).await
    }

    /// The counters of the chain.
    pub fn metrics(&self) -> &Arc<ChainMetrics> {
        &self.context.metrics
    }

    /// The number of actors that panicked and were restarted.
    pub fn deaths(&self) -> u64 {
        self.context.actors.restarts()
    }

    /// Workers that stopped because another node had their submitter, since the start.
    pub fn fenced(&self) -> u64 {
        self.context.counts.fenced()
    }

    /// Transactions that were sent again, since the start.
    pub fn resends(&self) -> u64 {
        self.context.counts.resends()
    }

    /// True if a transaction that was sent waits for a block.
    pub fn waits_for_blocks(&self) -> bool {
        !self.context.attempts.is_empty()
    }

    /// The number of nonces of one submitter that callers may hold; `None` if they may hold none.
    pub fn reservations_max(&self) -> Option<u32> {
        self.context.options.reservations.map(|limits| limits.outstanding_max)
    }

    /// An account's balance.
    pub async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.context.chain.balance(of).await
    }

    /// The price of a transaction now, at the normal speed.
    pub async fn fee_quote(&self) -> Result<FeeQuote, ChainUnavailable> {
        self.context.chain.fee_quote(Speed::Normal).await
    }

    /// The log entries of a mined transaction; `None` if no endpoint has its receipt.
    pub async fn logs(&self, of: &TxReceipt) -> Result<Option<Logs>, ChainUnavailable> {
        self.context.chain.logs(of).await
    }

    /// The canonical chain as this node sees it.
    pub fn view(&self) -> Arc<ChainView> {
        self.context.view.get()
    }
}
