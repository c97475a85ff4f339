//! The health of an endpoint, from the outcomes of its calls.
//!
//! Pure: time is an argument. A node's answer about a transaction (a nonce, a revert, a price) is no sign
//! of ill health: otherwise one nonce error could make all endpoints look broken.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row after which an endpoint rests.
const FAILURES_TO_REST: u32 = 3;
/// After a failure that took this long the endpoint rests at once, for as long as it took.
const FAILURE_IS_SLOW: Duration = Duration::from_secs(1);
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(30);
/// Refused calls in a row that show a rate limit, if none of them says how long it lasts. A balancer with one
/// exhausted node among several refuses a share of the calls: that is a loss, and no limit.
const REFUSALS_TO_LIMIT: u32 = 3;
const LIMIT_MIN: Duration = Duration::from_secs(1);
/// The longest rate limit without `Retry-After`. The endpoint gets no calls meanwhile, so this is also how
/// late its end is noticed.
const LIMIT_MAX: Duration = Duration::from_secs(15);
/// The longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The time for which other endpoints are preferred for sends after one was not answered; twice as long
/// after each further one. Reads that are answered do not shorten it: some endpoints answer reads and no sends.
const SENDS_ELSEWHERE_MIN: Duration = Duration::from_secs(5);
const SENDS_ELSEWHERE_MAX: Duration = Duration::from_secs(300);
/// The weight of the newest latency in the average.
const LATENCY_WEIGHT: f64 = 0.2;

/// An endpoint's latency, failures and rate limits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Health {
    /// The moving average of the time that a call takes, in seconds.
    pub latency_seconds: Option<f64>,
    /// Failures since the last success.
    pub failures: u32,
    /// Calls that were refused because of a rate limit since the last success.
    refusals: u32,
    /// Rate limits since the last success.
    pub limits: u32,
    /// When a call was last answered.
    pub last_success: Option<Instant>,
    rests_until: Option<Instant>,
    limited_until: Option<Instant>,
    /// Sends without an answer since the last one that was answered.
    pub unanswered_sends: u32,
    sends_elsewhere_until: Option<Instant>,
}

impl Health {
    /// Notes a call that was answered, whatever the answer tells about a transaction.
    pub fn answered(&mut self, now: Instant, took: Duration) {
        let took = took.as_secs_f64();
        self.latency_seconds = Some(match self.latency_seconds {
            Some(average) => average + (took - average) * LATENCY_WEIGHT,
            None => took,
        });
        self.failures = 0;
        (self.refusals, self.limits) = (0, 0);
        self.rests_until = None;
        self.last_success = Some(now);
    }

    /// Notes a call that was not answered, or not by a node, and how long it took.
    pub fn failed(&mut self, now: Instant, took: Duration) {
        self.failures = self.failures.saturating_add(1);
        let often = self.failures.checked_sub(FAILURES_TO_REST);
        let often = often.map(|doublings| grown(REST_MIN, doublings, REST_MAX));
        let slow = (took >= FAILURE_IS_SLOW).then_some(took.min(REST_MAX));
        if let Some(rest) = often.max(slow) {
            self.rests_until = self.rests_until.max(Some(now + rest));
        }
    }

    /// Notes whether a send was answered.
    pub fn note_send(&mut self, now: Instant, is_answered: bool) {
        if is_answered {
            (self.unanswered_sends, self.sends_elsewhere_until) = (0, None);
            return;
        }
        let pause = grown(SENDS_ELSEWHERE_MIN, self.unanswered_sends, SENDS_ELSEWHERE_MAX);
        self.unanswered_sends = self.unanswered_sends.saturating_add(1);
        self.sends_elsewhere_until = Some(now + pause);
    }

    /// Returns whether sends go to other endpoints first, because some were not answered.
    pub fn leaves_sends(&self, now: Instant) -> bool {
        self.sends_elsewhere_until.is_some_and(|until| now < until)
    }

