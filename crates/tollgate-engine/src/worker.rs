//! One submitter's work, in one serial task: everything that happens to it happens in order.
//!
//! Owns the submitter's open work in memory while this node holds the lease. Waits, then acts to
//! completion, then waits again. Whatever goes wrong in a way it does not understand makes it forget
//! everything and start again from the store; a lost lease makes it stop.

mod act;
mod admit;
mod alarm;
mod allot;
mod answers;
mod ask;
mod book;
mod fill;
mod finality;
mod follow;
mod govern;
mod hand_over;
mod holes;
mod look;
mod obey;
mod open;
mod pool;
mod price;
mod queue;
mod reconcile;
mod recover;
mod refusals;
mod refused;
mod rejected;
mod reserve;
mod screen;
mod search;
mod settle;
mod sign;
mod waits;
mod write;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{
    Acquisition, AlertKind, Checkpoint, CursorMove, Lease, NewAttempt, Owner, Payload,
};
use tollgate_model::refusal::OpenCosts;
use tollgate_model::{NodeId, Nonce, RequestId, Submitter, Text, Timestamp, TxId};
use tracing::{info, warn};

use crate::act::{ActError, Acted, Action, Fill, Filled, ModeChanged, Reconciled, Standstill};
use crate::context::Context;
use crate::create::{CreateError, Created};
use crate::notes::{Note, Notes};
use crate::reserve::ReservationOrder;
use crate::sender::Sender;
use alarm::{About, Alarm};
use ask::Asking;
use book::Book;
use govern::Agenda;
use look::Looking;
use refusals::Refusals;
use screen::FundsLedger;
use search::Searching;
use settle::Unsettled;

/// How often a worker looks for what slipped by.
const TICK: Duration = Duration::from_millis(500);
/// The pause before a worker that failed starts again.
const RESTART_PAUSE: Duration = Duration::from_millis(300);

/// A prepared intent on its way into the store.
pub(crate) struct Create {
    pub(crate) tx_id: TxId,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) payload: Payload,
    pub(crate) valid_until: Option<Timestamp>,
    /// The caller's own signed form, with the nonce that it is signed for.
    pub(crate) signed: Option<(Nonce, NewAttempt)>,
    pub(crate) reply: oneshot::Sender<Result<Created, CreateError>>,
}

/// Where the answer to an order goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, ActError>>;

/// What a person wants done.
pub(crate) enum Order {
    Act {
        tx_id: TxId,
        action: Action,
        reason: Text<500>,
        reply: Reply<Acted>,
    },
    Pause {
        reason: Text<500>,
        reply: Reply<Standstill>,
    },
    Resume {
        reason: Text<500>,
        reply: Reply<Standstill>,
    },
    ChangeMode {
        to: Mode,
        reason: Text<500>,
        reply: Reply<ModeChanged>,
    },
    Reconcile {
        reply: Reply<Reconciled>,
    },
    Fill {
        fill: Fill,
        reason: Text<500>,
        reply: Reply<Filled>,
    },
    Advance {
        to: Nonce,
        reason: Text<500>,
        reply: Reply<CursorMove>,
    },
    Reservation(ReservationOrder),
    /// What the submitter's open transactions may cost; `None` if they can't be priced now.
    OpenCosts {
        reply: Reply<Option<OpenCosts>>,
    },
}

impl Order {
    fn refuse(self, why: ActError) {
        // Who asked may have gone meanwhile.
        match self {
            Self::Act { reply, .. } => drop(reply.send(Err(why))),
            Self::Pause { reply, .. } | Self::Resume { reply, .. } => drop(reply.send(Err(why))),
            Self::ChangeMode { reply, .. } => drop(reply.send(Err(why))),
            Self::Reconcile { reply } => drop(reply.send(Err(why))),
            Self::Fill { reply, .. } => drop(reply.send(Err(why))),
            Self::Advance { reply, .. } => drop(reply.send(Err(why))),
            Self::Reservation(order) => drop(order.reply.send(Err(why))),
            Self::OpenCosts { reply } => drop(reply.send(Err(why))),
        }
    }
}

/// What callers and people ask of a worker.
pub(crate) struct Inbox {
    pub(crate) creates: mpsc::Receiver<Create>,
    pub(crate) orders: mpsc::Receiver<Order>,
}

/// Why a worker stops working from what it knows.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The lease is gone (I2).
    Fenced,
    /// Another node has the lease.
    NotOwner(Owner),
    /// What it knows may be wrong: read everything again.
    Restart(String),
    /// There is nothing to do, or the node stops.
    Done,
}

impl Stop {
    /// What callers are told whose creates were not begun.
    fn answer(&self) -> CreateError {
        match self {
            Self::Fenced => CreateError::NotOwner(None),
            Self::NotOwner(owner) => CreateError::NotOwner(Some(owner.clone())),
            Self::Restart(why) => CreateError::Unavailable(why.clone()),
            Self::Done => CreateError::Unavailable("the node stops".to_owned()),
        }
    }
}

