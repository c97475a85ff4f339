//! Warns about endpoints that contradict the others.
//!
//! Owns since when which endpoint differs about what. Most short differences are lag or readings during a
//! change of head, so the caller says how long one must last. The warning names the endpoint, its claim,
//! the claims of all endpoints and the value that is used. Where nothing but the endpoints' votes tells who
//! is wrong and no majority agrees, it names all claims and blames none.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::ChainId;

/// The time for which an endpoint must differ before a warning says so, where it may only lag.
pub(super) const LASTING: Duration = Duration::from_secs(30);
/// The interval at which the warning about the same endpoint and subject is repeated.
const WARNING_INTERVAL: Duration = Duration::from_secs(600);
/// A difference that was not noted for so long is a new one.
const NOTES_APART_MAX: Duration = Duration::from_secs(120);
/// Differences that are remembered (I13); then all are forgotten.
const REMEMBERED_MAX: usize = 4_096;

/// An endpoint's claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    endpoint: String,
    claimed: String,
}

impl Claim {
    pub(super) fn new(endpoint: &str, claimed: impl Display) -> Self {
        Self { endpoint: endpoint.to_owned(), claimed: claimed.to_string() }
    }
}

/// The evidence of which endpoint is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Basis {
    /// The value that is used is shown by more than the claims: whoever differs from it is wrong.
    Evidence,
    /// The claims alone: an endpoint is wrong that differs from what most of them claim.
    Votes,
}

/// The subject of claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The kind of value.
    pub(super) what: &'static str,
    /// The owner of the value, for example an account; empty for the chain.
    pub(super) of: &'a str,
}

/// A difference that goes on.
#[derive(Clone, Copy, Debug)]
struct Difference {
    since: Instant,
    noted_at: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// By endpoint, subject and what the claim is about.
    differences: HashMap<(String, &'static str, String), Difference>,
    /// By endpoint and subject.
    warned_at: HashMap<(String, &'static str), Instant>,
}

/// The claims of all endpoints, for a log line.
fn listed(claims: &[Claim]) -> String {
    let all = claims.iter().map(|one| format!("{}: {}", one.endpoint, one.claimed));
    all.collect::<Vec<_>>().join("; ")
}

/// The contradictions between a chain's endpoints.
#[derive(Debug)]
pub(super) struct Disagreements {
    chain_id: ChainId,
    state: Mutex<State>,
}

impl Disagreements {
    pub(super) fn of_chain(chain_id: ChainId) -> Self {
        Self { chain_id, state: Mutex::default() }
    }

    /// Compares the endpoints' claims with the value that is used, and warns about those that have
    /// differed for this time; at most once in [`WARNING_INTERVAL`] for an endpoint and a subject.
    pub(super) fn note(
        &self,
        subject: Subject<'_>,
        used: impl Display,
        claims: &[Claim],
        (basis, lasting): (Basis, Duration),
    ) {
        let (used, now, chain_id) = (used.to_string(), Instant::now(), self.chain_id.get());
        let Subject { what, of } = subject;
        let right = match basis {
            Basis::Evidence => Some(used.as_str()),
            Basis::Votes => majority(claims),
        };
        let Some(right) = right else {
            let is_disputed = claims.iter().any(|one| one.claimed != claims[0].claimed);
            // No endpoint's name: the dispute is between all of them.
            let dispute = Claim::new("", if is_disputed { "disputed" } else { &used });
            if !self.due(subject, &used, &[dispute], lasting, now).is_empty() {
                let all = listed(claims);
                tracing::warn!(chain_id, what, of, used, all, "endpoints contradict each other");
            }
            return;
        };
        for Claim { endpoint, claimed } in self.due(subject, right, claims, lasting, now) {
            let all = listed(claims);
            tracing::warn!(
                chain_id,
                endpoint,
                what,
                of,
                claimed,
                used,
                all,
                "claim of an endpoint not used: the others do not confirm it"
            );
        }
    }

    /// Warns that nothing confirms or refutes these claims, of which one is used; as often as
    /// [`Self::note`]. No endpoint is blamed, because nothing tells which one is wrong.
    pub(super) fn note_undecided(
        &self,
        subject: Subject<'_>,
        used: impl Display,
        claims: &[Claim],
    ) {
        // No claim equals it, so that all of them are in question.
        const NO_CLAIM: &str = "";
        if !self.due(subject, NO_CLAIM, claims, Duration::ZERO, Instant::now()).is_empty() {
            let (Subject { what, of }, all) = (subject, listed(claims));
            let (used, chain_id) = (used.to_string(), self.chain_id.get());
            tracing::warn!(
                chain_id,
                what,
                of,
                used,
                all,
                "no second endpoint confirms any claim of the endpoints"
            );
        }
    }

    /// The claims to warn about now.
    fn due<'a>(
        &self,
        Subject { what, of }: Subject<'_>,
        used: &str,
        claims: &'a [Claim],
        lasting: Duration,
        now: Instant,
    ) -> Vec<&'a Claim> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { differences, warned_at } = &mut *state;
        if differences.len() + warned_at.len() >= REMEMBERED_MAX {
            differences.clear();
            warned_at.clear();
        }
        let mut due = Vec::new();
        for claim in claims {
            let key = (claim.endpoint.clone(), what, of.to_owned());
            if claim.claimed == used {
                differences.remove(&key);
                continue;
            }
            let new = Difference { since: now, noted_at: now };
            let difference = differences.entry(key).or_insert(new);
            if now.saturating_duration_since(difference.noted_at) > NOTES_APART_MAX {
                *difference = new;
            }
            difference.noted_at = now;
            let lasts = now.saturating_duration_since(difference.since) >= lasting;
            let is_recent = |at: &Instant| now.saturating_duration_since(*at) < WARNING_INTERVAL;
            let key = (claim.endpoint.clone(), what);
            if lasts && !warned_at.get(&key).is_some_and(is_recent) {
                warned_at.insert(key, now);
                due.push(claim);
            }
        }
        due
    }
}