    /// Notes calls that were refused because of a rate limit; returns whether the endpoint is limited.
    pub fn refused(&mut self, now: Instant, retry_after: Option<Duration>, calls: u32) -> bool {
        self.refusals = self.refusals.saturating_add(calls);
        if retry_after.is_none() && self.refusals < REFUSALS_TO_LIMIT {
            return false;
        }
        // Calls that were in flight together report the same limit.
        if self.is_limited(now) && retry_after.is_none() {
            return true;
        }
        let rest = match retry_after {
            Some(time) => time.min(RETRY_AFTER_MAX),
            None => grown(LIMIT_MIN, self.limits, LIMIT_MAX),
        };
        self.limits = self.limits.saturating_add(1);
        self.limited_until = Some(now + rest);
        true
    }

    /// Returns whether it gets no calls because of a rate limit.
    pub fn is_limited(&self, now: Instant) -> bool {
        self.limited_until(now).is_some()
    }

    /// Until when it gets no calls because of a rate limit.
    pub fn limited_until(&self, now: Instant) -> Option<Instant> {
        self.limited_until.filter(|until| now < *until)
    }

    /// Returns whether it gets no calls while another endpoint can be asked.
    pub fn is_resting(&self, now: Instant) -> bool {
        self.is_limited(now) || self.rests_until.is_some_and(|until| now < until)
    }

    /// The expected time of a call; zero for an endpoint that was never called, so that it is tried.
    pub fn expected(&self) -> Duration {
        let latency = Duration::from_secs_f64(self.latency_seconds.unwrap_or(0.0));
        // Failures count before they lead to a rest, so that a flaky endpoint comes second.
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
    fn endpoint_rests_for_as_long_as_a_slow_failure_took() {
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
    fn sends_go_elsewhere_after_unanswered_ones_though_reads_are_answered() {
        let (mut health, now) = (Health::default(), Instant::now());
        let second = Duration::from_secs(1);
        health.note_send(now, false);
        health.answered(now, MS);
        assert!(health.leaves_sends(now + 4 * second) && !health.leaves_sends(now + 5 * second));
        health.note_send(now, false);
        assert!(health.leaves_sends(now + 9 * second), "longer each time");
        for _ in 0..100 {
            health.note_send(now, false);
        }
        assert!(!health.leaves_sends(now + 300 * second), "it is tried again");
        health.note_send(now, true);
        assert!(!health.leaves_sends(now));
    }

    #[test]
    fn rate_limit_lasts_as_long_as_retry_after_says() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.refused(now, Some(Duration::from_secs(7)), 1);
        assert!(health.is_limited(now + Duration::from_secs(6)));
        assert!(!health.is_limited(now + Duration::from_secs(7)));
        health.refused(now, Some(Duration::from_secs(1 << 40)), 1);
        assert!(!health.is_limited(now + RETRY_AFTER_MAX), "it has a cap");
        assert_eq!(health.failures, 0, "a limit is no failure");
    }

    /// Returns how long a limit without `Retry-After` lasts that begins now.
    fn limit_seconds(health: &mut Health, now: Instant) -> u64 {
        while !health.refused(now, None, 1) {}
        (1..).find(|seconds| !health.is_limited(now + Duration::from_secs(*seconds))).unwrap()
    }

    #[test]
    fn limits_without_retry_after_grow_until_the_endpoint_answers() {
        let (mut health, now) = (Health::default(), Instant::now());
        let at = |minutes: u64| now + Duration::from_secs(60 * minutes);
        assert_eq!(limit_seconds(&mut health, now), 1);
        assert_eq!(limit_seconds(&mut health, now), 1, "at the same time it is the same limit");
        assert_eq!([1, 2, 3, 4].map(|n| limit_seconds(&mut health, at(n))), [2, 4, 8, 15]);
        health.answered(at(5), MS);
        assert_eq!(limit_seconds(&mut health, at(5)), 1, "it begins anew");
        health.answered(at(6), MS);
        for _ in 0..2 {
            health.refused(at(6), None, 1);
        }
        assert!(!health.is_limited(at(6)), "a share of the calls is refused");
        health.answered(at(6), MS);
        health.refused(at(6), None, 1);
        assert!(!health.is_limited(at(6)), "not in a row");
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
