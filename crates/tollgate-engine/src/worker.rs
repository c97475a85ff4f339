//! One submitter's work, in one serial task: everything that happens to it happens in order.
//!
//! `session` holds what all parts share; `state` is the submitter in memory and `journal` the only way to
//! change it durably. Around them: `intake` (creates), `evidence` (blocks and nodes), `upkeep` (rules, at each
//! tick), `commands` (operators, policies, callers that reserve). Waits, then acts to completion, then waits
//! again; creates go ahead of evidence, but not for long. Whatever goes wrong in a way it does not understand
//! makes it forget everything and start again from the store; a lost lease makes it stop.

mod agenda;
mod alarm;
mod commands;
mod evidence;
mod in_flight;
mod intake;
mod journal;
mod ownership_transfer;
mod put_off;
mod session;
mod state;
mod state_changes;
mod upkeep;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tollgate_metrics::{FencedOp, LeaseResult};
use tollgate_model::ids::InvalidValue;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::chain::ChainUnavailable;
use tollgate_model::port::{
    Acquisition, AlertKind, GrantKind, Lease, Owner, StoreError, SubmitterRecord,
};
use tollgate_model::{IllegalMove, Submitter};
use tracing::{info, warn};

use crate::context::Context;
use crate::engine::Workers;
use crate::errors::{Cause, Unserved};
use crate::mailbox::{Mailbox, WorkerEvent};
use crate::view::ChainView;
use alarm::{Alarm, AlertSubject};
use commands::Commands;
pub(crate) use commands::{Command, Reply};
use evidence::Reports;
pub(crate) use intake::CreateJob;

use intake::Intake;
use journal::{Refusals, UnknownCommit};
use ownership_transfer::OwnershipTransfer;
use put_off::Turn;
use session::Session;
use upkeep::Upkeep;

/// The time between two rounds of upkeep.
const TICK: Duration = Duration::from_millis(500);
/// The pause before a worker that failed starts again.
const RESTART_PAUSE: Duration = Duration::from_millis(300);

/// The queues of creates and commands of a worker.
pub(crate) struct Inbox {
    pub(crate) creates: mpsc::Receiver<CreateJob>,
    pub(crate) commands: mpsc::Receiver<Command>,
}

impl Inbox {
    /// Answers everything that waits: nobody waits for a store that can't be asked (I13).
    fn refuse_all(&mut self, why: &Unserved) {
        while let Ok(create) = self.creates.try_recv() {
            create.answer(Err(why.clone().into()));
        }
        while let Ok(command) = self.commands.try_recv() {
            command.refuse(why.clone());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.commands.is_empty()
    }

    /// Takes nothing more.
    pub(crate) fn close(&mut self) {
        self.creates.close();
        self.commands.close();
    }

    /// Takes nothing more, and answers everything that waits.
    fn refuse_and_close(&mut self, owner: Option<Owner>) {
        self.close();
        self.refuse_all(&Unserved::NotOwner(owner));
    }
}

/// The reason why a worker ends a session.
#[derive(Debug)]
enum Stop {
    /// The lease is gone (I2).
    Fenced,
    /// Another node has the lease.
    NotOwner(Owner),
    /// The state in memory may be wrong: read everything again.
    Restart(Cause),
    /// There has been nothing to do for `lease_idle`.
    Idle,
    /// The node stops, or the submitter goes to another node.
    Done,
}

impl Stop {
    fn restart(why: impl Into<String>) -> Self {
        Self::Restart(Cause::Other(why.into()))
    }

    /// The answer to requests that were not begun.
    fn answer(&self) -> Unserved {
        match self {
            Self::Fenced => Unserved::NotOwner(None),
            Self::NotOwner(owner) => Unserved::NotOwner(Some(owner.clone())),
            Self::Restart(why) => Unserved::Unavailable(why.clone()),
            Self::Idle | Self::Done => Unserved::unavailable("the node stops"),
        }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced(_) => Self::Fenced,
            error => Self::Restart(error.into()),
        }
    }
}

macro_rules! restart_for {
    ($($cause:ty),*) => {
        $(
            impl From<$cause> for Stop {
                fn from(cause: $cause) -> Self {
                    Self::Restart(cause.into())
                }
            }
        )*
    };
}

restart_for!(InvalidValue, IllegalMove, ChainUnavailable);

/// State that outlives a restart of the worker and is not in the store.
struct Retained {
    /// The same alert is not raised again after each restart.
    alarm: Alarm,
    refusals: Refusals,
}

