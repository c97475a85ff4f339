//! The rate limit of a key, and the headers that tell what is left of it
//! (draft-ietf-httpapi-ratelimit-headers-10).

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tollgate_api::ErrorCode;
use tollgate_model::access::RateLimit;

use crate::http::problem::Problem;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Counts the requests of one key at this node.
pub(super) struct KeyLimiter {
    pub(super) limit: RateLimit,
    limiter: RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>,
}

/// A request that was counted against the rate of its key, if that has one. On an answer: what is left once its
/// items were counted as well.
#[derive(Clone, Default)]
pub(crate) struct Counted(Option<Used>);

impl Counted {
    /// A request of a key with this limiter.
    pub(super) fn by(limiter: Option<&KeyLimiter>) -> Self {
        Self(limiter.map(KeyLimiter::count))
    }

    /// The items of a batch, of which the request itself has counted as one.
    pub(super) fn batch_by(limiter: Option<&KeyLimiter>, items: usize) -> Result<Self, Problem> {
        Ok(Self(limiter.map(|limiter| limiter.count_batch(items)).transpose()?.flatten()))
    }

    /// Refuses the request if it is one too many.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.0.as_ref().map_or(Ok(()), Used::check)
    }

    /// Returns whether anything was counted.
    pub(crate) const fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Writes the headers of the answer.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if let Some(used) = &self.0 {
            used.write(headers);
        }
    }
}

/// The rest of a key's rate after a request.
#[derive(Clone)]
struct Used {
    limit: RateLimit,
    left: u32,
    /// If the request is one too many: the time until the next one is possible.
    wait: Option<Duration>,
}

impl KeyLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        let number = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(number(limit.per_second()));
        let limiter = RateLimiter::direct(quota.allow_burst(number(limit.burst())));
        Self { limit, limiter: limiter.with_middleware() }
    }

    /// Counts a request.
    fn count(&self) -> Used {
        let limit = self.limit;
        match self.limiter.check() {
            Ok(state) => Used { limit, left: state.remaining_burst_capacity(), wait: None },
            Err(until) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                Used { limit, left: 0, wait: Some(wait) }
            }
        }
    }

    /// Counts the items of a batch but the first, for which the request has counted. One with more items than the
    /// burst could never pass, and is refused for good.
    fn count_batch(&self, items: usize) -> Result<Option<Used>, Problem> {
        let limit = self.limit;
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        if items > limit.burst() {
            let what = format!(
                "{items} items are more than this key may create at once, {}; send smaller batches",
                limit.burst()
            );
            return Err(Problem::of_field(ErrorCode::InvalidBatch, "items", what));
        }
        let Some(more) = NonZeroU32::new(items.saturating_sub(1)) else { return Ok(None) };
        // Less than the burst always fits at some time.
        let Ok(counted) = self.limiter.check_n(more) else { return Err(Problem::defect()) };
        Ok(Some(match counted {
            Ok(state) => Used { limit, left: state.remaining_burst_capacity(), wait: None },
            Err(until) => {
                // The repeat counts for its first item again.
                let first = Duration::from_secs(1) / limit.per_second();
                let wait = until.wait_time_from(DefaultClock::default().now()) + first;
                Used { limit, left: 0, wait: Some(wait) }
            }
        }))
    }
}

impl Used {
    fn check(&self) -> Result<(), Problem> {
        let Some(_) = self.wait else { return Ok(()) };
        let per_second = self.limit.per_second();
        let detail = format!("the key's limit of {per_second} requests per second is used up");
        Err(Problem::new(ErrorCode::RateLimited, detail))
    }

    fn write(&self, headers: &mut HeaderMap) {
        let (rate, burst) = (self.limit.per_second(), self.limit.burst());
        let missing = burst.saturating_sub(self.left);
        let policy = format!("\"key\";q={burst};w={}", burst.div_ceil(rate));
        let state = format!("\"key\";r={};t={}", self.left, missing.div_ceil(rate));
        for (name, value) in [(POLICY, policy), (STATE, state)] {
            headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        }
        if let Some(wait) = self.wait {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
    }
}

/// Rounded up: whoever waits that long is not refused again.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_beyond_the_burst_is_refused_with_the_time_to_wait() {
        let limiter = KeyLimiter::new(RateLimit::new(1, 3).unwrap());
        let left: Vec<_> = (0..3).map(|_| limiter.count()).collect();
        assert!(left.iter().all(|used| used.check().is_ok()));
        assert_eq!(left.iter().map(|used| used.left).collect::<Vec<_>>(), [2, 1, 0]);
        let refused = limiter.count();
        assert_eq!(refused.check().unwrap_err().code, ErrorCode::RateLimited);
        let mut headers = HeaderMap::new();
        refused.write(&mut headers);
        assert_eq!(headers["ratelimit-policy"], "\"key\";q=3;w=3");
        assert_eq!(headers["ratelimit"], "\"key\";r=0;t=3");
        assert_eq!(headers["retry-after"], "1");
    }

    #[test]
    fn batch_counts_as_many_requests_as_it_has_items() {
        let limiter = KeyLimiter::new(RateLimit::new(1, 10).unwrap());
        assert_eq!(limiter.count().left, 9);
        assert_eq!(limiter.count_batch(6).unwrap().unwrap().left, 4);
        assert_eq!(limiter.count().left, 3);
        let refused = limiter.count_batch(10).unwrap().unwrap();
        assert_eq!(refused.check().unwrap_err().code, ErrorCode::RateLimited);
        let wait = whole_seconds(refused.wait.unwrap());
        assert_eq!(wait, 7, "six more for the other items, one for the repeat itself");
        assert_eq!(limiter.count().left, 2, "what is refused takes nothing");
    }

    #[test]
    fn batch_larger_than_the_burst_is_refused_for_good() {
        let limiter = KeyLimiter::new(RateLimit::new(1, 10).unwrap());
        let refused = limiter.count_batch(11).err().unwrap();
        assert_eq!(refused.code, ErrorCode::InvalidBatch);
        assert!(refused.body.detail.contains("10"), "{}", refused.body.detail);
        assert!(limiter.count_batch(1).unwrap().is_none(), "its request has counted");
    }

    #[test]
    fn wait_is_rounded_up_to_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_millis(2_001)), 3);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
    }
}
