//! Work that nobody owns: found and taken up, after a start and after another node's end.
//!
//! What this node is preferred for it takes at once; the rest it leaves to others for a while, so that
//! ownership goes where it should be without a detour. What no live node serves is followed without a
//! key, by one of them.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{LiveNode, OrphanPage};
use tollgate_model::{NodeId, Submitter};
use tracing::{info, warn};

use crate::context::Context;
use crate::engine::{Engine, Workers};

/// The pause before work is taken up while the accounts are not read yet.
const LOADING_PAUSE: Duration = Duration::from_millis(100);
/// Submitters with open work that one statement looks at (I13).
const LOOKED_AT_MAX: u32 = 1_000;
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest pause, where looks are slow: work without an owner waits as long.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The pause while a node is going, or work waits for an owner.
const LOOK_CLOSELY_EVERY: Duration = Duration::from_millis(200);
/// The pause after a scan is at least this many times as long as the scan, within the longest pause: what
/// looks cost the database stays a small share of its time with any number of busy submitters.
const PAUSE_FACTOR: u32 = 9;

/// Looks at the list of nodes and for orphans until the engine is gone.
pub(crate) async fn adopt(context: Weak<Context>, workers: Weak<Workers>) {
    let mut seen: BTreeMap<Submitter, Instant> = BTreeMap::new();
    let (mut before, mut closely_until): (Vec<NodeId>, Option<Instant>) = (Vec::new(), None);
    loop {
        let (Some(context), Some(workers)) = (context.upgrade(), workers.upgrade()) else { return };
        if !context.accounts.is_loaded() {
            drop((context, workers));
            tokio::time::sleep(LOADING_PAUSE).await;
            continue;
        }
        let lease = context.options.lease;
        let engine = Engine { context, workers };
        let now = Instant::now();
        match engine.context.placement.refresh(engine.context.store.as_ref()).await {
            Ok(listed) => {
                if before.iter().any(|node| !takes_work(&listed, node)) {
                    // Its leases run out, or are let go, within this time.
                    closely_until = Some(now + lease.duration() + lease.clock_skew_allowance());
                }
                let working = listed.iter().filter(|node| !node.draining);
                before = working.map(|node| node.node.clone()).collect();
            }
            Err(error) => warn!(%error, "the list of nodes could not be read"),
        }
        if !engine.context.placement.is_draining() {
            look(&engine, &mut seen).await;
        }
        let closely = !seen.is_empty() || closely_until.is_some_and(|until| now < until);
        let wanted = if closely { LOOK_CLOSELY_EVERY } else { LOOK_EVERY };
        // Within the grace that others give this node.
        let wanted = wanted.min(lease.renew_interval() / 2);
        let pause = pause_after(now.elapsed(), wanted);
        drop(engine);
        tokio::time::sleep(pause).await;
    }
}

/// The pause after a look that took so long.
fn pause_after(looked_for: Duration, wanted: Duration) -> Duration {
    wanted.max((looked_for * PAUSE_FACTOR).min(LOOK_PAUSE_MAX))
}

fn takes_work(listed: &[LiveNode], node: &NodeId) -> bool {
    listed.iter().any(|entry| entry.node == *node && !entry.draining)
}

async fn look(engine: &Engine, seen: &mut BTreeMap<Submitter, Instant>) {
    let (mut after, mut still) = (None, BTreeMap::new());
    // To the end, in parts: what this node does not serve must not hide what is behind it.
    loop {
        let page = engine.context.store.orphans(engine.chain_id(), after, LOOKED_AT_MAX).await;
        let OrphanPage { orphans, next } = match page {
            Ok(page) => page,
            Err(error) => return warn!(%error, "orphans not found"),
        };
        let now = Instant::now();
        let placement = &engine.context.placement;
        for submitter in orphans {
            let serves = engine.serves(submitter);
            if !serves && !placement.is_unserved(submitter) {
                continue;
            }
            let since = seen.get(&submitter).copied();
            if since.is_none() {
                info!(%submitter, serves, "work without an owner");
            }
            let since = since.unwrap_or(now);
            still.insert(submitter, since);
            let orphaned = now - since;
            let takes_up = match serves {
                true => placement.adopts(submitter, orphaned),
                false => placement.follows(submitter, orphaned),
            };
            if takes_up {
                engine.give(submitter, |_| ());
            }
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    *seen = still;
}

/// I12: a strict submitter is compared with the chain also while it has no work.
pub(crate) async fn wake_idle(context: Weak<Context>, workers: Weak<Workers>) {
    loop {
        let Some(interval) = context.upgrade().map(|it| it.options.reconcile_interval) else {
            return;
        };
        tokio::time::sleep(interval).await;
        let (Some(context), Some(workers)) = (context.upgrade(), workers.upgrade()) else { return };
        let engine = Engine { context, workers };
        let served = engine.context.placement.served();
        let own: Vec<_> =
            served.accounts().map(|address| Submitter::new(engine.chain_id(), address)).collect();
        // Read each time: an operator may change a mode through whichever node owns the submitter.
        let modes = match engine.context.store.modes(&own).await {
            Ok(modes) => modes,
            Err(error) => {
                warn!(%error, "modes of submitters not read; strict ones are looked at later");
                continue;
            }
        };
        let strict = own.into_iter().zip(modes).filter(|(_, mode)| *mode == Some(Mode::Strict));
        for (submitter, _) in strict {
            // It takes the lease if nobody has it, looks at the chain, and lets go when it is idle.
            engine.give(submitter, |_| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_looks_are_a_tenth_of_the_time_until_the_longest_pause() {
        let millis = Duration::from_millis;
        assert_eq!(pause_after(millis(10), millis(200)), millis(200));
        assert_eq!(pause_after(millis(220), LOOK_EVERY), millis(1_980));
        assert_eq!(pause_after(millis(5_000), LOOK_EVERY), LOOK_PAUSE_MAX);
    }
}