/// A submitter's worker and what it is given. A clone goes on where one that panicked was.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) context: Arc<Context>,
    pub(crate) workers: Weak<Workers>,
    pub(crate) submitter: Submitter,
    pub(crate) inbox: Arc<Mutex<Inbox>>,
    pub(crate) mailbox: Mailbox,
}

impl Worker {
    /// Works until the lease is lost or there is nothing left to do.
    pub(crate) async fn run(self) {
        let submitter = self.submitter;
        let mut inbox = self.inbox.lock().await;
        let (mut unknown, mut has_owned) = (None, false);
        let alarm = Alarm::new(self.context.alerts.clone(), submitter);
        let mut retained = Retained { alarm, refusals: Refusals::default() };
        loop {
            let (stop, began) = match self.acquire(&mut unknown).await {
                Ok(owned) => {
                    has_owned = true;
                    let mut worker = OwnedWorker::new(Session::start(&self, owned, retained));
                    let stop = worker.work(&mut inbox).await;
                    let began = worker.has_begun;
                    (retained, unknown) = worker.session.end(&stop).await;
                    (stop, began)
                }
                Err(stop) => (stop, false),
            };
            match stop {
                Stop::Restart(why) => {
                    self.context.metrics.worker_restarts_total.inc();
                    warn!(%submitter, error = %why, "worker restarts from the store");
                    if !began {
                        inbox.refuse_all(&Unserved::Unavailable(why));
                    }
                    tokio::time::sleep(RESTART_PAUSE).await;
                }
                Stop::Fenced => {
                    self.note_fenced();
                    return inbox.refuse_and_close(None);
                }
                Stop::NotOwner(owner) => {
                    // The lease was lost while the store could not be asked, for instance because
                    // this process slept and its database sessions were ended meanwhile.
                    if has_owned {
                        self.context.metrics.lease_fenced_total.inc(FencedOp::Acquire);
                        self.note_fenced();
                    }
                    return inbox.refuse_and_close(Some(owner));
                }
                Stop::Idle => {
                    // What came while the lease was released is served under a new one.
                    let workers = self.workers.upgrade();
                    if workers.is_none_or(|workers| workers.retire(submitter, &mut inbox)) {
                        return;
                    }
                }
                Stop::Done => return inbox.refuse_and_close(None),
            }
        }
    }

    fn note_fenced(&self) {
        self.context.counts.note_fenced();
        warn!(submitter = %self.submitter, "fenced: all work for the submitter stops");
    }

    /// Takes the lease, once every commit under an earlier one has a known outcome.
    async fn acquire(
        &self,
        unknown: &mut Option<UnknownCommit>,
    ) -> Result<(Lease, SubmitterRecord), Stop> {
        let Context { store, node, options, metrics, .. } = self.context.as_ref();
        if let Some(commit) = unknown {
            commit.resolve(&self.context).await.map_err(|error| Stop::Restart(error.into()))?;
        }
        *unknown = None;
        let acquired = store.acquire(self.submitter, node, &options.lease).await;
        metrics.lease_acquire_total.inc(match &acquired {
            Ok(Acquisition::Granted { kind: GrantKind::First, .. }) => LeaseResult::First,
            Ok(Acquisition::Granted { kind: GrantKind::Renewed, .. }) => LeaseResult::Kept,
            Ok(Acquisition::Granted { kind: GrantKind::TakenOver, .. }) => LeaseResult::TakenOver,
            Ok(Acquisition::Held(_)) => LeaseResult::Held,
            Err(_) => LeaseResult::Error,
        });
        match acquired {
            Ok(Acquisition::Granted { lease, kind, submitter }) => {
                let (node_id, fencing_token) = (node.as_str(), lease.token.get());
                info!(submitter = %self.submitter, node_id, fencing_token, grant = ?kind, "lease acquired");
                Ok((lease, submitter))
            }
            Ok(Acquisition::Held(owner)) => Err(Stop::NotOwner(owner)),
            Err(error) => Err(Stop::Restart(error.into())),
        }
    }
}

