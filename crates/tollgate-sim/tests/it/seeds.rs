//! 1,000 worlds, in parts that run side by side.

use tollgate_sim::{TraceMode, run};

const PART: u64 = 125;

/// Runs one part; whatever breaks is named with the way to see it again.
fn holds(part: u64) {
    let mut broken = Vec::new();
    for seed in part * PART..(part + 1) * PART {
        if let Some(violation) = run(seed, None, TraceMode::Digest).unwrap().violation {
            let (promise, what) = (violation.promise, violation.what);
            broken.push(format!("{promise}: {what}\n  to see it: just sim-replay SEED={seed}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Operators act and callers reserve nonces in each world, and progress is demanded of most accounts.
#[test]
fn every_seed_has_operator_actions_and_reservations_and_most_submitters_are_judged() {
    let (mut judged, mut submitters, mut without) = (0, 0, 0);
    for seed in 2_000..2_000 + PART {
        let tally = run(seed, None, TraceMode::Digest).unwrap().tally;
        assert!(tally.actions > 0, "no operator acts in seed {seed}");
        without += u32::from(tally.reserved == 0 && tally.may_reserve);
        (judged, submitters) = (judged + tally.judged, submitters + tally.submitters);
    }
    // An account that an operator has paused from beginning to end gives out no nonce.
    assert!(without <= 2, "nobody reserves in {without} seeds");
    assert!(judged * 2 >= submitters, "{judged} of {submitters} submitters are judged");
}

macro_rules! parts {
    ($($name:ident: $part:literal;)*) => {
        $(
            #[test]
            fn $name() {
                holds($part);
            }
        )*
    };
}

parts! {
    no_promise_is_broken_in_seeds_0_to_124: 0;
    no_promise_is_broken_in_seeds_125_to_249: 1;
    no_promise_is_broken_in_seeds_250_to_374: 2;
    no_promise_is_broken_in_seeds_375_to_499: 3;
    no_promise_is_broken_in_seeds_500_to_624: 4;
    no_promise_is_broken_in_seeds_625_to_749: 5;
    no_promise_is_broken_in_seeds_750_to_874: 6;
    no_promise_is_broken_in_seeds_875_to_999: 7;
}
