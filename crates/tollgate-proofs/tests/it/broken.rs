//! Each broken variant breaks the promise it is expected to, and each promise is broken by one:
//! so the searches of the protocol as built would have noticed.

use stateright::{Checker, HasDiscoveries, Model};
use tollgate_proofs::{Action, Bounds, LeaseModel, Protocol, promise};

const BOUNDS: Bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 0, mining: false };

const fn with_second_line(protocol: Protocol) -> LeaseModel {
    LeaseModel { protocol, second_line: true, bounds: BOUNDS }
}

const fn fence_alone(protocol: Protocol) -> LeaseModel {
    LeaseModel { protocol, second_line: false, bounds: BOUNDS }
}

/// A way to break the promise in fewer than `fewer_than` steps.
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

/// Finds a shortest way to break the promise, prints it and gives its length.
///
/// The checker keeps the last counterexample of the block it was in, not the first, so it is asked
/// for a shorter one until there is none.
fn shortest_way_to_break(model: LeaseModel, promise: &'static str) -> usize {
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
fn a_guard_that_holds_nothing_lets_a_stale_write_land() {
    let model = with_second_line(Protocol::ExistsGuard);
    shortest_way_to_break(model, promise::NO_LATE_WRITE);
    shortest_way_to_break(model, promise::ONE_WRITER);
}

#[test]
fn a_guard_that_holds_nothing_puts_two_txs_in_a_slot() {
    let model = fence_alone(Protocol::ExistsGuard);
    shortest_way_to_break(model, promise::ONE_SLOT_ONE_TX);
    shortest_way_to_break(model, promise::ONE_TX_ONE_SLOT);
    shortest_way_to_break(model, promise::CURSOR_NEVER_BACK);
}

#[test]
fn a_guard_that_asks_for_the_owner_but_not_the_token_lets_a_stale_write_land() {
    shortest_way_to_break(with_second_line(Protocol::NoTokenCheck), promise::NO_LATE_WRITE);
}

#[test]
fn a_restarted_node_under_its_old_name_shares_a_slot_with_its_former_life() {
    shortest_way_to_break(fence_alone(Protocol::NoBootId), promise::ONE_SLOT_ONE_TX);
    shortest_way_to_break(with_second_line(Protocol::NoBootId), promise::OWNER_KNOWS_ALL);
}

#[test]
fn state_read_before_the_takeover_has_the_lock_puts_two_txs_in_a_slot() {
    shortest_way_to_break(fence_alone(Protocol::LoadBeforeTakeover), promise::ONE_SLOT_ONE_TX);
}

/// Here the unique keys save the slot, but not the tx of the former owner: nobody looks after it.
#[test]
fn state_read_before_the_takeover_has_the_lock_leaves_a_tx_to_nobody() {
    let model = with_second_line(Protocol::LoadBeforeTakeover);
    shortest_way_to_break(model, promise::OWNER_KNOWS_ALL);
}

#[test]
fn a_takeover_without_a_lock_issues_a_token_twice() {
    let model = with_second_line(Protocol::UnlockedTakeover);
    shortest_way_to_break(model, promise::TOKEN_ISSUED_ONCE);
    shortest_way_to_break(model, promise::TOKEN_NEVER_BACK);
}

#[test]
fn sending_before_the_commit_puts_an_unknown_transaction_on_the_wire() {
    let model = with_second_line(Protocol::SendFirst);
    shortest_way_to_break(model, promise::DURABLE_BEFORE_WIRE);
    shortest_way_to_break(model, promise::ONE_SLOT_ONE_TX);
}

#[test]
fn trusting_every_commit_forgets_an_accepted_tx() {
    let model = with_second_line(Protocol::TrustCommit);
    shortest_way_to_break(model, promise::ACCEPTED_IS_KEPT);
    shortest_way_to_break(model, promise::DURABLE_BEFORE_WIRE);
}

/// The fence tells owners apart, not two transactions of one owner. After a lost answer the node
/// reads again, under its own valid lease, while the first transaction may still commit: what keeps
/// the slot single then is the comparison of the cursor.
#[test]
fn after_a_lost_answer_the_fence_alone_does_not_keep_the_slot() {
    let bounds = Bounds { crashes: 0, lost_answers: 1, ..BOUNDS };
    let model = LeaseModel { bounds, ..fence_alone(Protocol::AsBuilt) };
    shortest_way_to_break(model, promise::ONE_SLOT_ONE_TX);
}

/// The slot is safe then, but the owner may not know of its own tx: a node must not take what it
/// read right after a lost answer for the last word.
#[test]
fn after_a_lost_answer_an_owner_may_not_know_what_it_has_stored() {
    let bounds = Bounds { crashes: 0, lost_answers: 1, ..BOUNDS };
    let model = LeaseModel { bounds, ..with_second_line(Protocol::AsBuilt) };
    shortest_way_to_break(model, promise::OWNER_KNOWS_ALL);
}