/// A worker while it holds the submitter's lease.
struct OwnedWorker {
    session: Session,
    intake: Intake,
    upkeep: Upkeep,
    commands: Commands,
    transfer: OwnershipTransfer,
    busy_at: Instant,
    /// Events that creates have gone ahead of, in the order they were posted.
    put_off: Vec<WorkerEvent>,
    /// Since when creates have gone ahead of evidence.
    put_off_since: Option<Instant>,
    /// The view by which all recorded receipts were judged last.
    judged_view: Option<Arc<ChainView>>,
    /// True once the open work is loaded.
    has_begun: bool,
    /// Creates and commands that were taken from the inbox and not looked at yet. Where the worker stops, they are
    /// refused: nothing was written for them.
    taken_creates: Vec<CreateJob>,
    taken_commands: VecDeque<Command>,
}

impl OwnedWorker {
    fn new(session: Session) -> Self {
        let now = session.now();
        Self {
            session,
            intake: Intake::new(),
            upkeep: Upkeep::from(now),
            commands: Commands::from(now),
            transfer: OwnershipTransfer::default(),
            busy_at: Instant::now(),
            put_off: Vec::new(),
            put_off_since: None,
            judged_view: None,
            has_begun: false,
            taken_creates: Vec::new(),
            taken_commands: VecDeque::new(),
        }
    }

    async fn work(&mut self, inbox: &mut Inbox) -> Stop {
        let stop = match self.work_on(inbox).await {
            Ok(never) => match never {},
            Err(stop) => stop,
        };
        intake::refuse(std::mem::take(&mut self.taken_creates), &stop.answer().into());
        self.taken_commands.drain(..).for_each(|command| command.refuse(stop.answer()));
        stop
    }

    async fn work_on(&mut self, inbox: &mut Inbox) -> Result<Infallible, Stop> {
        if self.session.mailbox.is_stop_requested() {
            return Err(Stop::Done);
        }
        self.recover().await?;
        self.has_begun = true;
        let mut view = self.session.context.view.clone();
        loop {
            let batch_max = self.session.context.options.batch_max;
            // The order harms nobody: after each wait everything that is there is taken care of. By
            // chance instead, one seed of a simulation would not be one run.
            tokio::select! {
                biased;
                count = inbox.creates.recv_many(&mut self.taken_creates, batch_max) => {
                    if count == 0 {
                        return Err(Stop::Done);
                    }
                }
                Some(command) = inbox.commands.recv() => self.taken_commands.push_back(command),
                () = std::future::ready(()), if self.put_off_since.is_some() => {}
                () = self.session.mailbox.changed() => {}
                // Without a tracker there is nothing to follow: the engine is being stopped. To go on
                // would be a loop that never waits.
                has_changed = view.changed() => if !has_changed {
                    return Err(Stop::Done);
                },
                () = tokio::time::sleep(TICK) => {}
            }
            self.taken_commands.extend(std::iter::from_fn(|| inbox.commands.try_recv().ok()));
            let events = self.session.mailbox.drain();
            if events.contains(&WorkerEvent::LeaseLost(self.session.lease)) {
                return Err(Stop::Fenced);
            }
            self.put_off.extend(events);
            if !self.taken_commands.is_empty() || !self.lets_pass() {
                self.put_off_since = None;
                let events = std::mem::take(&mut self.put_off);
                self.take_events(events, &view.latest()).await?;
                self.upkeep.tend_pool(&mut self.session).await?;
                while let Some(command) = self.taken_commands.pop_front() {
                    self.carry_out(command).await?;
                }
                if self.session.agenda.is_tick_due() {
                    self.tick().await?;
                    self.alert_if_unserved();
                    self.alert_if_protected();
                    self.session.publish_state();
                }
            }
            self.intake.accept(&mut self.session, std::mem::take(&mut self.taken_creates)).await?;
            self.upkeep.note_head(&mut self.session);
            self.session.publish_depth();
            // What was put off is recorded first: the next owner would have to find it out.
            let may_end = self.put_off_since.is_none();
            if may_end && (self.session.mailbox.is_stop_requested() || self.lets_go(inbox)) {
                return Err(Stop::Done);
            }
            if self.is_idle() && inbox.is_empty() {
                return Err(Stop::Idle);
            }
        }
    }

    /// Returns whether creates go ahead of evidence in this turn, and notes since when.
    fn lets_pass(&mut self) -> bool {
        let (state, creates) = (&self.session.state, self.taken_creates.len());
        let window = self.session.nonce_rules().window as usize;
        let turn = Turn {
            creates,
            has_room: state.queue().is_empty() && state.in_flight().len() + creates <= window,
            is_free: state.status() == SubmitterStatus::Active && state.mode() == Mode::Pipelined,
            is_tick_due: self.session.agenda.is_tick_due(),
            put_off_for: self.put_off_since.map_or(Duration::ZERO, |since| since.elapsed()),
        };
        let lets_pass = turn.lets_pass();
        if lets_pass {
            self.put_off_since.get_or_insert_with(Instant::now);
        }
        lets_pass
    }

