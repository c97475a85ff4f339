//! Checks the promises from outside: by the chain's blocks, the feed, the answers to callers, and the
//! bytes that left nodes. Tollgate's own state is read only where the promise is about it (cursor and
//! token never go back, an accepted request is stored, bytes are durable first).

mod end;
mod feed;
mod progress;
mod wire;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tollgate_engine::Engine;
use tollgate_model::port::{Completion, TxStore};
use tollgate_model::{
    Address, FencingToken, Intent, NodeId, Nonce, Seq, Submitter, Timestamp, TxHash, TxId, U256,
};

use crate::world::World;

/// The reason why an intent may be refused, and others wait for it.
pub(crate) const NO_NODE_TAKES_IT: &str = "an intent that no node takes";

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Its number, or `sim` if the simulation itself failed.
    pub promise: &'static str,
    /// A description of the violation.
    pub what: String,
}

/// The checker of one run.
#[derive(Default)]
pub(crate) struct Checker {
    seen: Mutex<Seen>,
    failed: Notify,
}

/// All observations so far.
#[derive(Default)]
struct Seen {
    violation: Option<Violation>,
    grants: BTreeMap<Submitter, Grant>,
    cursors: BTreeMap<Submitter, Nonce>,
    /// The one thing that a reader of the feed remembers.
    last_seq: Option<Seq>,
    /// The last number of the log of events, and the transactions whose end was among them.
    last_event: Option<Seq>,
    ended: BTreeSet<TxId>,
    done: BTreeMap<TxId, Completion>,
    /// Everything that left a node.
    sent: BTreeMap<TxHash, Sent>,
    /// The transactions whose bytes any pool has ever taken in a slot.
    taken: BTreeMap<(Address, u64), BTreeSet<TxId>>,
    /// Sends that were not tries of an unclear one.
    sends: BTreeMap<TxId, u64>,
    /// The number of sends of these bytes, by node, without a clear answer and not tried again yet.
    unclear: BTreeMap<(String, TxHash), u64>,
    outsiders: BTreeSet<TxHash>,
    requests: BTreeMap<(Submitter, String), AnsweredRequest>,
    /// The members of the pool that requests were assigned to.
    assigned: BTreeMap<String, Submitter>,
    resumed: BTreeSet<Submitter>,
    /// Submitters that something outside of Tollgate holds up, and what that is.
    excused: BTreeMap<Submitter, &'static str>,
    /// Intents, by value, that others of their submitter may wait for, and why.
    spoilers: BTreeMap<(Submitter, u64), &'static str>,
    /// The `notBefore` of intents, by value.
    scheduled: BTreeMap<(Address, u64), Timestamp>,
    /// Each submitter with the reason why it did not have to make progress by itself, if any.
    progress: BTreeMap<Submitter, Option<&'static str>>,
    /// Actions of operators that were carried out.
    actions: u64,
    /// Nonces that callers reserved.
    reserved: u64,
    /// Nonces that callers were told are theirs.
    used: BTreeMap<(Address, u64), TxHash>,
    /// Slots that anything of ours was ever sent in.
    slots: BTreeSet<(Address, u64)>,
    /// The chain went back beyond finality: what was final need not be.
    finality_broken: bool,
}

/// The newest grant of a lease.
struct Grant {
    token: FencingToken,
    node: NodeId,
    released: bool,
}

/// Bytes that left a node.
#[derive(Clone, Copy)]
struct Sent {
    tx_id: TxId,
    from: Address,
    nonce: u64,
    closes: bool,
    /// A pool took it.
    taken: bool,
}

/// The answer to a request.
#[derive(Clone, Copy)]
struct AnsweredRequest {
    tx_id: TxId,
    value: u64,
}

impl Checker {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the first violation; the run ends with it.
    pub(crate) fn fail(&self, world: &World, promise: &'static str, what: String) {
        world.note(format_args!("BROKEN {promise}: {what}"));
        self.lock().violation.get_or_insert(Violation { promise, what });
        self.failed.notify_one();
    }

