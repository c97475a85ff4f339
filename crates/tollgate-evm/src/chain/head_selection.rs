//! Selects the canonical head from the heads of several endpoints.
//!
//! Owns the canonical head and the last heights of its branch. Pure: time is an argument.
//!
//! The rules, in order:
//! 1. The highest head of the healthy endpoints, except one that leads two or more others by more
//!    than [`LEAD_MAX`]: it is outvoted.
//! 2. Of two heads of one height, the one that was there first stays as long as a healthy endpoint
//!    reports it, so that two competing blocks do not make the head flap.
//! 3. A lower head is accepted at once only if an endpoint that had reached the old height is now on
//!    another branch (a reorg). A lower head on the same branch means that an endpoint lags; it is
//!    accepted after [`ChainConfig::head_hold`](super::ChainConfig), so that the head does not go back
//!    because the best endpoint became unavailable.
//! 4. Only a head whose block was delivered is held. A head that no endpoint reports any more, and whose
//!    block nobody has delivered, gives way at once to the last one that was delivered: at the start of
//!    a node there is none, and a false head would leave it without a view for the whole hold.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::B256;
use tollgate_model::port::chain::BlockRef;

/// The most blocks by which one endpoint may lead two others.
pub(super) const LEAD_MAX: u64 = 1_000;

/// Heights that are remembered.
const MEMORY: usize = 512;

/// The head of one healthy endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadReport {
    pub(super) head: BlockRef,
    /// The highest number that it ever reported.
    pub(super) peak: u64,
}

#[derive(Debug, Default)]
pub(super) struct HeadSelection {
    head: Option<BlockRef>,
    /// The last head whose block was delivered.
    delivered: Option<BlockRef>,
    /// Since when healthy endpoints report heads and none of them is this one.
    unbacked: Option<Instant>,
    /// Hashes of the canonical branch, as far as they are known.
    branch: BTreeMap<u64, B256>,
    /// Heights that every endpoint can be expected to have, and when each was first reported, oldest
    /// first: two endpoints have reached them, or the one that leads has delivered the block
    /// ([`Self::back`]).
    backed: VecDeque<(u64, Instant)>,
}

impl HeadSelection {
    /// Selects the head from the reports of all healthy endpoints.
    pub(super) fn update(
        &mut self,
        reports: &[HeadReport],
        now: Instant,
        hold: Duration,
    ) -> Option<BlockRef> {
        let mut numbers: Vec<_> = reports.iter().map(|report| report.head.number).collect();
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        if let Some(second) = numbers.get(1) {
            self.back(*second, now);
        }
        self.drop_undelivered(reports);
        match self.choose(reports, now, hold) {
            Some(next) => {
                self.unbacked = None;
                if self.head != Some(next) {
                    self.take(next);
                }
            }
            // An outage does not use up the time of the hold.
            None if reports.is_empty() => self.unbacked = None,
            None => self.unbacked = self.unbacked.or(Some(now)),
        }
        self.head
    }

    /// Drops a head that no endpoint reports any more and whose block was never delivered.
    fn drop_undelivered(&mut self, reports: &[HeadReport]) {
        let is_reported = |head: BlockRef| reports.iter().any(|report| report.head == head);
        let Some(head) = self.head.filter(|head| Some(*head) != self.delivered) else { return };
        if reports.is_empty() || is_reported(head) {
            return;
        }
        match self.delivered {
            Some(delivered) => self.take(delivered),
            None => {
                self.head = None;
                self.branch.clear();
            }
        }
    }

    /// Notes that the block of a head was delivered.
    pub(super) fn note_delivered(&mut self, block: BlockRef) {
        let is_higher = self.delivered.is_none_or(|known| block.number > known.number);
        if is_higher || self.head == Some(block) {
            self.delivered = Some(block);
        }
    }

    /// Returns whether the block of any head was delivered since the start.
    pub(super) const fn has_delivered(&self) -> bool {
        self.delivered.is_some()
    }