    /// Everything that was loaded is looked for beside this, and then sent again where the rules send it by
    /// themselves.
    async fn recover(&mut self) -> Result<(), Stop> {
        session::load_open_work(&mut self.session).await?;
        let view = self.session.context.view.get();
        self.take_events(Vec::new(), &view).await?;
        self.tick().await?;
        upkeep::load_pool(&mut self.session).await
    }

    async fn tick(&mut self) -> Result<(), Stop> {
        let Self { session, intake, upkeep, commands, .. } = self;
        upkeep.tick(session, intake, commands).await
    }

    async fn carry_out(&mut self, command: Command) -> Result<(), Stop> {
        let Self { session, intake, upkeep, commands, .. } = self;
        commands.carry_out(session, intake, upkeep, command).await
    }

    /// Takes notice of everything that happened, oldest kind of evidence first: receipts, forks, finality,
    /// answers, decisions.
    async fn take_events(
        &mut self,
        events: Vec<WorkerEvent>,
        view: &Arc<ChainView>,
    ) -> Result<(), Stop> {
        let mut reports = Reports::default();
        let (mut searched, mut looked_up, mut decisions) = (Vec::new(), Vec::new(), Vec::new());
        for event in events {
            match event {
                WorkerEvent::Mined(receipt) => reports.receipts.push(receipt),
                WorkerEvent::BlockLeft { number, hash } => {
                    reports.blocks_left.insert((number, hash));
                }
                WorkerEvent::Supported(receipt) => reports.supported.push(receipt),
                WorkerEvent::Refuted(receipt) => reports.refuted.push(receipt),
                WorkerEvent::Searched(slots) => searched.extend(slots),
                WorkerEvent::LookedUp { number, found } => looked_up.push((number, found)),
                WorkerEvent::Answered(outcome) => reports.answers.push(outcome),
                WorkerEvent::Decided(decided) => decisions.push(decided),
                WorkerEvent::LeaseLost(_) => {}
            }
        }
        let session = &mut self.session;
        if !searched.is_empty() || !looked_up.is_empty() {
            // I8: used slots are judged by all receipts that are known by now.
            let receipts = std::mem::take(&mut reports.receipts);
            evidence::record_receipts(session, receipts, view).await?;
            self.upkeep.note_searched(session, searched, view).await?;
            for (number, found) in looked_up {
                self.upkeep.note_looked_up(session, number, found, view).await?;
            }
        }
        let is_known = self.judged_view.as_ref().is_some_and(|judged| Arc::ptr_eq(judged, view));
        let judges_all = !is_known || session.agenda.is_tick_due();
        evidence::record(session, reports, view, judges_all).await?;
        self.judged_view = Some(view.clone());
        for decided in decisions {
            self.commands.note_decision(session, *decided).await?;
        }
        Ok(())
    }

    /// Raises an alert for work that is followed without a key.
    fn alert_if_unserved(&mut self) {
        let session = &mut self.session;
        if session.serves() || session.state.is_idle() {
            return;
        }
        let (slots, queued) = (session.state.in_flight().len(), session.state.queue().len());
        let detail = format!(
            "no live node serves the account: {slots} signed transactions are tracked and sent again, \
             {queued} wait without a nonce; start a node that serves it, or cancel what waits"
        );
        session.alert(AlertKind::Unserved, AlertSubject::default(), &detail);
    }

    /// Repeats the alert while the submitter is in PROTECT: an owner that takes over has raised none.
    fn alert_if_protected(&mut self) {
        if self.session.state.status() == SubmitterStatus::Protect {
            let why = self.session.state.status_reason().to_owned();
            self.session.alert(AlertKind::Protect, AlertSubject::default(), &why);
        }
    }

    fn is_idle(&mut self) -> bool {
        if !self.session.state.is_idle() {
            self.busy_at = Instant::now();
        }
        self.busy_at.elapsed() > self.session.context.options.lease_idle
    }

    fn lets_go(&mut self, inbox: &Inbox) -> bool {
        let is_quiet =
            inbox.is_empty() && self.session.is_sender_idle() && !self.commands.is_policy_asked();
        self.transfer.is_due(&self.session, is_quiet)
    }
}
