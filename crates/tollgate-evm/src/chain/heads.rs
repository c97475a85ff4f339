//! Which block is the head, when several endpoints each have their own.
//!
//! Owns the canonical head and a short memory of it. Pure but for the lock: time is an argument.
//!
//! The rule, in order:
//! 1. The highest head of the healthy endpoints, except one that leads two or more others by more
//!    than [`LEAD_MAX`]: it is outvoted.
//! 2. Two heads of one height: the one that was there first stands as long as a healthy endpoint
//!    has it, so that a race of two blocks does not flap.
//! 3. A lower head than before is believed at once only where an endpoint that had reached the old
//!    height is now on another branch (a reorg that it saw). A lower head on the same branch is an
//!    endpoint that lags, and waits for [`ChainConfig::head_hold`](super::ChainConfig): nothing
//!    goes back because the best endpoint went away.
//! 4. Only a head whose block was delivered is held. A head that no endpoint reports any more, and whose
//!    block nobody has delivered, gives way at once to the last one that was delivered: at the start of
//!    a node there is none, and a false head would leave it without a view for the whole hold.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::B256;
use tollgate_model::port::chain::BlockRef;

/// How far ahead of two others one endpoint is believed.
pub(super) const LEAD_MAX: u64 = 1_000;

/// How many heights are remembered.
const MEMORY: usize = 512;

/// A healthy endpoint's word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) head: BlockRef,
    /// The highest number that it ever gave.
    pub(super) peak: u64,
}

#[derive(Debug, Default)]
pub(super) struct Board {
    head: Option<BlockRef>,
    /// The last head whose block was delivered.
    delivered: Option<BlockRef>,
    /// Since when healthy endpoints are heard and none of them has it.
    unbacked: Option<Instant>,
    /// Heights of the canonical branch, as far as they were seen.
    branch: BTreeMap<u64, B256>,
    /// Heights that endpoints can be expected to have, and when each was first told, oldest first: two
    /// endpoints have reached them, or the one that leads has delivered the block ([`Self::back`]).
    backed: VecDeque<(u64, Instant)>,
}

