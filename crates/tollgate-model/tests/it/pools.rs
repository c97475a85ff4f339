//! Properties of the pool of recyclable nonces.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::nonce;
use proptest::collection::btree_set;
use proptest::prelude::*;
use tollgate_model::nonce::{
    ChainCount, Mode, NonceRules, PoolView, SlotRange, SlotToFill, StrictAdvance, slots_to_fill,
    unblocks,
};
use tollgate_model::{Nonce, Timestamp};

fn set(of: impl IntoIterator<Item = u64>) -> BTreeSet<Nonce> {
    of.into_iter().map(nonce).collect()
}

fn counts(mined: u64, pending: u64) -> Option<ChainCount> {
    let (mined, pending) = (nonce(mined), nonce(pending));
    Some(ChainCount { pending, mined, read_at: Timestamp::EPOCH })
}

fn handed(
    mode: Mode,
    recyclable: &BTreeSet<Nonce>,
    open: &BTreeSet<Nonce>,
    chain: Option<ChainCount>,
    (first, count): (u64, u32),
) -> Vec<SlotToFill> {
    let range = SlotRange { first: nonce(first), count };
    slots_to_fill(mode, &PoolView { recyclable, open, chain }, range).unwrap()
}

fn numbers(handed: &[SlotToFill]) -> Vec<(u64, bool)> {
    handed.iter().map(|one| (one.nonce.get(), one.recycled)).collect()
}

#[test]
fn recyclable_nonces_are_assigned_before_those_of_the_cursor() {
    let (pool, none) = (set([7, 3, 5]), set([]));
    let got = handed(Mode::Pipelined, &pool, &none, counts(0, 0), (10, 5));
    assert_eq!(numbers(&got), [(3, true), (5, true), (7, true), (10, false), (11, false)]);
    let got = handed(Mode::Pipelined, &pool, &none, counts(0, 0), (10, 2));
    assert_eq!(numbers(&got), [(3, true), (5, true)], "lowest first, no more than the window has");
}

#[test]
fn nonce_that_only_a_pool_counts_is_not_assigned_again() {
    let (pool, none) = (set([3, 5]), set([]));
    let got = handed(Mode::Pipelined, &pool, &none, counts(3, 4), (10, 2));
    assert_eq!(numbers(&got), [(5, true), (10, false)], "I3: whoever sent 3, it is with a node");
}

#[test]
fn recyclable_nonce_is_not_assigned_without_a_count() {
    let got = handed(Mode::Pipelined, &set([3]), &set([]), None, (10, 1));
    assert_eq!(numbers(&got), [(10, false)]);
}

fn unblocked(
    mode: Mode,
    recyclable: &BTreeSet<Nonce>,
    open: &BTreeSet<Nonce>,
    chain: Option<ChainCount>,
) -> Vec<u64> {
    let (window, state_timeout) = (4, Duration::from_secs(300));
    let (strict_advance, unfinal_max) = (StrictAdvance::Final, 10_000);
    let rules = NonceRules { mode, window, unfinal_max, strict_advance, state_timeout };
    let got = unblocks(&rules, &PoolView { recyclable, open, chain }, 10);
    assert!(got.iter().all(|one| one.recycled));
    got.iter().map(|one| one.nonce.get()).collect()
}

#[test]
fn only_the_nonces_that_the_chain_waits_for_pass_a_full_window() {
    let (pool, none, third_open) = (set([3, 5]), set([]), set([3]));
    let asked = |open, chain| unblocked(Mode::Pipelined, &pool, open, chain);
    assert_eq!(asked(&none, counts(3, 3)), [3]);
    assert_eq!(asked(&none, counts(3, 4)), [0; 0], "I3: a node has something there");
    assert_eq!(asked(&none, counts(4, 4)), [0; 0], "it waits for another one");
    assert_eq!(asked(&third_open, counts(3, 3)), [0; 0], "it is being filled");
    assert_eq!(asked(&none, None), [0; 0], "I3: no fresh count");
    assert_eq!(unblocked(Mode::Strict, &pool, &none, counts(3, 3)), [0; 0], "I12");
}

#[test]
fn a_run_of_nonces_passes_a_full_window_up_to_a_window_above_the_mined_count() {
    let (pool, open) = (set([3, 5, 6, 7, 8]), set([4, 100, 101]));
    assert_eq!(unblocked(Mode::Pipelined, &pool, &open, counts(3, 3)), [3, 5, 6], "3 to 6");
    assert_eq!(unblocked(Mode::Pipelined, &pool, &open, counts(3, 5)), [5, 6], "I3");
    assert_eq!(unblocked(Mode::Pipelined, &pool, &open, counts(3, 9)), [0; 0], "I3");
}

fn nonces() -> impl Strategy<Value = BTreeSet<Nonce>> {
    btree_set(0u64..40, 0..20).prop_map(set)
}

proptest! {
    #[test]
    fn nonce_that_may_be_in_use_is_never_assigned(
        strict in any::<bool>(),
        recyclable in nonces(),
        open in nonces(),
        mined in 0u64..40,
        ahead in 0u64..10,
        first in 20u64..50,
        count in 1u32..20,
    ) {
        let mode = if strict { Mode::Strict } else { Mode::Pipelined };
        let pending = mined + ahead;
        let got = handed(mode, &recyclable, &open, counts(mined, pending), (first, count));
        prop_assert_eq!(got.len(), count as usize, "all that was allowed");
        prop_assert!(got.is_sorted_by(|one, next| one.nonce < next.nonce), "in order, each once");
        for one in got.iter().filter(|one| one.recycled) {
            prop_assert!(!strict, "I12");
            prop_assert!(recyclable.contains(&one.nonce) && !open.contains(&one.nonce), "I3");
            prop_assert!(one.nonce.get() >= pending && one.nonce.get() < first, "I3, I4");
            let free = |n: &&Nonce| n.get() >= pending && !open.contains(*n);
            let lower = recyclable.range(..one.nonce).filter(free);
            let skipped = lower.filter(|n| !got.iter().any(|one| one.nonce == **n)).count();
            prop_assert_eq!(skipped, 0, "lowest first");
        }
        let fresh: Vec<_> = got.iter().filter(|one| !one.recycled).map(|one| one.nonce).collect();
        prop_assert!(fresh.iter().zip(first..).all(|(got, due)| got.get() == due), "no hole");
    }
}