/// The value that more than half of the endpoints claim, and more than one. A single claim is compared with
/// nothing.
fn majority(claims: &[Claim]) -> Option<&str> {
    let had_by = |value: &str| claims.iter().filter(|one| one.claimed == value).count();
    let values = claims.iter().map(|one| one.claimed.as_str());
    values.clone().find(|value| had_by(value) >= 2 && 2 * had_by(value) > claims.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_that_differs_for_long_is_named_once_in_a_while() {
        let (all, start) = (Disagreements::of_chain(ChainId::MIN), Instant::now());
        let note = |claimed: u64, seconds: u64| {
            let claims = [Claim::new("liar", claimed), Claim::new("honest", 10)];
            let (subject, now) =
                (Subject { what: "count", of: "0x1" }, start + Duration::from_secs(seconds));
            let due = all.due(subject, "10", &claims, LASTING, now);
            due.into_iter().map(|claim| claim.endpoint.clone()).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(note(5, 0), none);
        assert_eq!(note(10, 20), none, "it agrees: that was lag");
        assert_eq!(note(5, 40), none);
        assert_eq!(note(6, 69), none);
        assert_eq!(note(5, 70), ["liar"]);
        assert_eq!(note(5, 80), none, "not at each reading");
        assert_eq!(note(5, 700), none, "too far apart to be the same difference");
        assert_eq!(note(5, 730), ["liar"], "it lasts");
    }

    #[test]
    fn majority_needs_more_than_half_of_the_claims_and_two() {
        let among = |values: &[u64]| {
            let claims: Vec<_> = values.iter().map(|value| Claim::new("a", value)).collect();
            majority(&claims).map(str::to_owned)
        };
        assert_eq!(among(&[5, 0, 5]), Some("5".to_owned()));
        for without in [&[][..], &[5], &[5, 0], &[5, 0, 7], &[5, 5, 0, 0]] {
            assert_eq!(among(without), None, "{without:?}");
        }
    }
}