    /// Notes a height that more than one endpoint confirms, and when it was first reported.
    pub(super) fn back(&mut self, number: u64, since: Instant) {
        if self.backed.back().is_none_or(|(highest, _)| number > *highest) {
            self.backed.push_back((number, since));
        }
        while self.backed.len() > MEMORY {
            self.backed.pop_front();
        }
    }

    /// The height that every endpoint should have reached by now. One endpoint's report is not enough
    /// (I16): all others would count as lagging behind a head that does not exist.
    pub(super) fn expected(&self, now: Instant, grace: Duration) -> Option<u64> {
        let old = |when: &Instant| now.saturating_duration_since(*when) >= grace;
        self.backed.iter().rev().find(|(_, when)| old(when)).map(|(number, _)| *number)
    }

    /// The head by these reports; `None` if they do not change it.
    fn choose(&self, reports: &[HeadReport], now: Instant, hold: Duration) -> Option<BlockRef> {
        let leader = leader(reports)?;
        let Some(head) = self.head else { return Some(leader) };
        if leader.number > head.number {
            return Some(leader);
        }
        if reports.iter().any(|report| report.head == head) {
            return Some(head);
        }
        if leader.number == head.number {
            return Some(leader);
        }
        let switched = reports.iter().any(|report| {
            let known = self.branch.get(&report.head.number);
            report.peak >= head.number && known.is_some_and(|hash| *hash != report.head.hash)
        });
        let lapsed = self.unbacked.is_some_and(|when| now.saturating_duration_since(when) >= hold);
        (switched || lapsed).then_some(leader)
    }

    fn take(&mut self, head: BlockRef) {
        self.head = Some(head);
        // A lower head was taken by rule 3, and stands like one that was delivered.
        if self.delivered.is_some_and(|known| known.number >= head.number) {
            self.delivered = Some(head);
        }
        // Blocks above it, and blocks that its parent contradicts, are not on its branch.
        self.branch.retain(|number, _| *number < head.number);
        if let Some(below) = head.number.checked_sub(1) {
            let known = self.branch.insert(below, head.parent);
            if known.is_some_and(|known| known != head.parent) {
                self.branch.retain(|number, _| *number == below);
            }
        }
        self.branch.insert(head.number, head.hash);
        while self.branch.len() > MEMORY {
            self.branch.pop_first();
        }
        self.backed.retain(|(number, _)| *number <= head.number);
    }
}

