//! 1,000 worlds, in parts that run side by side.

use tollgate_sim::{Keep, run};

const PART: u64 = 125;

/// Runs one part; whatever breaks is named with the way to see it again.
fn holds(part: u64) {
    let mut broken = Vec::new();
    for seed in part * PART..(part + 1) * PART {
        if let Some(violation) = run(seed, None, Keep::Digest).unwrap().violation {
            let (promise, what) = (violation.promise, violation.what);
            broken.push(format!("{promise}: {what}\n  to see it: just sim-replay SEED={seed}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
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
