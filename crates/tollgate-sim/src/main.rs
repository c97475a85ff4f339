//! Runs seeds: `tollgate-sim seeds COUNT [FROM]`, `tollgate-sim replay SEED [BUG]`,
//! `tollgate-sim bugs [SEEDS [BUG]]`, `tollgate-sim drawn-bugs [SEEDS [BUG]]`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tollgate_sim::{Bug, Report, Tally, TraceMode, run, run_as_drawn};

const USAGE: &str =
    "tollgate-sim seeds COUNT [FROM] | replay SEED [BUG] | (bugs | drawn-bugs) [SEEDS [BUG]]";
/// The number of seeds between two lines of progress.
const TELL_EVERY: u64 = 500;
/// The default number of seeds within which a mistake has to be noticed.
const BUG_SEEDS: u64 = 1_000;

#[derive(PartialEq, Eq, Debug)]
enum Job {
    Seeds {
        count: u64,
        from: u64,
    },
    Replay {
        seed: u64,
        bug: Option<Bug>,
    },
    /// `favours`: each mistake in worlds in which it can show, not only in those that are drawn.
    Bugs {
        most: u64,
        favours: bool,
        only: Option<Bug>,
    },
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match read(&words) {
        Ok(Job::Seeds { count, from }) => seeds(count, from),
        Ok(Job::Replay { seed, bug }) => replay(seed, bug),
        Ok(Job::Bugs { most, favours, only }) => bugs(most, favours, only),
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
            Ok(Job::Replay { seed: number(seed)?, bug: Some(planted(name)?) })
        }
        [word @ ("bugs" | "drawn-bugs"), ref rest @ ..] if rest.len() <= 2 => {
            let most = rest.first().map_or(Ok(BUG_SEEDS), |most| number(most))?;
            let only = rest.get(1).map(|name| planted(name)).transpose()?;
            Ok(Job::Bugs { most, favours: word == "bugs", only })
        }
        _ => Err(format!("not understood: {words:?}")),
    }
}

fn planted(name: &str) -> Result<Bug, String> {
    Bug::from_name(name).ok_or_else(|| {
        let known: Vec<String> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
        format!("{name} is no planted mistake; there are {}", known.join(", "))
    })
}

/// `10000` and `SEEDS=10000` are the same.
fn number(word: &str) -> Result<u64, String> {
    let digits = word.split_once('=').map_or(word, |(_, digits)| digits);
    digits.parse().map_err(|_| format!("{word:?} is not a whole number"))
}

/// The sum of the seeds so far.
#[derive(Default)]
struct Sum {
    done: u64,
    failed: u64,
    events: u64,
    tally: Tally,
}

impl Sum {
    fn add(&mut self, seed: u64, report: &Result<Report, String>) -> Option<String> {
        self.done += 1;
        let wrong = match report {
            Ok(report) => {
                self.events += report.events;
                let Tally { submitters, judged, excused, actions, reserved, .. } = &report.tally;
                let sum = &mut self.tally;
                (sum.submitters, sum.judged) = (sum.submitters + submitters, sum.judged + judged);
                (sum.actions, sum.reserved) = (sum.actions + actions, sum.reserved + reserved);
                for (why, count) in excused {
                    *sum.excused.entry(why).or_default() += count;
                }
                report.violation.as_ref().map(|broken| {
                    let (promise, what) = (broken.promise, &broken.what);
                    format!("seed {seed} breaks {promise}: {what}\n  just sim-replay SEED={seed}")
                })
            }
            Err(error) => Some(format!("seed {seed} could not run: {error}")),
        };
        self.failed += u64::from(wrong.is_some());
        wrong
    }

    fn print_tally(&self) {
        let Tally { submitters, judged, excused, actions, reserved, .. } = &self.tally;
        let share = |part: u64| 100.0 * part as f64 / (*submitters).max(1) as f64;
        println!("{actions} actions of operators, {reserved} nonces reserved");
        println!(
            "progress judged for {judged} of {submitters} submitters ({:.0} %)",
            share(*judged)
        );
        for (why, count) in excused {
            println!("  excused {count} ({:.0} %): {why}", share(*count));
        }
    }
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
            let report = run(seed, None, TraceMode::Digest);
            let Ok(mut sum) = sum.lock() else { return };
            if let Some(wrong) = sum.add(seed, &report) {
                println!("{wrong}");
            }
            if sum.done.is_multiple_of(TELL_EVERY) || sum.done == count {
                let Sum { done, failed, events, .. } = *sum;
                let seconds = begun.elapsed().as_secs_f64();
                println!("{done} seeds, {events} events, {failed} failed, {seconds:.1} s");
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    // A thread that died did not count its seed.
    let good = sum.lock().is_ok_and(|sum| {
        sum.print_tally();
        sum.failed == 0 && sum.done == count
    });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, bug: Option<Bug>) -> ExitCode {
    match run(seed, bug, TraceMode::Lines) {
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

/// Prints the first seed that notices each mistake.
fn bugs(most: u64, favours: bool, only: Option<Bug>) -> ExitCode {
    let mut missed = 0;
    for bug in Bug::ALL.iter().copied().filter(|bug| only.is_none_or(|only| only == *bug)) {
        let found = (0..most).find_map(|seed| {
            let report = match favours {
                true => run(seed, Some(bug), TraceMode::Digest),
                false => run_as_drawn(seed, bug, TraceMode::Digest),
            };
            let broken = report.ok()?.violation?;
            // A world that is bad without the mistake says nothing about it.
            let is_good =
                || run(seed, None, TraceMode::Digest).is_ok_and(|it| it.violation.is_none());
            (favours || is_good()).then_some((seed, broken))
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
    // Worlds as they are drawn need not show every mistake.
    if missed == 0 || !favours { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_refused() {
        assert_eq!(read(&["seeds", "SEEDS=7", "FROM=3"]), Ok(Job::Seeds { count: 7, from: 3 }));
        assert_eq!(read(&["replay", "5"]), Ok(Job::Replay { seed: 5, bug: None }));
        let planted = Job::Replay { seed: 5, bug: Some(Bug::ALL[0]) };
        assert_eq!(read(&["replay", "SEED=5", &format!("{:?}", Bug::ALL[0])]), Ok(planted));
        assert_eq!(read(&["bugs"]), Ok(Job::Bugs { most: BUG_SEEDS, favours: true, only: None }));
        let one = Job::Bugs { most: 9, favours: false, only: Some(Bug::ALL[0]) };
        assert_eq!(read(&["drawn-bugs", "9", &format!("{:?}", Bug::ALL[0])]), Ok(one));
        for bad in [&["seeds"][..], &["seeds", "many"], &["replay", "5", "Typo"], &[], &["bug"]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
