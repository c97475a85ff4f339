//! One run: a time with faults (the storm), a calm in which all work has to end, and the check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::time::{Instant, sleep, timeout};

use crate::checker::Violation;
use crate::node::{foreign_node, run_node};
use crate::operators::{help, operate, unpause};
use crate::planted::Bug;
use crate::reservations::reserve;
use crate::trace::TraceMode;
use crate::workload::{create_all, inject_faults, mine};
use crate::world::World;

/// The time limit for answers to callers in the calm.
const ANSWERED: Duration = Duration::from_secs(150);
/// The time without an outcome after which the world stands still.
const STILL: Duration = Duration::from_secs(75);
/// The time limit for everything that can end by itself.
const ENDED: Duration = Duration::from_secs(400);
/// The time limit for noticing an outsider's use of a key.
const NOTICED: Duration = Duration::from_secs(20);
/// The interval and the number of an operator's rounds of help.
const HELP_INTERVAL: Duration = Duration::from_secs(30);
const HELPS_MAX: u32 = 20;

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// A digest of everything that happened, in order.
    pub digest: u64,
    /// The number of events.
    pub events: u64,
    /// The events, if they were kept.
    pub lines: Vec<String>,
    /// The counts of the run.
    pub tally: Tally,
}

/// The counts of a run, on all its chains.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Submitters.
    pub submitters: u64,
    /// Submitters that had to make progress by themselves (I15).
    pub judged: u64,
    /// The reasons why the others did not have to, with their numbers.
    pub excused: BTreeMap<&'static str, u64>,
    /// Actions of operators that a node carried out.
    pub actions: u64,
    /// Nonces that callers reserved.
    pub reserved: u64,
    /// Callers may reserve nonces on all chains.
    pub may_reserve: bool,
}

/// Runs a seed, with a mistake or without. With a mistake the plan is one in which it can show.
///
/// # Errors
/// The simulation could not be set up.
pub fn run(seed: u64, bug: Option<Bug>, keep: TraceMode) -> Result<Report, String> {
    run_with(seed, bug, true, keep)
}

/// Runs a seed with a mistake, in the world that the seed draws.
///
/// # Errors
/// The simulation could not be set up.
pub fn run_as_drawn(seed: u64, bug: Bug, keep: TraceMode) -> Result<Report, String> {
    run_with(seed, Some(bug), false, keep)
}

fn run_with(seed: u64, bug: Option<Bug>, favours: bool, keep: TraceMode) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let world = World::new(seed, bug, favours, keep).await;
        let world = world.map_err(|error| error.to_string())?;
        let mut worlds = vec![world.clone()];
        if world.plan.second_chain {
            let second = world.second(seed).await.map_err(|error| error.to_string())?;
            world.meet(&second);
            worlds.push(second);
        }
        let lives = join_all(worlds.iter().map(run_one));
        let first_failure = select_all(worlds.iter().map(|world| Box::pin(world.checker.failed())));
        tokio::select! {
            biased;
            _ = first_failure => {}
            _ = lives => {}
        }
        let (digest, events) = world.trace.sum();
        let violation = worlds.iter().find_map(|world| world.checker.violation());
        let lines = world.trace.take_lines();
        let mut tally = Tally { may_reserve: true, ..Tally::default() };
        worlds.iter().for_each(|world| world.add_to(&mut tally));
        // Engines hold the world that holds them.
        worlds.iter().for_each(|world| world.vacate());
        Ok(Report { seed, violation, digest, events, lines, tally })
    })
}

async fn run_one(world: &Arc<World>) {
    for index in 0..world.plan.nodes {
        tokio::spawn(run_node(world.clone(), index));
    }
    tokio::spawn(foreign_node(world.clone()));
    tokio::spawn(mine(world.clone()));
    tokio::spawn(operate(world.clone()));
    tokio::spawn(inject_faults(world.clone()));
    tokio::spawn(reserve(world.clone()));
    let callers = tokio::spawn(create_all(world.clone()));
    sleep(world.plan.storm).await;
    world.calm_down();
    if timeout(ANSWERED, callers).await.is_err() {
        let what = "a caller has no answer".to_owned();
        return world.checker.fail(world, "I6", what);
    }
    rest(world).await;
    world.check_end().await;
    for node in world.alive() {
        world.checker.note_deaths(&node.engine);
    }
}

/// Waits until everything has ended; where it does not by itself, there must be a visible reason,
/// and an operator sees to it.
async fn rest(world: &World) {
    let begun = Instant::now();
    unpause(world).await;
    let mut moved = (Instant::now(), world.unfinished().len());
    while moved.0.elapsed() < STILL && begun.elapsed() < ENDED {
        sleep(Duration::from_secs(1)).await;
        world.read_feed().await;
        let left = world.unfinished().len();
        if left == 0 {
            break;
        }
        if left != moved.1 {
            moved = (Instant::now(), left);
        }
    }
    if world.is_finality_broken() {
        return;
    }
    world.check_progress(begun.elapsed()).await;
    world.check_visible().await;
    if world.is_strict() && world.has_outsiders() {
        let used = world.used_by_outsiders();
        sleep(NOTICED).await;
        world.check_protected(&used).await;
    }
    for round in 0..HELPS_MAX {
        let unfinished = world.unfinished();
        if unfinished.is_empty() {
            return;
        }
        help(world, &unfinished, round > 0).await;
        sleep(HELP_INTERVAL).await;
        world.read_feed().await;
    }
}
