//! Properties of every state, and properties of at least one state.

use crate::protocol::LeaseModel;
use crate::world::{Attempt, AttemptSet, Session, Step, World};
use stateright::Property;

/// The promises: names of the properties that hold in every state, by their numbers.
pub mod promise {
    /// Two owners never both stand behind a guard.
    pub const ONE_WRITER: &str = "I1: at most one owner has a transaction that can commit";
    /// Holds however long the former owner paused.
    pub const NO_LATE_WRITE: &str = "I2: nothing commits under a token older than the lease's";
    /// Covers stored and sent attempts.
    pub const ONE_SLOT_ONE_TX: &str = "I3: a slot is stored and sent for one tx only";
    /// The converse: an intent is executed once.
    pub const ONE_TX_ONE_SLOT: &str = "I3: a tx is stored and sent in one slot only";
    /// Otherwise a slot would be assigned twice.
    pub const CURSOR_NEVER_BACK: &str = "I4: the cursor never decreases";
    /// Otherwise a former owner would be owner again.
    pub const TOKEN_NEVER_BACK: &str = "I4: the fencing token never decreases";
    /// Otherwise two owners could pass one guard.
    pub const TOKEN_ISSUED_ONCE: &str = "I4: no fencing token is issued twice";
    /// The same bytes, not only the same tx: else a mined attempt would not be recognised.
    pub const DURABLE_BEFORE_WIRE: &str = "I5: every attempt ever sent is stored";
    /// Nothing that was confirmed to a caller is lost.
    pub const ACCEPTED_IS_KEPT: &str = "I6: every tx with a 2xx answer is stored";
    /// Otherwise it would neither send nor follow the tx. Holds only while every answer arrives: an
    /// owner learns of a commit with a lost answer when its next write collides with it, or when it
    /// reads again. So it is not among [`PROMISES`](super::PROMISES).
    pub const OWNER_KNOWS_ALL: &str = "I6: the owner knows every stored tx";
}

/// The sightings: names of the properties that hold in at least one state. Without them the promises
/// could hold because nothing happens.
pub mod sighting {
    /// The situation that the fence exists for.
    pub const TAKEN_FROM_A_WRITER: &str = "the lease is taken while its former owner is writing";
    /// The fence at work.
    pub const FENCED: &str = "a node is fenced";
    /// The lock at work.
    pub const TAKEOVER_WAITS: &str = "a takeover has to wait for a writer";
    /// A new owner resends attempts with unknown outcome.
    pub const SENT_AGAIN: &str = "a new owner sends again what is already on the wire";
    /// A crash or a lost connection between commit and answer.
    pub const UNREPORTED_COMMIT: &str = "a tx is stored and its caller has no answer";
    /// All work is completed, under more than one owner.
    pub const ALL_STORED: &str = "every tx is stored, under more than one token";
    /// Seen only if the chain mines.
    pub const ALL_MINED: &str = "every tx is mined";
}

/// The promises that always hold.
pub const PROMISES: [&str; 9] = [
    promise::ONE_WRITER,
    promise::NO_LATE_WRITE,
    promise::ONE_SLOT_ONE_TX,
    promise::ONE_TX_ONE_SLOT,
    promise::CURSOR_NEVER_BACK,
    promise::TOKEN_NEVER_BACK,
    promise::TOKEN_ISSUED_ONCE,
    promise::DURABLE_BEFORE_WIRE,
    promise::ACCEPTED_IS_KEPT,
];

/// All sightings but [`sighting::ALL_MINED`], which needs a chain that mines.
pub const SIGHTINGS: [&str; 6] = [
    sighting::TAKEN_FROM_A_WRITER,
    sighting::FENCED,
    sighting::TAKEOVER_WAITS,
    sighting::SENT_AGAIN,
    sighting::UNREPORTED_COMMIT,
    sighting::ALL_STORED,
];

