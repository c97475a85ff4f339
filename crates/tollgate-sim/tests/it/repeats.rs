//! A seed is one run.

use std::collections::BTreeSet;

use tollgate_sim::{TraceMode, run};

#[test]
fn the_same_seed_gives_the_same_events_in_the_same_order() {
    for seed in 0..20 {
        let first = run(seed, None, TraceMode::Lines).unwrap();
        let second = run(seed, None, TraceMode::Lines).unwrap();
        let differs = first.lines.iter().zip(&second.lines).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((first.digest, first.events), (second.digest, second.events), "seed {seed}");
        assert!(first.events > 100, "seed {seed} is a world in which something happens");
    }
}

#[test]
fn another_seed_is_another_run() {
    let digests: BTreeSet<u64> =
        (0..5).map(|seed| run(seed, None, TraceMode::Digest).unwrap().digest).collect();
    assert_eq!(digests.len(), 5);
}