    /// Waits for a violation.
    pub(crate) async fn failed(&self) {
        while self.violation().is_none() {
            self.failed.notified().await;
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.lock().violation.clone()
    }

    /// An intent that must not be sent before this time.
    pub(crate) fn note_scheduled(&self, submitter: Submitter, value: u64, start: Timestamp) {
        self.lock().scheduled.insert((submitter.address, value), start);
    }

    /// A transaction that an outsider sends.
    pub(crate) fn note_outsider(&self, hash: TxHash) {
        self.lock().outsiders.insert(hash);
    }

    pub(crate) fn note_resume(&self, submitter: Submitter) {
        self.lock().resumed.insert(submitter);
    }

    pub(crate) fn note_action(&self) {
        self.lock().actions += 1;
    }

    pub(crate) fn note_reservation(&self) {
        self.lock().reserved += 1;
    }

    pub(crate) fn note_broken_finality(&self) {
        self.lock().finality_broken = true;
    }

    /// An actor that dies, dies of a defect.
    pub(crate) fn note_deaths(&self, engine: &Engine) {
        let deaths = engine.deaths();
        if deaths > 0 {
            let what = format!("{deaths} actors died of a defect");
            self.lock().violation.get_or_insert(Violation { promise: "defect", what });
            self.failed.notify_one();
        }
    }
}

/// Answers to callers: one request is one transaction, and it is stored (I6, I7).
impl World {
    /// A caller was told that its request, which pays `value`, is this transaction.
    pub(crate) async fn create_answered(
        &self,
        submitter: Submitter,
        request: &str,
        value: u64,
        tx_id: TxId,
    ) {
        self.note(format_args!("told {request} {value} is {tx_id}"));
        let Ok(Some(record)) = self.store.tx(tx_id).await else {
            let what = format!("{request} was accepted as {tx_id}, which is not stored");
            return self.checker.fail(self, "I6", what);
        };
        if record.submitter != submitter {
            let what = format!("{request} was told a transaction of {}", record.submitter);
            return self.checker.fail(self, "I7", what);
        }
        let stored = Intent::from_payload(&record.payload).map(|intent| intent.value);
        if stored != Ok(U256::from(value)) {
            let what =
                format!("{request} with {value} was told the transaction of another payload");
            return self.checker.fail(self, "I7", what);
        }
        let key = (submitter, request.to_owned());
        let known = {
            let mut seen = self.checker.lock();
            *seen.requests.entry(key).or_insert(AnsweredRequest { tx_id, value })
        };
        if known.tx_id != tx_id {
            let what = format!("{request} is {} and {tx_id}", known.tx_id);
            self.checker.fail(self, "I7", what);
        }
    }

    /// A request for the pool was assigned to a member.
    pub(crate) fn note_assigned(&self, request: &str, member: Submitter) {
        self.note(format_args!("{request} is assigned to {member}"));
        let known = *self.checker.lock().assigned.entry(request.to_owned()).or_insert(member);
        if known != member {
            let what = format!("{request} for the pool is assigned to {known} and to {member}");
            self.checker.fail(self, "I7", what);
        }
    }

    /// A caller of this very payment was told its transaction.
    pub(crate) fn was_answered(&self, submitter: Submitter, request: &str, value: u64) -> bool {
        let key = (submitter, request.to_owned());
        self.checker.lock().requests.get(&key).is_some_and(|known| known.value == value)
    }

    /// The transaction has an outcome, as far as the feed was read.
    pub(crate) fn has_ended(&self, tx_id: TxId) -> bool {
        self.checker.lock().done.contains_key(&tx_id)
    }

    /// I7: a request that was accepted is answered with its transaction, whatever the chain and the
    /// clock say now.
    pub(crate) fn refused_after_acceptance(&self, submitter: Submitter, request: &str, why: &str) {
        let what = format!("{request} of {submitter} was accepted, and is refused now: {why}");
        self.checker.fail(self, "I7", what);
    }

    /// A caller was told that its request belongs to another payload.
    pub(crate) fn answered_conflict(&self, submitter: Submitter, request: &str, value: u64) {
        let key = (submitter, request.to_owned());
        let known = self.checker.lock().requests.get(&key).copied();
        if let Some(known) = known.filter(|known| known.value == value) {
            let what = format!("{request} was {} and is now in conflict", known.tx_id);
            self.checker.fail(self, "I7", what);
        }
    }
}
