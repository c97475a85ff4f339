//! When an event that a receiver did not take is sent again, and when it becomes a dead letter.
//!
//! A receiver that takes nothing is down: its events wait for it, for as long as the log keeps them. An event
//! that fails while others are taken is at fault itself: after some tries it is put aside, so that it delays
//! only the events of its own transaction.

use std::time::Duration;

/// The longest pause that a receiver can ask for (I13).
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// The limits of retries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryRules {
    /// Failures of an event, while others are taken, after which it becomes a dead letter.
    pub failures_max: u32,
    /// The pause after the first failure; each further one is twice as long.
    pub pause_first: Duration,
    pub pause_max: Duration,
}

/// The failures of an event that was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// All failures.
    pub total: u32,
    /// Those before which the receiver had taken another event since the failure before.
    pub counted: u32,
    /// The number of events that the receiver had taken at the last failure.
    taken: u64,
}

impl Failures {
    /// Adds a failure of an event whose first try began when the receiver had taken `taken_at_start` events,
    /// with the number that it has taken by now.
    #[must_use]
    pub fn and_one(self, taken_at_start: u64, taken: u64) -> Self {
        let known = if self.total == 0 { taken_at_start } else { self.taken };
        Self {
            total: self.total.saturating_add(1),
            counted: self.counted.saturating_add(u32::from(taken > known)),
            taken,
        }
    }
}

/// The consequence of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterFailure {
    RetryIn(Duration),
    /// The event becomes a dead letter.
    Bury,
}

/// Decides what follows a failure. `random` spreads the pauses.
pub fn after_failure(
    rules: &DeliveryRules,
    failures: Failures,
    retry_after: Option<Duration>,
    random: u64,
) -> AfterFailure {
    if failures.counted >= rules.failures_max {
        return AfterFailure::Bury;
    }
    let doublings = failures.total.saturating_sub(1).min(20);
    let pause = rules.pause_first.saturating_mul(1 << doublings).min(rules.pause_max);
    // Half of it is at random, so that what failed together is not sent together.
    let half = pause / 2;
    let permille = u32::try_from(random % 1_001).unwrap_or_default();
    let pause = half + half * permille / 1_000;
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    AfterFailure::RetryIn(pause.max(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: DeliveryRules = DeliveryRules {
        failures_max: 3,
        pause_first: Duration::from_secs(1),
        pause_max: Duration::from_secs(60),
    };

    fn pause(failures: Failures, random: u64) -> Duration {
        match after_failure(&RULES, failures, None, random) {
            AfterFailure::RetryIn(pause) => pause,
            AfterFailure::Bury => panic!("buried"),
        }
    }

    #[test]
    fn receiver_that_takes_nothing_is_waited_for_without_end() {
        let mut failures = Failures::default();
        for _ in 0..10_000 {
            failures = failures.and_one(7, 7);
            assert!(pause(failures, 1_000) <= RULES.pause_max);
        }
        // It is back and takes others: only failures from now on count.
        failures = failures.and_one(7, 9);
        assert_eq!(failures.counted, 1);
        failures = failures.and_one(7, 10);
        assert!(matches!(after_failure(&RULES, failures, None, 0), AfterFailure::RetryIn(_)));
        failures = failures.and_one(7, 11);
        assert_eq!(after_failure(&RULES, failures, None, 0), AfterFailure::Bury);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_half_of_each_is_random() {
        let mut failures = Failures::default();
        let mut longest = Vec::new();
        for _ in 0..8 {
            failures = failures.and_one(0, 0);
            let (least, most) = (pause(failures, 0), pause(failures, 1_000));
            assert_eq!(least * 2, most);
            longest.push(most.as_secs());
        }
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn pause_that_the_receiver_asks_for_is_kept_up_to_a_bound() {
        let failures = Failures::default().and_one(0, 0);
        for (asked, expected) in [(90, 90), (86_400, 600)] {
            let asked = Some(Duration::from_secs(asked));
            let expected = AfterFailure::RetryIn(Duration::from_secs(expected));
            assert_eq!(after_failure(&RULES, failures, asked, 0), expected);
        }
    }
}