/// The highest head, unless it is outvoted.
fn leader(reports: &[HeadReport]) -> Option<BlockRef> {
    let mut heads: Vec<_> = reports.iter().map(|report| report.head).collect();
    heads.sort_by_key(|head| std::cmp::Reverse(head.number));
    match heads.as_slice() {
        [first, second, _, ..] if first.number - second.number > LEAD_MAX => Some(*second),
        [first, ..] => Some(*first),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn block(number: u64, branch: u8) -> BlockRef {
        let name = |number: u64| B256::left_padding_from(&[branch, number as u8]);
        BlockRef { number, hash: name(number), parent: name(number.wrapping_sub(1)) }
    }

    fn report(head: BlockRef) -> HeadReport {
        HeadReport { head, peak: head.number }
    }

    fn at(selection: &mut HeadSelection, reports: &[HeadReport], now: Instant) -> BlockRef {
        selection.update(reports, now, HOLD).unwrap()
    }

    #[test]
    fn the_highest_healthy_head_is_the_head() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        assert_eq!(selection.update(&[], now, HOLD), None);
        assert_eq!(
            at(&mut selection, &[report(block(5, 1)), report(block(7, 1))], now),
            block(7, 1)
        );
        assert_eq!(
            at(&mut selection, &[report(block(8, 1)), report(block(7, 1))], now),
            block(8, 1)
        );
    }

    #[test]
    fn head_stays_while_two_blocks_of_one_height_compete() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        assert_eq!(at(&mut selection, &[report(block(5, 1))], now), block(5, 1));
        for _ in 0..3 {
            let both = [report(block(5, 2)), report(block(5, 1))];
            assert_eq!(at(&mut selection, &both, now), block(5, 1));
        }
        // No endpoint has the first one any more: a reorg.
        assert_eq!(at(&mut selection, &[report(block(5, 2))], now), block(5, 2));
    }

    #[test]
    fn delivered_head_is_held_when_the_best_endpoint_becomes_unavailable() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        at(&mut selection, &[report(block(7, 1)), report(block(5, 1))], now);
        selection.note_delivered(block(7, 1));
        assert_eq!(at(&mut selection, &[report(block(5, 1))], now), block(7, 1));
        assert_eq!(at(&mut selection, &[], now + HOLD), block(7, 1), "an outage");
        let back = now + HOLD * 2;
        assert_eq!(
            at(&mut selection, &[report(block(6, 1))], back),
            block(7, 1),
            "one that lags is back"
        );
        let late = back + HOLD - Duration::from_millis(1);
        assert_eq!(at(&mut selection, &[report(block(6, 1))], late), block(7, 1));
        assert_eq!(
            at(&mut selection, &[report(block(6, 1))], back + HOLD),
            block(6, 1),
            "not for ever"
        );
    }

    #[test]
    fn lower_head_after_a_reorg_is_accepted_from_an_endpoint_that_had_the_old_one() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        for number in 3..=7 {
            at(&mut selection, &[report(block(number, 1))], now);
            selection.note_delivered(block(number, 1));
        }
        let stranger = [report(block(6, 2))];
        assert_eq!(at(&mut selection, &stranger, now), block(7, 1), "it never had the old one");
        let switched = [HeadReport { head: block(6, 2), peak: 7 }];
        assert_eq!(at(&mut selection, &switched, now), block(6, 2));
        let lagging = [HeadReport { head: block(5, 2), peak: 7 }];
        assert_eq!(at(&mut selection, &lagging, now), block(6, 2), "the same branch, seen late");
    }

    #[test]
    fn head_far_above_two_others_is_outvoted() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        let liar = report(block(1_000_000, 9));
        let all = [liar, report(block(7, 1)), report(block(6, 1))];
        assert_eq!(at(&mut selection, &all, now), block(7, 1));
    }

    #[test]
    fn head_that_was_never_delivered_is_not_held_once_no_endpoint_reports_it() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        let false_head = report(block(200, 9));
        assert_eq!(at(&mut selection, &[false_head], now), block(200, 9));
        let first = [report(block(7, 1))];
        assert_eq!(at(&mut selection, &first, now), block(7, 1), "nothing was delivered before");
        selection.note_delivered(block(7, 1));
        at(&mut selection, &[false_head, report(block(7, 1))], now);
        let lagging = [report(block(6, 1))];
        assert_eq!(at(&mut selection, &lagging, now), block(7, 1), "the delivered head is held");
        assert_eq!(at(&mut selection, &lagging, now + HOLD), block(6, 1), "not for ever");
    }

    #[test]
    fn height_is_expected_of_every_endpoint_after_the_grace() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        let second = Duration::from_secs(1);
        for number in 1..=5 {
            let both = [report(block(number, 1)), report(block(number, 1))];
            at(&mut selection, &both, now + second * number as u32);
        }
        assert_eq!(selection.expected(now + second * 5, second * 2), Some(3));
        assert_eq!(selection.expected(now, second * 2), None);
    }

    #[test]
    fn height_that_one_endpoint_reports_is_expected_only_once_its_block_is_delivered() {
        let (mut selection, now) = (HeadSelection::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        at(&mut selection, &[report(block(9, 1)), report(block(5, 1))], now);
        at(&mut selection, &[report(block(9, 1))], now);
        assert_eq!(selection.expected(later, Duration::ZERO), Some(5));
        at(&mut selection, &[report(block(9, 1)), report(block(6, 1)), report(block(6, 1))], now);
        assert_eq!(selection.expected(later, Duration::ZERO), Some(6), "two have it");
        selection.back(9, now);
        assert_eq!(selection.expected(later, Duration::ZERO), Some(9));
    }
}