/// What a worker knows over its restarts, because the store does not have it.
struct Memory {
    /// The same thing is not told again after each restart.
    alarm: Alarm,
    refusals: Refusals,
}

/// A submitter's worker and what it is given. A clone goes on where one that died was.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) context: Arc<Context>,
    pub(crate) submitter: Submitter,
    pub(crate) inbox: Arc<Mutex<Inbox>>,
    pub(crate) notes: Notes,
}

impl Worker {
    /// Works until the lease is lost or there is nothing left to do.
    pub(crate) async fn run(self) {
        let submitter = self.submitter;
        let mut inbox = self.inbox.lock().await;
        let (mut unsettled, mut has_owned) = (None, false);
        let alarm = Alarm::new(self.context.alerts.clone(), submitter);
        let mut memory = Memory { alarm, refusals: Refusals::default() };
        loop {
            let (stop, began) = match self.own(&mut unsettled).await {
                Ok(owned) => {
                    has_owned = true;
                    let mut desk = Desk::new(&self, owned, memory);
                    let stop = desk.work(&mut inbox).await;
                    unsettled = desk.unsettled.take();
                    let began = desk.has_begun;
                    memory = desk.leave(&stop).await;
                    (stop, began)
                }
                Err(stop) => (stop, false),
            };
            match stop {
                Stop::Restart(why) => {
                    warn!(%submitter, why, "worker starts again from the store");
                    if !began {
                        put_off(&mut inbox, &why);
                    }
                    tokio::time::sleep(RESTART_PAUSE).await;
                }
                Stop::Fenced => {
                    warn_fenced(submitter);
                    return turn_away(&mut inbox, None);
                }
                Stop::NotOwner(owner) => {
                    // The lease was lost while the store could not be asked, for instance because
                    // this process slept and its database sessions were ended meanwhile.
                    if has_owned {
                        warn_fenced(submitter);
                    }
                    return turn_away(&mut inbox, Some(owner));
                }
                Stop::Done => return turn_away(&mut inbox, None),
            }
        }
    }

    /// Takes the lease, once everything that was written under an earlier one is settled.
    async fn own(&self, unsettled: &mut Option<Unsettled>) -> Result<(Lease, Book), Stop> {
        let Context { store, node, options, .. } = self.context.as_ref();
        if let Some(open) = unsettled {
            let settled = open.settle(&self.context).await;
            settled.map_err(|error| Stop::Restart(error.to_string()))?;
        }
        *unsettled = None;
        match store.acquire(self.submitter, node, &options.lease).await {
            Ok(Acquisition::Granted { lease, kind, submitter }) => {
                info!(submitter = %self.submitter, token = lease.token.get(), ?kind, "lease");
                Ok((lease, Book::new(&submitter)))
            }
            Ok(Acquisition::Held(owner)) => Err(Stop::NotOwner(owner)),
            Err(error) => Err(Stop::Restart(error.to_string())),
        }
    }
}

fn warn_fenced(submitter: Submitter) {
    warn!(%submitter, "fenced: all work for the submitter stops");
}

/// I13: nobody waits for a store that can't be asked.
fn put_off(inbox: &mut Inbox, why: &str) {
    while let Ok(create) = inbox.creates.try_recv() {
        let _ = create.reply.send(Err(CreateError::Unavailable(why.to_owned())));
    }
    while let Ok(order) = inbox.orders.try_recv() {
        order.refuse(ActError::Unavailable(why.to_owned()));
    }
}

/// Answers everybody who still waits: somebody else will do it, or nobody can now.
fn turn_away(inbox: &mut Inbox, owner: Option<Owner>) {
    inbox.creates.close();
    inbox.orders.close();
    while let Ok(create) = inbox.creates.try_recv() {
        let _ = create.reply.send(Err(CreateError::NotOwner(owner.clone())));
    }
    while let Ok(order) = inbox.orders.try_recv() {
        order.refuse(ActError::NotOwner(owner.clone()));
    }
}

/// A worker that owns its submitter.
pub(super) struct Desk {
    context: Arc<Context>,
    submitter: Submitter,
    lease: Lease,
    book: Book,
    sender: Sender,
    notes: Notes,
    busy_at: Instant,
    agenda: Agenda,
    asking: Asking,
    searching: Searching,
    looking: Looking,
    alarm: Alarm,
    refusals: Refusals,
    funds: FundsLedger,
    /// The node that should be the owner instead, and since when.
    outranked: Option<(NodeId, Instant)>,
    /// It knows what there is, and takes work.
    has_begun: bool,
    /// What must be settled before its worker begins again.
    unsettled: Option<Unsettled>,
    /// Operations in the next section of creates, while one that was refused is looked for.
    admit_max: Option<usize>,
}

