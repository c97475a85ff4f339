//! The search counts worlds that differ only in the nodes' names once. That it loses none by it is
//! tried where the worlds are few enough to be listed with their names.

use stateright::{Checker, Model};
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use tollgate_proofs::{Bounds, LeaseModel, Protocol, World};

/// Every world that can be reached, told apart by all that is in it.
fn worlds_with_names(model: &LeaseModel) -> HashSet<World> {
    let mut seen: HashSet<World> = model.init_states().into_iter().collect();
    let mut open: Vec<World> = seen.iter().copied().collect();
    while let Some(world) = open.pop() {
        open.extend(model.next_states(&world).into_iter().filter(|next| seen.insert(*next)));
    }
    seen
}

#[test]
fn counting_worlds_without_the_nodes_names_loses_none() {
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
