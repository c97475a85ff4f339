//! When one endpoint's reading is enough, though several endpoints are configured.
//!
//! Pure: time is an argument. What makes a transaction final or puts an account into PROTECT takes
//! the readings of two endpoints (I8, I12): late is safe. But an endpoint that is silent for ever,
//! empty, or without what is asked for must not hold everything up for ever (I15). So one reading is
//! enough once no second one was heard for
//! [`ChainConfig::lone_voice_after`](super::ChainConfig::lone_voice_after).

use std::time::Duration;

use tokio::time::Instant;

/// Looks further apart than this don't show that nobody was heard between them.
const LOOKS_APART_MAX: Duration = Duration::from_secs(15 * 60);

/// Since when a question has had the answer of one endpoint only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoneVoice {
    /// The first and the last look since which there was one reading at most.
    looks: Option<(Instant, Instant)>,
}

impl LoneVoice {
    /// Whether so many readings are enough, of so many endpoints that are configured.
    pub(super) fn is_enough(
        &mut self,
        readings: usize,
        configured: usize,
        now: Instant,
        after: Duration,
    ) -> bool {
        if readings >= configured.min(2) {
            self.looks = None;
            return readings > 0;
        }
        let known = self
            .looks
            .filter(|(_, last)| now.saturating_duration_since(*last) <= LOOKS_APART_MAX.max(after));
        let first = known.map_or(now, |(first, _)| first);
        self.looks = Some((first, now));
        readings > 0 && now.saturating_duration_since(first) >= after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(300);

    #[test]
    fn one_reading_is_enough_only_after_no_second_one_was_heard_for_long() {
        let (mut lone, now) = (LoneVoice::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert!(lone.is_enough(2, 3, now, AFTER));
        assert!(!lone.is_enough(1, 2, now, AFTER));
        assert!(!lone.is_enough(1, 2, now + AFTER - second, AFTER));
        assert!(lone.is_enough(1, 2, now + AFTER, AFTER));
        assert!(lone.is_enough(2, 2, now + AFTER, AFTER), "the other is back");
        assert!(!lone.is_enough(1, 2, now + AFTER + second, AFTER), "the time begins anew");
        assert!(!lone.is_enough(0, 2, now + AFTER * 9, AFTER), "nothing is never enough");
    }

    #[test]
    fn one_reading_is_enough_where_one_endpoint_is_configured() {
        let (mut lone, now) = (LoneVoice::default(), Instant::now());
        assert!(lone.is_enough(1, 1, now, AFTER));
        assert!(!lone.is_enough(0, 1, now, AFTER));
    }

    #[test]
    fn two_looks_far_apart_do_not_show_that_nobody_was_heard_between_them() {
        let (mut lone, now) = (LoneVoice::default(), Instant::now());
        assert!(!lone.is_enough(1, 2, now, AFTER));
        assert!(!lone.is_enough(1, 2, now + LOOKS_APART_MAX + AFTER, AFTER));
    }
}
