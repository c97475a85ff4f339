//! Samples of throughput, latency and load, for the charts of the overview.
//!
//! Kept in memory by each node, for [`SAMPLES_MAX`] samples. Finished transactions are counted from the feed
//! of the database, so that every node shows those of all nodes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tollgate_model::port::{FeedFilter, Page, Store, StoreError};
use tollgate_model::{ChainId, Seq, TxState};

/// The interval between two samples.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(2);
/// Samples that are kept (I13): half an hour.
const SAMPLES_MAX: usize = 900;
/// Pages of the feed that one sample reads (I13). What is beyond is counted by the numbers of the feed, without latency.
const PAGES_MAX: usize = 5;

/// The outcomes between two samples, and the open transactions at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) confirmed: u64,
    pub(crate) failed: u64,
    /// From acceptance to finality: half of them, and nineteen of twenty, took at most this long.
    pub(crate) latency_ms: Option<(u64, u64)>,
    pub(crate) open: OpenCounts,
}

/// Open transactions by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OpenCounts {
    pub(crate) queued: u64,
    pub(crate) sent: u64,
    pub(crate) mined: u64,
    pub(crate) stuck: u64,
}

impl OpenCounts {
    pub(crate) fn add(&mut self, state: TxState, count: u64) {
        match state {
            TxState::Queued(_) => self.queued += count,
            TxState::Tracking(tollgate_model::Tracking::Mined) => self.mined += count,
            TxState::Allocated(_) | TxState::Tracking(_) => self.sent += count,
            TxState::Stuck(_) => self.stuck += count,
            TxState::Confirmed | TxState::Failed(_) => {}
        }
    }
}

/// The samples of a node.
#[derive(Default)]
pub(crate) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    /// All samples, oldest first.
    pub(crate) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn push(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Takes a sample every [`SAMPLE_EVERY`], for ever. A database that does not answer leaves a sample of nothing.
    pub(crate) async fn keep(&self, store: &dyn Store, chains: &[ChainId]) {
        let mut ticks = interval(SAMPLE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            ticks.tick().await;
            let sample = take(store, chains, &mut seen).await;
            self.push(sample.unwrap_or_default());
        }
    }
}

/// Reads what has happened since the entry of the feed that was seen last.
async fn take(
    store: &dyn Store,
    chains: &[ChainId],
    seen: &mut Option<Seq>,
) -> Result<Sample, StoreError> {
    let all = FeedFilter { chain_id: None, with_stuck: false };
    let mut sample = Sample { open: open_counts(store, chains).await?, ..Sample::default() };
    let end = store.feed_end(all).await?;
    let Some(mut after) = seen.replace(end) else { return Ok(sample) };
    let page =
        Page::new(Page::MAX).map_err(|error| StoreError::Defect(error.to_string().into()))?;
    let mut latencies = Vec::new();
    for _ in 0..PAGES_MAX {
        if after >= end {
            break;
        }
        let found = store.completions(all, after, page).await?;
        for entry in &found.items {
            match entry.state {
                TxState::Confirmed => sample.confirmed += 1,
                _ => sample.failed += 1,
            }
            let took = entry.at.since(entry.tx_id.time()).as_millis();
            latencies.push(u64::try_from(took).unwrap_or(u64::MAX));
        }
        after = found.next(after, page);
        *seen = Some(after.max(end));
        if found.items.len() < page.limit() as usize {
            break;
        }
    }
    sample.confirmed += end.get().saturating_sub(after.get());
    sample.latency_ms = percentiles(&mut latencies);
    Ok(sample)
}

/// The load of the first page of submitters of each chain.
async fn open_counts(store: &dyn Store, chains: &[ChainId]) -> Result<OpenCounts, StoreError> {
    let mut open = OpenCounts::default();
    let page =
        Page::new(Page::MAX).map_err(|error| StoreError::Defect(error.to_string().into()))?;
    for chain in chains {
        for submitter in store.submitters(*chain, None, page).await? {
            submitter.depth.iter().for_each(|(state, count)| open.add(*state, *count));
        }
    }
    Ok(open)
}

fn percentiles(latencies: &mut [u64]) -> Option<(u64, u64)> {
    latencies.sort_unstable();
    let at = |share: usize| latencies.get((latencies.len().checked_sub(1)?) * share / 100).copied();
    Some((at(50)?, at(95)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_sample_makes_room_for_the_newest() {
        let samples = Samples::default();
        for confirmed in 0..=SAMPLES_MAX as u64 {
            samples.push(Sample { confirmed, ..Sample::default() });
        }
        let kept = samples.all();
        assert_eq!((kept.len(), kept[0].confirmed), (SAMPLES_MAX, 1));
    }

    #[test]
    fn percentiles_of_few_values_are_among_them() {
        assert_eq!(percentiles(&mut []), None);
        assert_eq!(percentiles(&mut [7]), Some((7, 7)));
        let mut hundred: Vec<u64> = (0..100).rev().collect();
        assert_eq!(percentiles(&mut hundred), Some((49, 94)));
    }
}
