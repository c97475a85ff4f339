//! Routes: the endpoints that a transaction may be shown to.
//!
//! Pure functions. A private transaction goes to the chain's private endpoints alone, so that nobody sees it
//! before it is mined; it becomes public only if its caller said so, after the time that the caller named.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The endpoints that see a transaction's bytes, hash and call while it is not mined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Route {
    /// Those for public reads and sends.
    Public,
    /// Those with the role `private`.
    Private,
}

impl Route {
    /// All routes.
    pub const ALL: [Self; 2] = [Self::Public, Self::Private];

    /// The name in the API and in the audit trail.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

/// The longest time after which a private transaction may become public: 30 days.
pub const FALLBACK_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A caller's wish that a transaction is sent to private endpoints. Part of the stored intent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrivateRoute {
    /// The time after the first signature, in microseconds, after which public endpoints get it as well; `None`
    /// if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_micros: Option<u64>,
}

impl PrivateRoute {
    /// Returns whether a caller may name this time: above zero, and at most [`FALLBACK_MAX`].
    pub fn may_fall_back_after(after: Duration) -> bool {
        !after.is_zero() && after <= FALLBACK_MAX
    }

    /// Falls back after this time.
    pub fn with_fallback(after: Option<Duration>) -> Self {
        let micros = |after: Duration| u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        Self { fallback_micros: after.map(micros) }
    }

    /// The time after which it falls back.
    pub fn fallback_after(&self) -> Option<Duration> {
        self.fallback_micros.map(Duration::from_micros)
    }
}

/// The route of a transaction now. `signed_at` is when its first attempt was signed: a transaction that waited for
/// its slot has had no private time yet. Public once means public for ever.
pub fn route_at(
    private: Option<PrivateRoute>,
    signed_at: Option<Timestamp>,
    now: Timestamp,
) -> Route {
    let Some(private) = private else { return Route::Public };
    let fallback = signed_at.zip(private.fallback_after());
    match fallback.is_some_and(|(signed_at, after)| now >= signed_at.after(after)) {
        true => Route::Public,
        false => Route::Private,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::at;

    #[test]
    fn private_transaction_stays_private_unless_its_caller_named_a_time() {
        let private = Some(PrivateRoute::default());
        for now in [at(0), at(1_000_000), Timestamp::from_unix_micros(i64::MAX)] {
            assert_eq!(route_at(private, Some(at(0)), now), Route::Private);
            assert_eq!(route_at(None, Some(at(0)), now), Route::Public);
        }
    }

    #[test]
    fn fallback_time_is_above_zero_and_at_most_thirty_days() {
        let microsecond = Duration::from_micros(1);
        let allowed = [microsecond, FALLBACK_MAX].map(PrivateRoute::may_fall_back_after);
        assert_eq!(allowed, [true, true]);
        let refused =
            [Duration::ZERO, FALLBACK_MAX + microsecond].map(PrivateRoute::may_fall_back_after);
        assert_eq!(refused, [false, false]);
    }

    #[test]
    fn fallback_counts_from_the_first_signature() {
        let private = Some(PrivateRoute::with_fallback(Some(Duration::from_secs(60))));
        assert_eq!(route_at(private, None, at(9_999)), Route::Private, "it waits for its slot");
        assert_eq!(route_at(private, Some(at(100)), at(159)), Route::Private);
        assert_eq!(route_at(private, Some(at(100)), at(160)), Route::Public);
        let longest = Some(PrivateRoute::with_fallback(Some(Duration::MAX)));
        assert_eq!(route_at(longest, Some(at(0)), at(1_000_000)), Route::Private);
    }
}
