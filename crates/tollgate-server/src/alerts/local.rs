//! Measures the node itself: its endpoints, the heads of its chains, its clock, and how often it is fenced
//! or sends again.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_evm::chain::EndpointStatus;
use tollgate_model::alert::{AlertSubject, Threshold, clock_drift};
use tollgate_model::port::AlertKind;
use tollgate_model::{ChainId, Timestamp};

use super::{Found, Gates, WatchedChain, Watcher};

/// The time for which a rate or a clock must be beyond its threshold: a takeover of many accounts is no surge.
const SUSTAINED: Duration = Duration::from_secs(60);

/// The numbers of a chain at the last look.
#[derive(Clone, Copy)]
pub(super) struct LastLook {
    pub(super) at: Timestamp,
    pub(super) fenced: u64,
    pub(super) resends: u64,
    pub(super) head: Option<u64>,
}

/// Measures at each interval, for ever.
pub(super) async fn measure(watcher: Watcher) {
    let (mut gates, mut last) = (Gates::default(), HashMap::<ChainId, LastLook>::new());
    loop {
        tokio::time::sleep(watcher.settings.interval).await;
        for of in watcher.chains() {
            let chain_id = of.engine.chain_id();
            endpoints(&watcher, &of, &mut gates);
            let look = LastLook {
                at: watcher.clock.now(),
                fenced: of.engine.fenced(),
                resends: of.engine.resends(),
                head: of.engine.view().head().map(|head| head.number),
            };
            if let Some(before) = last.insert(chain_id, look) {
                rates(&watcher, chain_id, before, look, &mut gates);
                head(&watcher, &of, before, look, &mut gates);
            }
        }
        clock(&watcher, &mut gates).await;
    }
}

fn endpoints(watcher: &Watcher, of: &WatchedChain, gates: &mut Gates) {
    for status in of.chain.endpoints() {
        endpoint(watcher, of.engine.chain_id(), &status, gates);
    }
}

pub(super) fn endpoint(
    watcher: &Watcher,
    chain_id: ChainId,
    status: &EndpointStatus,
    gates: &mut Gates,
) {
    let (now, after) = (watcher.clock.now(), watcher.settings.endpoint_down_after);
    let (failures, limits) = (status.health.failures, status.health.limits);
    let is_used = status.chain_check == "good";
    let is_down = !is_used || failures > 0 || limits > 0;
    let found = Found {
        kind: AlertKind::EndpointDown,
        subject: &AlertSubject::endpoint(chain_id, &status.name),
        threshold: Threshold::condition(after),
        measured: is_down.into(),
    };
    gates.judge(&watcher.collector, now, found, || {
        let why = match (is_used, limits) {
            (false, _) => status.chain_check.clone(),
            (true, 0) => format!("{failures} calls in a row failed"),
            (true, _) => "it refuses calls because of a rate limit".to_owned(),
        };
        format!("node {} gets no answers: {why}", watcher.node.name())
    });
}

/// A number of events in a minute.
fn per_minute(before: u64, now: u64, time: Duration) -> u64 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
    let events = u128::from(now.saturating_sub(before)) * 60_000_000;
    u64::try_from(events / u128::from(micros)).unwrap_or(u64::MAX)
}

pub(super) fn rates(
    watcher: &Watcher,
    chain_id: ChainId,
    before: LastLook,
    look: LastLook,
    gates: &mut Gates,
) {
    let (settings, time) = (&watcher.settings, look.at.since(before.at));
    let subject =
        AlertSubject { chain_id: Some(chain_id), ..AlertSubject::node(watcher.node.name()) };
    for (kind, rate, limit, what) in [
        (
            AlertKind::FencedSurge,
            per_minute(before.fenced, look.fenced, time),
            settings.fenced_per_minute,
            "accounts were lost to other nodes",
        ),
        (
            AlertKind::ResubmitRate,
            per_minute(before.resends, look.resends, time),
            settings.resubmits_per_minute,
            "transactions were sent again",
        ),
    ] {
        let threshold = Threshold::halving(limit, SUSTAINED);
        let found = Found { kind, subject: &subject, threshold, measured: rate };
        gates.judge(&watcher.collector, look.at, found, || format!("{rate} {what} in a minute"));
    }
}

fn head(watcher: &Watcher, of: &WatchedChain, before: LastLook, look: LastLook, gates: &mut Gates) {
    let stands = look.head <= before.head && of.engine.waits_for_blocks();
    let after = watcher.settings.chain_stalled_after;
    let found = Found {
        kind: AlertKind::ChainStalled,
        subject: &AlertSubject::chain(of.engine.chain_id()),
        threshold: Threshold::condition(after),
        measured: stands.into(),
    };
    gates.judge(&watcher.collector, look.at, found, || match look.head {
        Some(head) => format!("no block after {head} for {} s", after.as_secs()),
        None => "no block was seen since the start".to_owned(),
    });
}

/// Compares the node's clock with the database's. A database that does not answer is no drift.
pub(super) async fn clock(watcher: &Watcher, gates: &mut Gates) {
    let asked = watcher.clock.now();
    let Ok(database) = watcher.store.database_time().await else { return };
    let answered = watcher.clock.now();
    let drift = clock_drift(asked, answered, database);
    watcher.metrics.tollgate.clock_drift_seconds.set(drift.as_secs_f64());
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let found = Found {
        kind: AlertKind::ClockDrift,
        subject: &AlertSubject::node(watcher.node.name()),
        threshold: Threshold::halving(millis(watcher.settings.clock_drift), SUSTAINED),
        measured: millis(drift),
    };
    let direction = if database > answered { "behind" } else { "ahead of" };
    gates.judge(&watcher.collector, answered, found, || {
        format!("the node's clock is {} ms {direction} the database's", millis(drift))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_counted_in_minutes_and_a_restart_is_no_rate() {
        let seconds = Duration::from_secs;
        assert_eq!(per_minute(10, 20, seconds(15)), 40);
        assert_eq!(per_minute(10, 20, seconds(120)), 5);
        assert_eq!(per_minute(20, 0, seconds(15)), 0);
        assert_eq!(per_minute(0, u64::MAX, Duration::ZERO), u64::MAX);
    }
}
