//! Judges whether an endpoint that announces blocks above all others also delivers them.
//!
//! Pure: time is an argument. An endpoint **leads** while its head is higher than those of all other
//! healthy endpoints. One that does not deliver the block by which it leads is **doubted**: its head and
//! its votes are ignored until it delivers it or no longer leads.

use std::time::Duration;

use tokio::time::Instant;

/// The pause before an endpoint is asked again for a block that it announced and did not deliver; it
/// doubles.
const CHECK_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const CHECK_PAUSE_MAX: Duration = Duration::from_secs(30);

/// A height that one endpoint alone announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lead {
    pub(super) number: u64,
    /// When the endpoint first announced it.
    pub(super) since: Instant,
}

/// The lead of one endpoint, and how it answered for it.
#[derive(Debug, Default)]
pub(super) struct LeadState {
    lead: Option<Lead>,
    pub(super) is_doubted: bool,
    /// The number of times in a row that it did not deliver the block by which it leads.
    undelivered: u32,
    check_due: Option<Instant>,
}

impl LeadState {
    /// Compares the endpoint's head with the highest one of the others. A height keeps the time at which
    /// it was first announced until another endpoint has reached it.
    pub(super) fn compare(&mut self, head: Option<u64>, others: u64, now: Instant) -> Option<Lead> {
        let kept = self.lead.filter(|lead| lead.number > others);
        self.lead = head.filter(|number| *number > others).map(|number| {
            kept.filter(|lead| lead.number <= number).unwrap_or(Lead { number, since: now })
        });
        if self.lead.is_none() {
            (self.is_doubted, self.undelivered) = (false, 0);
        }
        self.lead
    }

    /// Returns whether the block by which the endpoint leads may be asked for now.
    pub(super) fn is_check_due(&self, now: Instant) -> bool {
        self.check_due.is_none_or(|due| due <= now)
    }

    /// Notes that the endpoint delivered the block. The next lead begins with its present head.
    pub(super) fn note_delivered(&mut self, head: Option<u64>, now: Instant) {
        (self.is_doubted, self.undelivered, self.check_due) = (false, 0, None);
        self.lead = head.map(|number| Lead { number, since: now });
    }

    /// Notes that the endpoint did not deliver the block.
    pub(super) fn note_undelivered(&mut self, now: Instant) {
        let pause = CHECK_PAUSE_MIN.saturating_mul(1 << self.undelivered.min(16));
        self.check_due = Some(now + pause.min(CHECK_PAUSE_MAX));
        self.undelivered += 1;
        self.is_doubted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undelivered_lead_is_checked_with_growing_pauses() {
        let (mut lead, mut now) = (LeadState::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            lead.note_undelivered(now);
            let pause = (0..).find(|n| lead.is_check_due(now + second * *n)).unwrap();
            pauses.push(pause);
            now += second * pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert!(lead.is_doubted);
        lead.note_delivered(Some(9), now);
        assert!(!lead.is_doubted && lead.is_check_due(now));
    }

    #[test]
    fn lead_keeps_its_time_until_another_endpoint_reaches_it_and_ends_doubt_with_it() {
        let (mut lead, now) = (LeadState::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        assert_eq!(lead.compare(Some(9), 5, now), Some(Lead { number: 9, since: now }));
        assert_eq!(lead.compare(Some(12), 8, later), Some(Lead { number: 9, since: now }));
        assert_eq!(lead.compare(Some(12), 9, later), Some(Lead { number: 12, since: later }));
        lead.note_undelivered(later);
        assert_eq!((lead.compare(Some(12), 12, later), lead.is_doubted), (None, false));
    }
}
