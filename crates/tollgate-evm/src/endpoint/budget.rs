//! Limits the reads of an endpoint that has a quota. The rate is learnt from its rate limits.
//!
//! Pure: time is an argument. Without a rate limit there is no budget. After one, reads get half of the
//! rate that the endpoint last answered, growing by 5 % each second until the next rate limit. Sends are
//! never held back, so the other half is theirs: a node that catches up after an outage can't use up the
//! quota that its sends need (I15).

use std::time::Duration;

use tokio::time::Instant;

/// The lowest rate, in reads per second.
const RATE_MIN: f64 = 1.0;
/// Above this rate, in reads per second, the budget ends.
const RATE_MAX: f64 = 1_000.0;
/// The factor of the rate after a rate limit.
const CUT: f64 = 0.5;
/// The growth of the rate per second.
const GROWTH: f64 = 1.05;
const SECOND: Duration = Duration::from_secs(1);

/// The read budget of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// Reads per second; `None` without a limit.
    rate: Option<f64>,
    /// Reads that are allowed now; negative after a larger batch.
    left: f64,
    filled_at: Option<Instant>,
    cut_at: Option<Instant>,
    /// Calls in this second and in the one before it.
    calls: Option<Calls>,
}

#[derive(Clone, Copy, Debug)]
struct Calls {
    since: Instant,
    now: u32,
    before: u32,
}

impl Budget {
    /// Takes this many reads, or returns when to try again.
    pub(super) fn take(&mut self, count: u32, now: Instant) -> Result<(), Instant> {
        self.fill(now);
        let Some(rate) = self.rate else { return Ok(()) };
        let count = f64::from(count);
        // A batch larger than the rate is let through, and later reads wait for it.
        let missing = count.min(rate) - self.left;
        // Rounding errors are not waited for.
        if missing > 1e-6 {
            return Err(now + Duration::from_secs_f64(missing / rate));
        }
        self.left -= count;
        Ok(())
    }

    /// Notes calls that were sent, reads and sends.
    pub(super) fn note_calls(&mut self, count: u32, now: Instant) {
        let calls = self.calls.get_or_insert(Calls { since: now, now: 0, before: 0 });
        let elapsed = now.saturating_duration_since(calls.since);
        if elapsed >= SECOND {
            let before = if elapsed < SECOND * 2 { calls.now } else { 0 };
            *calls = Calls { since: now, now: 0, before };
        }
        calls.now = calls.now.saturating_add(count);
    }

    /// Notes a rate limit.
    pub(super) fn note_limit(&mut self, now: Instant) {
        self.fill(now);
        // Calls that were in flight together report the same limit.
        if self.cut_at.is_some_and(|at| now.saturating_duration_since(at) < SECOND) {
            return;
        }
        let made = self.calls.map_or(0, |calls| calls.now.max(calls.before));
        let rate = self.rate.unwrap_or(f64::INFINITY).min(f64::from(made));
        self.rate = Some((rate * CUT).max(RATE_MIN));
        (self.left, self.cut_at) = (0.0, Some(now));
    }

    fn fill(&mut self, now: Instant) {
        let filled_at = self.filled_at.replace(now).unwrap_or(now);
        let seconds = now.saturating_duration_since(filled_at).as_secs_f64();
        let Some(rate) = self.rate else { return };
        let rate = rate * GROWTH.powf(seconds);
        self.rate = (rate <= RATE_MAX).then_some(rate);
        self.left = (self.left + rate * seconds).min(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reads that are granted within this many seconds.
    fn granted(budget: &mut Budget, from: Instant, seconds: u32) -> u32 {
        let (mut now, mut count) = (from, 0);
        while now < from + SECOND * seconds {
            match budget.take(1, now) {
                Ok(()) => count += 1,
                Err(at) => now = at,
            }
        }
        count
    }

    #[test]
    fn endpoint_without_rate_limits_has_no_budget() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        for _ in 0..100_000 {
            assert_eq!(budget.take(1, now), Ok(()));
        }
    }

    #[test]
    fn reads_get_half_of_the_answered_rate_and_more_each_second() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        budget.note_calls(40, now);
        budget.note_limit(now);
        let first = granted(&mut budget, now, 1);
        assert!((18..=22).contains(&first), "{first}");
        let later = granted(&mut budget, now + SECOND * 10, 1);
        assert!(later > first, "{later}");
        assert_eq!(budget.take(1, now + SECOND * 200), Ok(()));
        assert!(budget.rate.is_none(), "the budget ends");
    }

    #[test]
    fn limits_of_calls_that_were_under_way_together_count_once() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        budget.note_calls(64, now);
        for _ in 0..32 {
            budget.note_limit(now);
        }
        assert_eq!(budget.rate, Some(32.0));
        for second in 1..100 {
            budget.note_limit(now + SECOND * second);
        }
        assert!(granted(&mut budget, now + SECOND * 99, 3) >= 2, "never less than one in a second");
    }

    #[test]
    fn batch_larger_than_the_rate_is_let_through_and_paid_for_afterwards() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        budget.note_calls(20, now);
        budget.note_limit(now);
        let at = budget.take(50, now).unwrap_err();
        assert!(at <= now + SECOND * 2);
        assert_eq!(budget.take(50, at), Ok(()));
        let next = budget.take(1, at).unwrap_err();
        assert!(next >= at + SECOND * 3, "{:?}", next - at);
    }
}
