//! Runs seeds: `tollgate-sim seeds COUNT [FROM]`, `tollgate-sim replay SEED [BUG]`,
//! `tollgate-sim bugs [SEEDS]`.

use std::process::ExitCode;
use std::time::Instant;

use tollgate_sim::{Bug, Keep, run};

/// How often progress is told.
const TELL_EVERY: u64 = 500;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: Option<&&str>, otherwise: u64| {
        word.and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    match words.split_first() {
        Some((&"seeds", rest)) => seeds(number(rest.first(), 1_000), number(rest.get(1), 0)),
        Some((&"replay", rest)) => {
            replay(number(rest.first(), 0), rest.get(1).and_then(|name| Bug::from_name(name)))
        }
        Some((&"bugs", rest)) => bugs(number(rest.first(), 1_000)),
        Some(_) | None => {
            eprintln!("seeds COUNT [FROM] | replay SEED [BUG] | bugs [SEEDS]");
            ExitCode::from(2)
        }
    }
}

fn seeds(count: u64, from: u64) -> ExitCode {
    let begun = Instant::now();
    let (mut failed, mut events) = (0_u64, 0);
    for seed in from..from + count {
        match run(seed, None, Keep::Digest) {
            Ok(report) => {
                events += report.events;
                if let Some(broken) = report.violation {
                    failed += 1;
                    println!("seed {seed} breaks {}: {}", broken.promise, broken.what);
                    println!("  just sim-replay {seed}");
                }
            }
            Err(error) => {
                failed += 1;
                println!("seed {seed} could not run: {error}");
            }
        }
        let done = seed - from + 1;
        if done % TELL_EVERY == 0 || done == count {
            let seconds = begun.elapsed().as_secs_f64();
            println!("{done} seeds, {events} events, {failed} failed, {seconds:.1} s");
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, bug: Option<Bug>) -> ExitCode {
    match run(seed, bug, Keep::Lines) {
        Ok(report) => {
            report.lines.iter().for_each(|line| println!("{line}"));
            println!("{} events, digest {:016x}", report.events, report.digest);
            match report.violation {
                Some(broken) => {
                    println!("seed {seed} breaks {}: {}", broken.promise, broken.what);
                    ExitCode::FAILURE
                }
                None => ExitCode::SUCCESS,
            }
        }
        Err(error) => {
            println!("seed {seed} could not run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Which seed is the first to notice each mistake.
fn bugs(most: u64) -> ExitCode {
    let mut missed = 0;
    for bug in Bug::ALL {
        let found = (0..most).find_map(|seed| {
            let report = run(seed, Some(bug), Keep::Digest).ok()?;
            Some((seed, report.violation?))
        });
        match found {
            Some((seed, broken)) => {
                println!("{bug:?}: {} after {} seeds: {}", broken.promise, seed + 1, broken.what);
            }
            None => {
                missed += 1;
                println!("{bug:?}: not noticed in {most} seeds");
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
