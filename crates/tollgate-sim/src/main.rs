//! Runs seeds: `tollgate-sim seeds COUNT [FROM]`, `tollgate-sim replay SEED [BUG]`,
//! `tollgate-sim bugs [SEEDS]`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tollgate_sim::{Bug, Keep, run};

const USAGE: &str = "tollgate-sim seeds COUNT [FROM] | replay SEED [BUG] | bugs [SEEDS]";
/// How often progress is told.
const TELL_EVERY: u64 = 500;
/// Seeds that a mistake has to be noticed in, unless it is said.
const BUG_SEEDS: u64 = 1_000;

/// What is to be done.
#[derive(PartialEq, Eq, Debug)]
enum Job {
    Seeds { count: u64, from: u64 },
    Replay { seed: u64, bug: Option<Bug> },
    Bugs { most: u64 },
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match read(&words) {
        Ok(Job::Seeds { count, from }) => seeds(count, from),
        Ok(Job::Replay { seed, bug }) => replay(seed, bug),
        Ok(Job::Bugs { most }) => bugs(most),
        Err(why) => {
            eprintln!("{why}\nusage: {USAGE}");
            ExitCode::from(2)
        }
    }
}

fn read(words: &[&str]) -> Result<Job, String> {
    match *words {
        ["seeds", count] => Ok(Job::Seeds { count: number(count)?, from: 0 }),
        ["seeds", count, from] => Ok(Job::Seeds { count: number(count)?, from: number(from)? }),
        ["replay", seed] => Ok(Job::Replay { seed: number(seed)?, bug: None }),
        ["replay", seed, name] => {
            let bug = Bug::from_name(name).ok_or_else(|| {
                let known: Vec<String> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
                format!("{name} is no planted mistake; there are {}", known.join(", "))
            })?;
            Ok(Job::Replay { seed: number(seed)?, bug: Some(bug) })
        }
        ["bugs"] => Ok(Job::Bugs { most: BUG_SEEDS }),
        ["bugs", most] => Ok(Job::Bugs { most: number(most)? }),
        _ => Err(format!("not understood: {words:?}")),
    }
}

/// `10000` and `SEEDS=10000` are the same.
fn number(word: &str) -> Result<u64, String> {
    let digits = word.split_once('=').map_or(word, |(_, digits)| digits);
    digits.parse().map_err(|_| format!("{word:?} is not a whole number"))
}

/// What came of seeds so far.
#[derive(Default)]
struct Sum {
    done: u64,
    failed: u64,
    events: u64,
}

/// Runs seeds on all cores: a world is one thread's own.
fn seeds(count: u64, from: u64) -> ExitCode {
    let (begun, next, sum) = (Instant::now(), AtomicU64::new(0), Mutex::new(Sum::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let seed = from + number;
            let (events, wrong) = one(seed);
            let Ok(mut sum) = sum.lock() else { return };
            (sum.done, sum.events) = (sum.done + 1, sum.events + events);
            if let Some(wrong) = wrong {
                sum.failed += 1;
                println!("{wrong}");
            }
            if sum.done.is_multiple_of(TELL_EVERY) || sum.done == count {
                let Sum { done, failed, events } = *sum;
                let seconds = begun.elapsed().as_secs_f64();
                println!("{done} seeds, {events} events, {failed} failed, {seconds:.1} s");
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    // A thread that died did not count its seed.
    let good = sum.lock().is_ok_and(|sum| sum.failed == 0 && sum.done == count);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The events of one seed, and what was wrong with it.
fn one(seed: u64) -> (u64, Option<String>) {
    match run(seed, None, Keep::Digest) {
        Ok(report) => {
            let wrong = report.violation.map(|broken| {
                let (promise, what) = (broken.promise, broken.what);
                format!("seed {seed} breaks {promise}: {what}\n  just sim-replay SEED={seed}")
            });
            (report.events, wrong)
        }
        Err(error) => (0, Some(format!("seed {seed} could not run: {error}"))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_understood_or_refused() {
        assert_eq!(read(&["seeds", "SEEDS=7", "FROM=3"]), Ok(Job::Seeds { count: 7, from: 3 }));
        assert_eq!(read(&["replay", "5"]), Ok(Job::Replay { seed: 5, bug: None }));
        let planted = Job::Replay { seed: 5, bug: Some(Bug::ALL[0]) };
        assert_eq!(read(&["replay", "SEED=5", &format!("{:?}", Bug::ALL[0])]), Ok(planted));
        assert_eq!(read(&["bugs"]), Ok(Job::Bugs { most: BUG_SEEDS }));
        for bad in [&["seeds"][..], &["seeds", "many"], &["replay", "5", "Typo"], &[], &["bug"]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