impl Board {
    /// Takes the reports of all healthy endpoints and says what the head is now.
    pub(super) fn update(
        &mut self,
        reports: &[Report],
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
            // Silence says nothing: an outage does not use up the time of the hold.
            None if reports.is_empty() => self.unbacked = None,
            None => self.unbacked = self.unbacked.or(Some(now)),
        }
        self.head
    }

    /// Gives up a head that nobody reports any more and that was never delivered.
    fn drop_undelivered(&mut self, reports: &[Report]) {
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

    /// Whether the block of any head was delivered since the start.
    pub(super) const fn has_delivered(&self) -> bool {
        self.delivered.is_some()
    }

    /// Notes a height that is more than one endpoint's word, first told at this time.
    pub(super) fn back(&mut self, number: u64, since: Instant) {
        if self.backed.back().is_none_or(|(highest, _)| number > *highest) {
            self.backed.push_back((number, since));
        }
        while self.backed.len() > MEMORY {
            self.backed.pop_front();
        }
    }

    /// The height that every endpoint should have reached by now. One endpoint's word is not enough
    /// (I16): everybody else would lag behind a head that nobody has, and it alone would be believed.
    pub(super) fn expected(&self, now: Instant, grace: Duration) -> Option<u64> {
        let old = |when: &Instant| now.saturating_duration_since(*when) >= grace;
        self.backed.iter().rev().find(|(_, when)| old(when)).map(|(number, _)| *number)
    }

    /// The head that the reports speak for; `None` if it is not theirs to change.
    fn choose(&self, reports: &[Report], now: Instant, hold: Duration) -> Option<BlockRef> {
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
        // What stood above is no longer on the branch; nor is what the new parent contradicts.
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
fn leader(reports: &[Report]) -> Option<BlockRef> {
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

    fn says(head: BlockRef) -> Report {
        Report { head, peak: head.number }
    }

    fn at(board: &mut Board, reports: &[Report], now: Instant) -> BlockRef {
        board.update(reports, now, HOLD).unwrap()
    }

    #[test]
    fn the_highest_healthy_head_is_the_head() {
        let (mut board, now) = (Board::default(), Instant::now());
        assert_eq!(board.update(&[], now, HOLD), None);
        assert_eq!(at(&mut board, &[says(block(5, 1)), says(block(7, 1))], now), block(7, 1));
        assert_eq!(at(&mut board, &[says(block(8, 1)), says(block(7, 1))], now), block(8, 1));
    }

    #[test]
    fn a_race_of_two_blocks_does_not_flap() {
        let (mut board, now) = (Board::default(), Instant::now());
        assert_eq!(at(&mut board, &[says(block(5, 1))], now), block(5, 1));
        for _ in 0..3 {
            let both = [says(block(5, 2)), says(block(5, 1))];
            assert_eq!(at(&mut board, &both, now), block(5, 1));
        }
        // Everybody has moved over: it is a reorg.
        assert_eq!(at(&mut board, &[says(block(5, 2))], now), block(5, 2));
    }

    #[test]
    fn the_head_does_not_go_back_because_the_best_endpoint_went_away() {
        let (mut board, now) = (Board::default(), Instant::now());
        at(&mut board, &[says(block(7, 1)), says(block(5, 1))], now);
        board.note_delivered(block(7, 1));
        assert_eq!(at(&mut board, &[says(block(5, 1))], now), block(7, 1));
        assert_eq!(at(&mut board, &[], now + HOLD), block(7, 1), "an outage");
        let back = now + HOLD * 2;
        assert_eq!(
            at(&mut board, &[says(block(6, 1))], back),
            block(7, 1),
            "one that lags is back"
        );
        let late = back + HOLD - Duration::from_millis(1);
        assert_eq!(at(&mut board, &[says(block(6, 1))], late), block(7, 1));
        assert_eq!(at(&mut board, &[says(block(6, 1))], back + HOLD), block(6, 1), "not for ever");
    }

    #[test]
    fn a_reorg_to_a_lower_head_is_believed_of_an_endpoint_that_saw_both() {
        let (mut board, now) = (Board::default(), Instant::now());
        for number in 3..=7 {
            at(&mut board, &[says(block(number, 1))], now);
            board.note_delivered(block(number, 1));
        }
        let stranger = [says(block(6, 2))];
        assert_eq!(at(&mut board, &stranger, now), block(7, 1), "it never had the old one");
        let switched = [Report { head: block(6, 2), peak: 7 }];
        assert_eq!(at(&mut board, &switched, now), block(6, 2));
        let lagging = [Report { head: block(5, 2), peak: 7 }];
        assert_eq!(at(&mut board, &lagging, now), block(6, 2), "the same branch, seen late");
    }

    #[test]
    fn a_head_out_of_this_world_is_outvoted() {
        let (mut board, now) = (Board::default(), Instant::now());
        let liar = says(block(1_000_000, 9));
        let all = [liar, says(block(7, 1)), says(block(6, 1))];
        assert_eq!(at(&mut board, &all, now), block(7, 1));
    }

    #[test]
    fn head_that_was_never_delivered_is_not_held_once_no_endpoint_reports_it() {
        let (mut board, now) = (Board::default(), Instant::now());
        let false_head = says(block(200, 9));
        assert_eq!(at(&mut board, &[false_head], now), block(200, 9));
        let first = [says(block(7, 1))];
        assert_eq!(at(&mut board, &first, now), block(7, 1), "nothing was delivered before");
        board.note_delivered(block(7, 1));
        at(&mut board, &[false_head, says(block(7, 1))], now);
        let lagging = [says(block(6, 1))];
        assert_eq!(at(&mut board, &lagging, now), block(7, 1), "the delivered head is held");
        assert_eq!(at(&mut board, &lagging, now + HOLD), block(6, 1), "not for ever");
    }

    #[test]
    fn an_endpoint_is_expected_to_have_what_was_seen_a_while_ago() {
        let (mut board, now) = (Board::default(), Instant::now());
        let second = Duration::from_secs(1);
        for number in 1..=5 {
            let both = [says(block(number, 1)), says(block(number, 1))];
            at(&mut board, &both, now + second * number as u32);
        }
        assert_eq!(board.expected(now + second * 5, second * 2), Some(3));
        assert_eq!(board.expected(now, second * 2), None);
    }

    #[test]
    fn height_that_one_endpoint_alone_tells_is_expected_of_nobody_until_its_block_is_delivered() {
        let (mut board, now) = (Board::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        at(&mut board, &[says(block(9, 1)), says(block(5, 1))], now);
        at(&mut board, &[says(block(9, 1))], now);
        assert_eq!(board.expected(later, Duration::ZERO), Some(5));
        at(&mut board, &[says(block(9, 1)), says(block(6, 1)), says(block(6, 1))], now);
        assert_eq!(board.expected(later, Duration::ZERO), Some(6), "two have it");
        board.back(9, now);
        assert_eq!(board.expected(later, Duration::ZERO), Some(9));
    }
}
