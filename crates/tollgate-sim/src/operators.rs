//! Operators: random actions during the storm, and actions that bring everything to an end after it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tollgate_engine::{ActError, Action, Unserved};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::TxStore;
use tollgate_model::{Submitter, Text, TxId};

use crate::node::Node;
use crate::workload::outsider;
use crate::world::World;

/// The time limit of a call.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two draws of an action.
const TURN: Duration = Duration::from_millis(500);
/// The most tries to resume a submitter.
const UNPAUSE_TRIES: u32 = 60;
/// The draw, of ten, that compares a submitter with the chain.
const RECONCILE: u64 = 8;

/// Acts at random while the storm lasts. If nothing was carried out in its first half, an operator
/// tries at every turn until something is: no world is without an action.
pub(crate) async fn operate(world: Arc<World>) {
    let due = Instant::now() + world.plan.storm / 2;
    let mut has_acted = false;
    while !world.is_calm() || !has_acted {
        sleep(TURN).await;
        let is_due = !has_acted && Instant::now() >= due;
        let acts = world.chance(world.plan.faults.operator / 2.0) || is_due;
        let Some(node) = world.any_node().filter(|_| acts) else { continue };
        if act_once(&world, &node).await {
            has_acted = true;
            world.checker.note_action();
        }
    }
}

/// Takes one action; true if a node confirms that it was carried out.
async fn act_once(world: &World, node: &Node) -> bool {
    let of = world.any_submitter();
    let reason = Text::lossy("a mood");
    let unfinished = world.unfinished();
    let which = world.below(unfinished.len() as u64) as usize;
    // After the storm no state is changed at random.
    let draw = if world.is_calm() { RECONCILE } else { world.below(10) };
    let action = match draw {
        RECONCILE => {
            let done = timeout(PATIENCE, node.engine.operator().reconcile(of)).await;
            world.note(format_args!("reconcile {of} {:?}", done.is_ok()));
            return matches!(done, Ok(Ok(_)));
        }
        0 => {
            let paused = timeout(PATIENCE, node.engine.operator().pause(of, reason)).await;
            world.note(format_args!("pause {of} {paused:?}"));
            return matches!(paused, Ok(Ok(_)));
        }
        1 | 2 => return resume(world, node, of, reason).await,
        9 => Action::AskPolicy,
        3 | 4 => Action::Cancel,
        5 => Action::Resubmit,
        _ => Action::SpeedUp,
    };
    let Some((_, tx_id)) = unfinished.get(which).copied() else { return false };
    let acted = timeout(PATIENCE, node.engine.operator().act(tx_id, action.clone(), reason)).await;
    world.note(format_args!("{} {tx_id} {acted:?}", action.name()));
    matches!(acted, Ok(Ok(_)))
}

/// Resumes the submitters that operators have paused, after the storm. A submitter in PROTECT stays there.
/// A submitter that stays paused although a node confirmed the resume breaks I6.
pub(crate) async fn unpause(world: &World) {
    for of in world.submitters() {
        let (mut left, mut told) = (UNPAUSE_TRIES, false);
        while is_paused(world, of).await {
            if left == 0 {
                if told {
                    let what = format!("{of} was resumed, as a node says, and is PAUSED");
                    world.checker.fail(world, "I6", what);
                }
                break;
            }
            left -= 1;
            let Some(node) = world.any_node() else { continue };
            told |= resume(world, &node, of, Text::lossy("the storm is over")).await;
            sleep(world.between(100, 1_000)).await;
        }
    }
}

async fn is_paused(world: &World, of: Submitter) -> bool {
    let record = world.store.submitter(of).await.ok().flatten();
    record.is_some_and(|record| record.status == SubmitterStatus::Paused)
}

/// Resumes a submitter; true if a node confirms it. Without an answer it may have been carried out.
async fn resume(world: &World, node: &Node, of: Submitter, reason: Text<500>) -> bool {
    let asked = timeout(PATIENCE, node.engine.operator().resume(of, reason)).await;
    let is_refused = matches!(&asked, Ok(Err(why)) if !matches!(why, ActError::Unserved(Unserved::Unavailable(_))));
    if !is_refused {
        world.checker.note_resume(of);
    }
    matches!(asked, Ok(Ok(_)))
}

/// One step of an operator who brings things to an end: resume, fill holes, cancel.
pub(crate) async fn help(world: &World, unfinished: &[(Submitter, TxId)], cancels: bool) {
    let reason = || Text::lossy("tidying up");
    for of in world.submitters() {
        for node in world.alive() {
            if resume(world, &node, of, reason()).await {
                break;
            }
        }
        let count = world.chain.lock().count(of.address);
        if unfinished.iter().any(|(by, _)| *by == of) && world.is_hole(of, count) {
            outsider(world, of, count, true);
        }
    }
    for (_, tx_id) in unfinished.iter().filter(|_| cancels) {
        for node in world.alive() {
            let acted =
                timeout(PATIENCE, node.engine.operator().act(*tx_id, Action::Cancel, reason()))
                    .await;
            world.note(format_args!("help: cancel {tx_id} {acted:?}"));
            if !matches!(
                acted,
                Ok(Err(ActError::Unserved(Unserved::NotOwner(_) | Unserved::UnknownSubmitter)))
            ) {
                break;
            }
        }
    }
}
