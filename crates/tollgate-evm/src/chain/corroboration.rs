//! Decides when the reading of a single endpoint is enough although several are configured.
//!
//! Pure: time is an argument. A reading that makes a transaction final or puts an account into PROTECT
//! needs two endpoints (I8, I12): late is safe. But an endpoint that never answers, or has no such data,
//! must not block everything for ever (I15). So one reading is enough after no second endpoint gave one
//! for
//! [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::router::Router;

/// Readings further apart than this don't show that there was no second one between them.
const READINGS_APART_MAX: Duration = Duration::from_secs(15 * 60);

/// Since when only one endpoint has answered a question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SingleSource {
    /// The first and the last time, since when there was one reading at most.
    alone: Option<(Instant, Instant)>,
}

impl SingleSource {
    /// Returns whether this many readings are enough, with this many endpoints configured.
    pub(super) fn is_enough(
        &mut self,
        readings: usize,
        configured: usize,
        now: Instant,
        after: Duration,
    ) -> bool {
        if readings >= configured.min(2) {
            self.alone = None;
            return readings > 0;
        }
        let known = self.alone.filter(|(_, last)| {
            now.saturating_duration_since(*last) <= READINGS_APART_MAX.max(after)
        });
        let first = known.map_or(now, |(first, _)| first);
        self.alone = Some((first, now));
        readings > 0 && now.saturating_duration_since(first) >= after
    }
}

/// The [`SingleSource`] of a question whose answer does not depend on an account: endpoints differ in
/// which data they keep.
#[derive(Debug, Default)]
pub(super) struct ChainSource(Mutex<SingleSource>);

impl ChainSource {
    /// Returns whether this many readings are enough now.
    pub(super) fn is_enough(&self, readings: usize, router: &Router) -> bool {
        let mut single = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (readers, after) = (router.readers_configured(), router.config.single_source_after);
        single.is_enough(readings, readers, Instant::now(), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(300);

    #[test]
    fn one_reading_is_enough_only_after_a_long_time_without_a_second_one() {
        let (mut single, now) = (SingleSource::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert!(single.is_enough(2, 3, now, AFTER));
        assert!(!single.is_enough(1, 2, now, AFTER));
        assert!(!single.is_enough(1, 2, now + AFTER - second, AFTER));
        assert!(single.is_enough(1, 2, now + AFTER, AFTER));
        assert!(single.is_enough(2, 2, now + AFTER, AFTER), "the other is back");
        assert!(!single.is_enough(1, 2, now + AFTER + second, AFTER), "the time begins anew");
        assert!(!single.is_enough(0, 2, now + AFTER * 9, AFTER), "nothing is never enough");
    }

    #[test]
    fn one_reading_is_enough_where_one_endpoint_is_configured() {
        let (mut single, now) = (SingleSource::default(), Instant::now());
        assert!(single.is_enough(1, 1, now, AFTER));
        assert!(!single.is_enough(0, 1, now, AFTER));
    }

    #[test]
    fn readings_far_apart_do_not_add_up_to_a_long_time() {
        let (mut single, now) = (SingleSource::default(), Instant::now());
        assert!(!single.is_enough(1, 2, now, AFTER));
        assert!(!single.is_enough(1, 2, now + READINGS_APART_MAX + AFTER, AFTER));
    }
}
