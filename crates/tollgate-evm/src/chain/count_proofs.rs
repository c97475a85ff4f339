//! Proves or contradicts an account's mined count that one endpoint alone claims.
//!
//! Owns, for each account, what was asked for and found. Pure: time is an argument, and
//! [`super::occupants::prove_slot`] reads the blocks. A claim is **shown** if the claimant has a block with the
//! last transaction that it counts, and **contradicted** if its own blocks lack that transaction, twice in a
//! row: one search may fall between two nodes behind one URL. Everything else is unknown, and ends after
//! [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after) (I15).

use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The pause after the first search; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Contradictions in a row that make a claim wrong.
const CONTRADICTIONS_NEEDED: u32 = 2;
/// The time for which a claimant is not believed. Then it may be another node behind the same URL.
const CONTRADICTED_FOR: Duration = Duration::from_secs(600);
/// Requests further apart than this are about different disputes.
const REQUESTS_APART_MAX: Duration = Duration::from_secs(15 * 60);

/// A mined count that one endpoint alone reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LoneClaim {
    pub(super) value: u64,
    /// The endpoint's place in the configuration.
    pub(super) place: usize,
}

/// The verdict of blocks about a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Shown,
    Contradicted,
    Unknown,
}

/// The requests for a proof of one claim.
#[derive(Clone, Copy, Debug)]
struct WantedProof {
    first: Instant,
    last: Instant,
    /// The highest claim, and since when.
    value: u64,
    value_since: Instant,
}

/// The proof of one account's count.
#[derive(Clone, Debug, Default)]
pub(super) struct CountProof {
    /// The present claim, if the count is disputed.
    pub(super) claim: Option<LoneClaim>,
    /// The highest count that was shown.
    proven: u64,
    /// The claim that is wrong, and since when.
    wrong: Option<(LoneClaim, Instant)>,
    contradictions: u32,
    wanted: Option<WantedProof>,
    searches: u32,
    due_at: Option<Instant>,
    task: Option<AbortHandle>,
}

impl CountProof {
    /// Ends a dispute. What was shown stays known, and so does who was wrong.
    pub(super) fn end(&mut self) {
        (self.claim, self.wanted, self.due_at) = (None, None, None);
        (self.contradictions, self.searches) = (0, 0);
    }

    /// Notes that the proof is wanted; returns the claim if a search is to begin now.
    pub(super) fn want(&mut self, now: Instant) -> Option<LoneClaim> {
        let claim = self.claim.filter(|claim| claim.value > 0)?;
        let known = self
            .wanted
            .filter(|wanted| now.saturating_duration_since(wanted.last) <= REQUESTS_APART_MAX);
        let (value, value_since) = match known.filter(|known| claim.value <= known.value) {
            Some(known) => (known.value, known.value_since),
            None => (claim.value, now),
        };
        let first = known.map_or(now, |known| known.first);
        self.wanted = Some(WantedProof { first, last: now, value, value_since });
        let is_running = self.task.as_ref().is_some_and(|task| !task.is_finished());
        let is_due = self.due_at.is_none_or(|due| due <= now);
        (!is_running && is_due && !self.is_wrong(claim, now)).then_some(claim)
    }

    pub(super) fn set_task(&mut self, task: AbortHandle) {
        self.task = Some(task);
    }

