//! Exhaustive searches of the protocol as built, each deep in another direction, because one that is
//! deep in all of them is too large for a test.

use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use tollgate_proofs::{Bounds, LeaseModel, PROMISES, Protocol, SIGHTINGS, promise, sighting};

const fn as_built(bounds: Bounds) -> LeaseModel {
    LeaseModel { protocol: Protocol::AsBuilt, second_line: true, bounds }
}

/// Visits every state, checks that no promise is broken and that all `sightings` were made, and returns
/// the number of states.
fn assert_keeps_every_promise(model: LeaseModel, sightings: &[&str]) -> usize {
    let every_answer_arrives = model.bounds.lost_answers == 0;
    let knowledge = every_answer_arrives.then_some(promise::OWNER_KNOWS_ALL);
    let promises: BTreeSet<_> = PROMISES.into_iter().chain(knowledge).collect();

    let until_one_breaks = HasDiscoveries::AnyOf(promises.clone());
    let search = model.checker().threads(2).finish_when(until_one_breaks).spawn_bfs().join();
    let found = search.discoveries();
    for promise in promises {
        if let Some(path) = found.get(promise) {
            panic!("{model:?} breaks: {promise}\n{path}");
        }
    }
    for sighting in sightings {
        assert!(found.contains_key(sighting), "{model:?} never shows: {sighting}");
    }
    let worlds = search.unique_state_count();
    println!("{model:?}: {worlds} worlds, reached by {} steps", search.state_count());
    worlds
}

#[test]
fn protocol_as_built_keeps_every_promise() {
    let bounds = Bounds { tokens: 4, txs: 2, crashes: 1, lost_answers: 0, mining: false };
    let worlds = assert_keeps_every_promise(as_built(bounds), &SIGHTINGS);
    assert!(worlds > 900_000, "only {worlds} worlds: a step has been lost");
}

#[test]
fn lost_commit_answer_breaks_no_promise() {
    let bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 1, mining: false };
    let worlds = assert_keeps_every_promise(as_built(bounds), &SIGHTINGS);
    assert!(worlds > 1_500_000, "only {worlds} worlds: a step has been lost");
}

#[test]
fn repeated_takeovers_break_no_promise() {
    let bounds = Bounds { tokens: 5, txs: 1, crashes: 1, lost_answers: 1, mining: false };
    let sightings = SIGHTINGS.into_iter().filter(|name| *name != sighting::ALL_STORED);
    let worlds = assert_keeps_every_promise(as_built(bounds), &sightings.collect::<Vec<_>>());
    assert!(worlds > 700_000, "only {worlds} worlds: a step has been lost");
}

#[test]
fn mining_breaks_no_promise() {
    let bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 0, mining: true };
    let mut sightings = SIGHTINGS.to_vec();
    sightings.push(sighting::ALL_MINED);
    let worlds = assert_keeps_every_promise(as_built(bounds), &sightings);
    assert!(worlds > 250_000, "only {worlds} worlds: a step has been lost");
}

/// While every commit is answered, the comparison of the cursor and the unique keys refuse nothing: the
/// fence alone leads to the same states. (A lost answer is different: see `broken.rs`.)
#[test]
fn fence_needs_no_second_line_while_every_answer_arrives() {
    let bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 0, mining: false };
    let both = as_built(bounds);
    let fence_alone = LeaseModel { second_line: false, ..both };
    assert_eq!(
        assert_keeps_every_promise(fence_alone, &SIGHTINGS),
        assert_keeps_every_promise(both, &SIGHTINGS),
    );
}
