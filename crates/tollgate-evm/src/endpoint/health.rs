//! How an endpoint is doing, from what its calls were like.
//!
//! Pure: time is an argument. What a node says about a transaction (a nonce, a revert, a price) is
//! no sign of ill health and never comes here; a nonce error that makes all endpoints look broken
//! is how others have stopped.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row after which an endpoint rests.
const FAILURES_TO_REST: u32 = 3;
/// A failure that took so long is one too many: the endpoint rests for as long as it took.
const FAILURE_IS_SLOW: Duration = Duration::from_secs(1);
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(30);
const LIMIT_MIN: Duration = Duration::from_secs(1);
/// The longest limit without a word on how long it lasts: nobody is asked meanwhile, so this is also how
/// late it is found out that it is over.
const LIMIT_MAX: Duration = Duration::from_secs(15);
/// The longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The weight of the newest latency in the average.
const LATENCY_WEIGHT: f64 = 0.2;

/// An endpoint's health.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Health {
    /// The moving average of the time that a call takes, in seconds.
    pub latency_seconds: Option<f64>,
    /// Failures since the last success.
    pub failures: u32,
    /// Rate limits since the last success.
    pub limits: u32,
    /// When it was last of use.
    pub last_success: Option<Instant>,
    rests_until: Option<Instant>,
    limited_until: Option<Instant>,
}

impl Health {
    /// A call was answered, whatever the answer says about a transaction.
    pub fn answered(&mut self, now: Instant, took: Duration) {
        let took = took.as_secs_f64();
        self.latency_seconds = Some(match self.latency_seconds {
            Some(average) => average + (took - average) * LATENCY_WEIGHT,
            None => took,
        });
        self.failures = 0;
        self.limits = 0;
        self.rests_until = None;
        self.last_success = Some(now);
    }

    /// A call was not answered, or not by a node, and that took so long.
    pub fn failed(&mut self, now: Instant, took: Duration) {
        self.failures = self.failures.saturating_add(1);
        let often = self.failures.checked_sub(FAILURES_TO_REST);
        let often = often.map(|doublings| grown(REST_MIN, doublings, REST_MAX));
        let slow = (took >= FAILURE_IS_SLOW).then_some(took.min(REST_MAX));
        if let Some(rest) = often.max(slow) {
            self.rests_until = self.rests_until.max(Some(now + rest));
        }
    }

    /// The endpoint's quota is used up.
    pub fn limited(&mut self, now: Instant, retry_after: Option<Duration>) {
        // Calls that were under way together say the same thing.
        if self.is_limited(now) && retry_after.is_none() {
            return;
        }
        let rest = match retry_after {
            Some(time) => time.min(RETRY_AFTER_MAX),
            None => grown(LIMIT_MIN, self.limits, LIMIT_MAX),
        };
        self.limits = self.limits.saturating_add(1);
        self.limited_until = Some(now + rest);
    }

    /// Whether it should be left alone because of its quota.
    pub fn is_limited(&self, now: Instant) -> bool {
        self.limited_until(now).is_some()
    }

    /// Until when it should be left alone because of its quota, if it should.
    pub fn limited_until(&self, now: Instant) -> Option<Instant> {
        self.limited_until.filter(|until| now < *until)
    }

    /// Whether it should be left alone while another one can be asked.
    pub fn is_resting(&self, now: Instant) -> bool {
        self.is_limited(now) || self.rests_until.is_some_and(|until| now < until)
    }

    /// The time that a call is expected to take; one that was never asked is worth a try.
    pub fn expected(&self) -> Duration {
        let latency = Duration::from_secs_f64(self.latency_seconds.unwrap_or(0.0));
        // Failures weigh before they lead to a rest, so that a flaky endpoint comes second.
        latency + Duration::from_secs(1) * self.failures
    }
}

fn grown(least: Duration, doublings: u32, most: Duration) -> Duration {
    least.saturating_mul(1 << doublings.min(16)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_endpoint_rests_after_a_few_failures_and_longer_each_time() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.failed(now, MS);
        health.failed(now, MS);
        assert!(!health.is_resting(now), "one lost packet is no outage");
        health.failed(now, MS);
        assert!(health.is_resting(now) && !health.is_resting(now + REST_MIN));
        health.failed(now, MS);
        assert!(health.is_resting(now + REST_MIN));
        for _ in 0..100 {
            health.failed(now, MS);
        }
        assert!(!health.is_resting(now + REST_MAX), "it is tried again, however long it is down");
        health.answered(now, MS);
        assert!(!health.is_resting(now));
    }

    #[test]
    fn an_endpoint_that_kept_somebody_waiting_rests_for_as_long() {
        let (mut health, now) = (Health::default(), Instant::now());
        let took = Duration::from_secs(5);
        health.failed(now, took);
        assert!(health.is_resting(now + took - MS) && !health.is_resting(now + took));
        for _ in 0..2 {
            health.failed(now, MS);
        }
        assert!(health.is_resting(now + took - MS), "a shorter rest ends none that is longer");
        health.answered(now, MS);
        assert!(!health.is_resting(now));
    }

    #[test]
    fn a_rate_limit_lasts_as_long_as_the_endpoint_says() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.limited(now, Some(Duration::from_secs(7)));
        assert!(health.is_limited(now + Duration::from_secs(6)));
        assert!(!health.is_limited(now + Duration::from_secs(7)));
        health.limited(now, Some(Duration::from_secs(1 << 40)));
        assert!(!health.is_limited(now + RETRY_AFTER_MAX), "not for ever on its word");
        assert_eq!(health.failures, 0, "a limit is no failure");
    }

    /// How long a limit lasts that begins now, without a word on that.
    fn limit_seconds(health: &mut Health, now: Instant) -> u64 {
        health.limited(now, None);
        (1..).find(|seconds| !health.is_limited(now + Duration::from_secs(*seconds))).unwrap()
    }

    #[test]
    fn limits_without_a_word_grow_until_the_endpoint_answers() {
        let (mut health, now) = (Health::default(), Instant::now());
        let at = |minutes: u64| now + Duration::from_secs(60 * minutes);
        assert_eq!(limit_seconds(&mut health, now), 1);
        assert_eq!(limit_seconds(&mut health, now), 1, "at the same time it is the same limit");
        assert_eq!([1, 2, 3, 4].map(|n| limit_seconds(&mut health, at(n))), [2, 4, 8, 15]);
        health.answered(at(5), MS);
        assert_eq!(limit_seconds(&mut health, at(5)), 1, "it begins anew");
    }

    #[test]
    fn a_flaky_endpoint_comes_after_a_slow_one() {
        let now = Instant::now();
        let (mut slow, mut flaky) = (Health::default(), Health::default());
        slow.answered(now, 400 * MS);
        flaky.answered(now, MS);
        assert!(flaky.expected() < slow.expected());
        flaky.failed(now, MS);
        assert!(slow.expected() < flaky.expected());
    }
}