    /// Notes the verdict of a search.
    pub(super) fn note(&mut self, claim: LoneClaim, verdict: Verdict, now: Instant) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.searches.min(16)).min(PAUSE_MAX);
        (self.due_at, self.searches) = (Some(now + pause), self.searches.saturating_add(1));
        match verdict {
            Verdict::Shown => self.proven = self.proven.max(claim.value),
            Verdict::Contradicted => {
                self.contradictions += 1;
                self.due_at = Some(now + PAUSE_MIN);
            }
            Verdict::Unknown => {}
        }
        if verdict != Verdict::Contradicted {
            self.contradictions = 0;
        }
        if self.contradictions >= CONTRADICTIONS_NEEDED {
            self.wrong = Some((claim, now));
        }
    }

    /// Returns whether a block has shown this count.
    pub(super) const fn is_proven(&self, value: u64) -> bool {
        value > 0 && value <= self.proven
    }

    /// Returns whether a block has shown more than this count.
    pub(super) const fn is_below_proof(&self, value: u64) -> bool {
        value < self.proven
    }

    /// Returns whether blocks contradict this claim, or an earlier and lower one of the same endpoint.
    pub(super) fn is_wrong(&self, claim: LoneClaim, now: Instant) -> bool {
        self.wrong.is_some_and(|(wrong, since)| {
            let is_recent = now.saturating_duration_since(since) < CONTRADICTED_FOR;
            is_recent && wrong.place == claim.place && wrong.value <= claim.value
        })
    }

    /// Returns whether a proof has been wanted for this time, whatever was claimed.
    pub(super) fn is_overdue(&self, now: Instant, after: Duration) -> bool {
        self.wanted.is_some_and(|it| now.saturating_duration_since(it.first) >= after)
    }

    /// Returns whether a proof of the present claim has been wanted for this time. A higher claim of the only
    /// endpoint has a wait of its own: otherwise it could move a cursor on by a window at each answer (I16).
    pub(super) fn is_claim_overdue(&self, now: Instant, after: Duration) -> bool {
        self.wanted.is_some_and(|wanted| {
            let is_same = self.claim.is_none_or(|claim| claim.value <= wanted.value);
            is_same && now.saturating_duration_since(wanted.value_since) >= after
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: LoneClaim = LoneClaim { value: 3, place: 1 };

    #[test]
    fn claim_is_wrong_after_two_contradictions_in_a_row_and_for_a_while() {
        let (mut proof, now) = (CountProof::default(), Instant::now());
        for verdict in [Verdict::Contradicted, Verdict::Unknown, Verdict::Contradicted] {
            proof.note(CLAIM, verdict, now);
        }
        assert!(!proof.is_wrong(CLAIM, now), "not in a row");
        proof.note(CLAIM, Verdict::Contradicted, now);
        assert!(proof.is_wrong(CLAIM, now));
        assert!(proof.is_wrong(LoneClaim { value: 9, ..CLAIM }, now), "it moves with the truth");
        assert!(!proof.is_wrong(LoneClaim { value: 2, ..CLAIM }, now), "less was not examined");
        assert!(!proof.is_wrong(LoneClaim { place: 0, ..CLAIM }, now), "another endpoint");
        assert!(!proof.is_wrong(CLAIM, now + CONTRADICTED_FOR));
    }

    #[test]
    fn searches_have_growing_pauses_and_are_overdue_from_the_first_request_on() {
        let (mut proof, mut now) = (CountProof::default(), Instant::now());
        let (start, second) = (now, Duration::from_secs(1));
        assert_eq!(proof.want(now), None, "nothing is disputed");
        proof.claim = Some(CLAIM);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(proof.want(now), Some(CLAIM));
            proof.note(CLAIM, Verdict::Unknown, now);
            let pause = (0..).find(|n| proof.want(now + second * *n).is_some()).unwrap();
            pauses.push(pause);
            now += second * pause;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        assert!(proof.is_overdue(start + second * 300, second * 300));
        assert!(!proof.is_overdue(start + second * 299, second * 300));
        proof.claim = Some(LoneClaim { value: 4, ..CLAIM });
        assert!(!proof.is_claim_overdue(start + second * 300, second * 300), "a higher claim");
        assert!(proof.is_overdue(start + second * 300, second * 300), "I15: others answer as well");
        proof.want(now);
        assert!(!proof.is_claim_overdue(now + second * 299, second * 300));
        assert!(proof.is_claim_overdue(now + second * 300, second * 300));
        proof.claim = Some(CLAIM);
        proof.note(CLAIM, Verdict::Shown, now);
        assert!(proof.is_proven(3) && !proof.is_proven(4));
        proof.end();
        assert!(proof.is_proven(3) && !proof.is_overdue(now, Duration::ZERO));
    }
}
