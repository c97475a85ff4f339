//! Background production: blocks at an interval (with the planned faults after each), and
//! transactions that reach the other pools late.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::endpoint::Endpoint;
use super::shared::Shared;

/// Mines at the interval until the chain is gone. The faults are those of the first endpoint.
pub(crate) async fn keep_mining(shared: Arc<Shared>, endpoint: Weak<Endpoint>) {
    let mut changes = shared.mining.subscribe();
    loop {
        let mining = *changes.borrow_and_update();
        let interval = mining.interval.filter(|_| !mining.is_paused);
        let is_due = tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                false
            }
            () = sleep_or_wait(interval) => true,
        };
        if is_due {
            shared.mine(None);
            let Some(endpoint) = endpoint.upgrade() else { return };
            after_block(&shared, &endpoint);
        }
    }
}

async fn sleep_or_wait(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}

fn after_block(shared: &Shared, endpoint: &Endpoint) {
    let (reorg, evict) = endpoint.faults().after_block();
    if let Some(reorg) = reorg {
        // A chain that is too short yet, or a promise in the way: no reorg this time.
        let _ = shared.reorg(reorg);
    }
    if let Some(probability) = evict {
        shared.chain().evict(endpoint.pool, probability);
    }
}

/// Delivers late transactions when they are due.
pub(crate) async fn keep_gossiping(shared: Arc<Shared>) {
    loop {
        let next_ms = {
            let now_ms = shared.now_ms();
            shared.chain().gossip(now_ms)
        };
        let wait =
            next_ms.map(|due| Duration::from_millis(due.saturating_sub(shared.now_ms()) + 1));
        tokio::select! {
            () = shared.gossip.notified() => {}
            () = sleep_or_wait(wait) => {}
        }
    }
}