/// The properties that the checker evaluates in every state.
pub(crate) fn all() -> Vec<Property<LeaseModel>> {
    type P = Property<LeaseModel>;
    vec![
        // I1: one writer.
        P::always(promise::ONE_WRITER, |_, world| one_writer(world)),
        // I2: no late write.
        P::always(promise::NO_LATE_WRITE, |_, world| !world.history.late_write),
        // I3: one slot, one tx.
        P::always(promise::ONE_SLOT_ONE_TX, |_, world| {
            agree(world.rows.union(world.wire), |a, b| a.nonce != b.nonce || a.tx == b.tx)
        }),
        P::always(promise::ONE_TX_ONE_SLOT, |_, world| {
            agree(world.rows.union(world.wire), |a, b| a.tx != b.tx || a.nonce == b.nonce)
        }),
        // I4: never back.
        P::always(promise::CURSOR_NEVER_BACK, |_, world| !world.history.cursor_back),
        P::always(promise::TOKEN_NEVER_BACK, |_, world| !world.history.token_back),
        P::always(promise::TOKEN_ISSUED_ONCE, |_, world| !world.history.token_reissued),
        // I5: durable before the wire.
        P::always(promise::DURABLE_BEFORE_WIRE, |_, world| world.wire.is_subset_of(world.rows)),
        // I6: accepted is kept.
        P::always(promise::ACCEPTED_IS_KEPT, |_, world| {
            world.answered.is_subset_of(world.rows.txs())
        }),
        P::always(promise::OWNER_KNOWS_ALL, |_, world| owner_knows_all(world)),
        P::sometimes(sighting::TAKEN_FROM_A_WRITER, |_, world| taken_from_a_writer(world)),
        P::sometimes(sighting::FENCED, |_, world| {
            world.nodes.iter().any(|node| node.step == Step::Fenced)
        }),
        P::sometimes(sighting::TAKEOVER_WAITS, takeover_waits),
        P::sometimes(sighting::SENT_AGAIN, |_, world| sent_again(world)),
        P::sometimes(sighting::UNREPORTED_COMMIT, |_, world| {
            !world.rows.txs().is_subset_of(world.answered)
        }),
        P::sometimes(sighting::ALL_STORED, all_stored),
        P::sometimes(sighting::ALL_MINED, |model, world| {
            world.mined.txs().count() == u32::from(model.bounds.txs)
        }),
    ]
}

fn one_writer(world: &World) -> bool {
    let mut owners = world.writers_past_the_guard().map(|(owner, _)| owner);
    let first = owners.next();
    owners.all(|owner| Some(owner) == first)
}

fn agree(attempts: AttemptSet, fit: fn(Attempt, Attempt) -> bool) -> bool {
    attempts.iter().all(|a| attempts.iter().all(|b| fit(a, b)))
}

fn owner_knows_all(world: &World) -> bool {
    let Some(owner) = world.lease.owner else { return true };
    let node = world.nodes[owner.node];
    let at_work = matches!(node.step, Step::Ready | Step::Writing);
    !at_work || node.token != world.lease.token || world.rows.txs().is_subset_of(node.known)
}

fn taken_from_a_writer(world: &World) -> bool {
    world.nodes.iter().zip(world.sessions).any(|(node, session)| {
        let writing = matches!(session, Session::Writer { .. });
        writing && node.token < world.lease.token && world.lease.owner.is_some()
    })
}

fn takeover_waits(model: &LeaseModel, world: &World) -> bool {
    world.lease.expired
        && !model.lease_is_free_to_take(world)
        && !world.lease_is_being_taken()
        && world.nodes.iter().any(|node| node.is_contender())
}

/// True in the state before the second send: the send itself does not change the wire.
fn sent_again(world: &World) -> bool {
    world.nodes.iter().any(|node| {
        node.to_send.lowest().is_some_and(|attempt| {
            world.wire.contains(attempt) && attempt.signed_under < node.token
        })
    })
}

fn all_stored(model: &LeaseModel, world: &World) -> bool {
    let first = world.rows.lowest().map(|attempt| attempt.signed_under);
    world.rows.txs().count() == u32::from(model.bounds.txs)
        && world.rows.iter().any(|attempt| Some(attempt.signed_under) != first)
}