impl Desk {
    fn new(worker: &Worker, (lease, book): (Lease, Book), memory: Memory) -> Self {
        let context = worker.context.clone();
        let notes = worker.notes.clone();
        let sender = Sender::start(&context, notes.clone());
        context.keeper.keep(lease, notes.clone());
        let submitter = worker.submitter;
        let now = context.clock.now();
        let (agenda, asking) = (Agenda::from(now), Asking::from(now));
        let Memory { alarm, refusals } = memory;
        let busy_at = Instant::now();
        let (outranked, has_begun, unsettled) = (None, false, None);
        Self {
            context,
            submitter,
            lease,
            book,
            sender,
            notes,
            busy_at,
            agenda,
            asking,
            searching: Searching::default(),
            looking: Looking::from(now),
            alarm,
            refusals,
            funds: FundsLedger::default(),
            outranked,
            has_begun,
            unsettled,
            admit_max: None,
        }
    }

    async fn work(&mut self, inbox: &mut Inbox) -> Stop {
        match self.work_on(inbox).await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    async fn work_on(&mut self, inbox: &mut Inbox) -> Result<std::convert::Infallible, Stop> {
        self.recover().await?;
        self.load_pool().await?;
        self.has_begun = true;
        let mut view = self.context.view.clone();
        let (mut creates, mut orders) = (Vec::new(), Vec::new());
        loop {
            let batch_max = self.context.options.batch_max;
            // The order harms nobody: after each wait everything that is there is taken care of. By
            // chance instead, one seed of a simulation would not be one run.
            tokio::select! {
                biased;
                count = inbox.creates.recv_many(&mut creates, batch_max) => {
                    if count == 0 {
                        return Err(Stop::Done);
                    }
                }
                Some(order) = inbox.orders.recv() => orders.push(order),
                () = self.notes.changed() => {}
                // Without a tracker there is nothing to follow: the engine is being stopped. To go on
                // would be a loop that never waits.
                is_shown = view.changed() => if !is_shown {
                    return Err(Stop::Done);
                },
                () = tokio::time::sleep(TICK) => {}
            }
            orders.extend(std::iter::from_fn(|| inbox.orders.try_recv().ok()));
            let notes = self.notes.take();
            if notes.contains(&Note::LeaseLost(self.lease)) {
                return Err(Stop::Fenced);
            }
            let stops = notes.contains(&Note::Stop);
            let seen = view.look();
            self.follow(notes, &seen).await?;
            self.tend_pool().await?;
            for order in orders.drain(..) {
                self.obey(order).await?;
            }
            if self.agenda.is_tick_due() {
                self.govern().await?;
                self.alert_if_unserved();
            }
            self.admit(std::mem::take(&mut creates)).await?;
            self.note_head();
            if stops || self.is_idle() || self.hands_over(inbox) {
                return Err(Stop::Done);
            }
        }
    }

    async fn reached(&self, at: Checkpoint) {
        self.context.checkpoints.reached(at).await;
    }

    fn has_key(&self) -> bool {
        self.context.signer.signs_for(self.submitter.address)
    }

    /// Whether this node serves the submitter. Else it follows open work that no live node serves:
    /// nothing new is taken and nothing is signed.
    fn serves(&self) -> bool {
        self.context.placement.serves(self.submitter)
    }

    /// Tells people of work that is followed without a key.
    fn alert_if_unserved(&mut self) {
        if self.serves() || self.book.is_idle() {
            return;
        }
        let (slots, queued) = (self.book.iter().count(), self.book.queued.len());
        let detail = format!(
            "no live node serves the account: {slots} signed transactions are tracked and sent again, \
             {queued} wait without a nonce; start a node that serves it, or cancel what waits"
        );
        let now = self.context.clock.now();
        self.alarm.raise(AlertKind::Unserved, About::default(), &detail, now);
    }

    fn is_idle(&mut self) -> bool {
        if !self.book.is_idle() {
            self.busy_at = Instant::now();
        }
        self.busy_at.elapsed() > self.context.options.lease_idle
    }

    /// Takes the open attempts off the index and, if the work is done, lets the lease go. One that
    /// starts again keeps it: the time until it can must not hand its work to others.
    async fn leave(self, stop: &Stop) -> Memory {
        self.context.attempts.remove(self.book.all_hashes());
        if !matches!(stop, Stop::Restart(_)) {
            self.context.keeper.forget(self.lease);
        }
        if matches!(stop, Stop::Done)
            && let Err(error) = self.context.keeper.release(self.lease).await
        {
            warn!(submitter = %self.submitter, %error, "lease not released: it runs out");
        }
        Memory { alarm: self.alarm, refusals: self.refusals }
    }
}
