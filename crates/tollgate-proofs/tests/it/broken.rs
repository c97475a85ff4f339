//! Each broken variant violates the expected promise, and each promise is violated by some variant: so
//! the searches of the protocol as built would have detected a violation.

use stateright::{Checker, HasDiscoveries, Model};
use tollgate_proofs::{Action, Bounds, LeaseModel, Protocol, promise};

const BOUNDS: Bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 0, mining: false };

const fn with_second_line(protocol: Protocol) -> LeaseModel {
    LeaseModel { protocol, second_line: true, bounds: BOUNDS }
}

const fn fence_alone(protocol: Protocol) -> LeaseModel {
    LeaseModel { protocol, second_line: false, bounds: BOUNDS }
}

/// A violation of the promise in fewer than `fewer_than` steps.
fn counterexample(
    model: LeaseModel,
    promise: &'static str,
    fewer_than: usize,
) -> Option<Vec<Action>> {
    // One thread: only then is each world first met on a shortest way to it.
    let search = model
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyOf([promise].into()))
        .target_max_depth(fewer_than + 1)
        .spawn_bfs()
        .join();
    search.discovery(promise).map(|path| path.into_actions())
}

/// Finds a shortest violation of the promise, prints it and returns its length.
///
/// The checker keeps the last counterexample of the block it was in, not the first, so it is asked
/// for a shorter one until there is none.
fn shortest_violation(model: LeaseModel, promise: &'static str) -> usize {
    let mut shortest = counterexample(model, promise, 30)
        .unwrap_or_else(|| panic!("{model:?} should break: {promise}"));
    while let Some(shorter) = counterexample(model, promise, shortest.len()) {
        shortest = shorter;
    }
    println!("{model:?}\nbreaks in {} steps: {promise}", shortest.len());
    for action in &shortest {
        println!("  {action:?}");
    }
    shortest.len()
}

#[test]
fn guard_without_lock_lets_a_stale_write_commit() {
    let model = with_second_line(Protocol::ExistsGuard);
    shortest_violation(model, promise::NO_LATE_WRITE);
    shortest_violation(model, promise::ONE_WRITER);
}

#[test]
fn guard_without_lock_puts_two_txs_in_a_slot() {
    let model = fence_alone(Protocol::ExistsGuard);
    shortest_violation(model, promise::ONE_SLOT_ONE_TX);
    shortest_violation(model, promise::ONE_TX_ONE_SLOT);
    shortest_violation(model, promise::CURSOR_NEVER_BACK);
}

#[test]
fn guard_without_token_lets_a_stale_write_commit() {
    shortest_violation(with_second_line(Protocol::NoTokenCheck), promise::NO_LATE_WRITE);
}

#[test]
fn restarted_node_without_boot_id_reuses_a_slot() {
    shortest_violation(fence_alone(Protocol::NoBootId), promise::ONE_SLOT_ONE_TX);
    shortest_violation(with_second_line(Protocol::NoBootId), promise::OWNER_KNOWS_ALL);
}

#[test]
fn state_read_before_the_takeover_lock_puts_two_txs_in_a_slot() {
    shortest_violation(fence_alone(Protocol::LoadBeforeTakeover), promise::ONE_SLOT_ONE_TX);
}

/// The unique keys protect the slot, but no node tracks the tx of the former owner.
#[test]
fn state_read_before_the_takeover_lock_loses_track_of_a_tx() {
    let model = with_second_line(Protocol::LoadBeforeTakeover);
    shortest_violation(model, promise::OWNER_KNOWS_ALL);
}

#[test]
fn takeover_without_lock_issues_a_token_twice() {
    let model = with_second_line(Protocol::UnlockedTakeover);
    shortest_violation(model, promise::TOKEN_ISSUED_ONCE);
    shortest_violation(model, promise::TOKEN_NEVER_BACK);
}

#[test]
fn sending_before_the_commit_sends_an_unstored_attempt() {
    let model = with_second_line(Protocol::SendFirst);
    shortest_violation(model, promise::DURABLE_BEFORE_WIRE);
    shortest_violation(model, promise::ONE_SLOT_ONE_TX);
}

#[test]
fn trusting_every_commit_loses_an_accepted_tx() {
    let model = with_second_line(Protocol::TrustCommit);
    shortest_violation(model, promise::ACCEPTED_IS_KEPT);
    shortest_violation(model, promise::DURABLE_BEFORE_WIRE);
}

/// The fence tells owners apart, not two transactions of one owner. After a lost answer the node
/// reads again, under its own valid lease, while the first transaction may still commit: what keeps
/// the slot single then is the comparison of the cursor.
#[test]
fn fence_alone_after_a_lost_answer_does_not_protect_the_slot() {
    let bounds = Bounds { crashes: 0, lost_answers: 1, ..BOUNDS };
    let model = LeaseModel { bounds, ..fence_alone(Protocol::AsBuilt) };
    shortest_violation(model, promise::ONE_SLOT_ONE_TX);
}

/// The slot is safe, but the owner may not know of its own tx: a read right after a lost answer is not
/// conclusive.
#[test]
fn owner_after_a_lost_answer_may_not_know_its_stored_tx() {
    let bounds = Bounds { crashes: 0, lost_answers: 1, ..BOUNDS };
    let model = LeaseModel { bounds, ..with_second_line(Protocol::AsBuilt) };
    shortest_violation(model, promise::OWNER_KNOWS_ALL);
}
