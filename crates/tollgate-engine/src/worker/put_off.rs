//! When creates go ahead of evidence (answers, receipts, finality). Pure; the worker owns what is put off.
//!
//! Each kind of evidence has a commit of its own, for all of which a caller would wait. What is put off is recorded
//! in fewer and larger commits, and a receipt makes the record of the answer before it unnecessary. Nothing depends
//! on evidence being early: all of it may come later. That a lease is lost is no evidence and is never put off (I2).

use std::time::Duration;

/// The longest time for which creates go ahead of evidence.
const PUT_OFF_MAX: Duration = Duration::from_millis(25);

/// A turn of the worker with creates to accept.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// New creates.
    pub(super) creates: usize,
    /// Nothing waits for a slot, and the window has room for all of the new ones: evidence opens none for them.
    pub(super) has_room: bool,
    /// The submitter is active and pipelined. A strict one compares the chain's count with its own slots, which
    /// evidence settles (I12).
    pub(super) is_free: bool,
    /// The rules are due.
    pub(super) is_tick_due: bool,
    /// The time for which evidence has been put off already.
    pub(super) put_off_for: Duration,
}

impl Turn {
    /// Returns whether creates go ahead in this turn. Not for long: evidence is recorded however many creates come
    /// (I15).
    pub(super) fn lets_pass(self) -> bool {
        let Self { creates, has_room, is_free, is_tick_due, put_off_for } = self;
        creates > 0 && has_room && is_free && !is_tick_due && put_off_for < PUT_OFF_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_go_ahead_of_evidence_for_a_bounded_time_and_where_it_changes_nothing_for_them() {
        let (has_room, is_free, is_tick_due) = (true, true, false);
        let turn = Turn { creates: 1, has_room, is_free, is_tick_due, put_off_for: Duration::ZERO };
        assert!(turn.lets_pass());
        let shortly = PUT_OFF_MAX - Duration::from_micros(1);
        assert!(Turn { put_off_for: shortly, ..turn }.lets_pass());
        assert!(!Turn { put_off_for: PUT_OFF_MAX, ..turn }.lets_pass(), "I15");
        assert!(!Turn { creates: 0, ..turn }.lets_pass(), "nobody waits");
        assert!(!Turn { has_room: false, ..turn }.lets_pass(), "finality opens the window");
        assert!(!Turn { is_free: false, ..turn }.lets_pass(), "I12");
        assert!(!Turn { is_tick_due: true, ..turn }.lets_pass(), "the rules have their time");
    }
}
