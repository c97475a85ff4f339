//! The search counts states that differ only in the nodes' names once. This test lists all states of a
//! small search with their names and shows that none is lost.

use stateright::{Checker, Model};
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use tollgate_proofs::{Bounds, LeaseModel, Protocol, World};

/// Every reachable state, compared with the nodes' names.
fn worlds_with_names(model: &LeaseModel) -> HashSet<World> {
    let mut seen: HashSet<World> = model.init_states().into_iter().collect();
    let mut open: Vec<World> = seen.iter().copied().collect();
    while let Some(world) = open.pop() {
        open.extend(model.next_states(&world).into_iter().filter(|next| seen.insert(*next)));
    }
    seen
}

#[test]
fn ignoring_node_names_loses_no_state() {
    let bounds = Bounds { tokens: 2, txs: 1, crashes: 1, lost_answers: 1, mining: true };
    let model = LeaseModel { protocol: Protocol::AsBuilt, second_line: true, bounds };

    let named = worlds_with_names(&model);
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let unnamed: HashSet<u64> = named.iter().map(|world| hasher.hash_one(world)).collect();
    let visited = model.checker().threads(2).spawn_bfs().join().unique_state_count();

    println!("{} worlds with names, {visited} without", named.len());
    assert_eq!(visited, unnamed.len());
    assert!(named.len() > 4 * visited, "the names should make most of the difference");
}
