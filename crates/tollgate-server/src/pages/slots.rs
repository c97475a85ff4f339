//! The slots of ladders that were drawn a moment ago, so that a live page does not read all of them again.
//!
//! A final transaction changes no more. So what is kept of a window is its settled beginning: the nonces
//! before the first one whose transaction is open, or that may still get one. Forgotten after [`KEPT_FOR`],
//! because retention removes old transactions.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollgate_model::Submitter;
use tollgate_model::port::SlotState;

/// Windows that are kept (I13).
const WINDOWS_MAX: usize = 8;
/// The time after which everything is read again.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The settled beginnings of the windows that were drawn last.
#[derive(Default)]
pub(crate) struct Slots(Mutex<VecDeque<Kept>>);

struct Kept {
    of: Submitter,
    start: u64,
    settled: Vec<SlotState>,
    /// The first nonce that is not settled.
    until: u64,
    read_at: Instant,
}

impl Slots {
    /// The known slots of a window, and the nonce from which it has to be read.
    pub(crate) fn resume(
        &self,
        of: Submitter,
        window: &Range<u64>,
        now: Instant,
    ) -> (Vec<SlotState>, u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| now.saturating_duration_since(one.read_at) < KEPT_FOR);
        let Some(known) = kept.iter().find(|one| one.of == of && one.start == window.start) else {
            return (Vec::new(), window.start);
        };
        let below = |slot: &&SlotState| slot.nonce.get() < window.end;
        let settled = known.settled.iter().take_while(below).copied().collect();
        (settled, known.until.min(window.end))
    }

    /// Keeps the settled beginning of a window that was read.
    pub(crate) fn keep(
        &self,
        of: Submitter,
        window: &Range<u64>,
        slots: &[SlotState],
        chain_nonce: Option<u64>,
        now: Instant,
    ) {
        let until = settled_until(window, slots, chain_nonce.unwrap_or_default());
        let settled = slots.iter().take_while(|slot| slot.nonce.get() < until);
        let settled = settled.copied().collect();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = kept.iter().position(|one| one.of == of && one.start == window.start);
        // One that grows keeps its age: it is read whole again in time.
        let read_at = same.and_then(|place| kept.remove(place)).map_or(now, |one| one.read_at);
        kept.push_back(Kept { of, start: window.start, settled, until, read_at });
        if kept.len() > WINDOWS_MAX {
            kept.pop_front();
        }
    }
}

/// The first nonce of a window that may still change: an open transaction has it, or nobody has it and the
/// chain has not counted it.
fn settled_until(window: &Range<u64>, slots: &[SlotState], chain_nonce: u64) -> u64 {
    let mut until = window.start;
    for slot in slots {
        let nonce = slot.nonce.get();
        let is_gap_open = nonce > until && nonce > chain_nonce;
        if is_gap_open || !slot.state.is_final() {
            break;
        }
        until = nonce + 1;
    }
    until
}

#[cfg(test)]
mod tests {
    use tollgate_model::{Address, ChainId, Nonce, Tracking, TxId, TxState};
    use uuid::Uuid;

    use super::*;

    fn of(n: u8) -> Submitter {
        Submitter::new(ChainId::new(7).unwrap(), Address::repeat_byte(n))
    }

    fn slot(nonce: u64, state: TxState) -> SlotState {
        let tx_id = TxId::from_uuid(Uuid::from_u128(u128::from(nonce)));
        SlotState { nonce: Nonce::new(nonce).unwrap(), tx_id, state }
    }

    const OPEN: TxState = TxState::Tracking(Tracking::Pending);

    #[test]
    fn settled_slots_of_a_window_are_not_read_again() {
        let (slots, window, now) = (Slots::default(), 0..20_000, Instant::now());
        assert_eq!(slots.resume(of(1), &window, now), (Vec::new(), 0));
        let mut all: Vec<_> = (0..19_990).map(|n| slot(n, TxState::Confirmed)).collect();
        all[19_985] = slot(19_985, OPEN);
        slots.keep(of(1), &window, &all, Some(19_985), now);
        let (known, from) = slots.resume(of(1), &window, now);
        assert_eq!((known.len(), from), (19_985, 19_985), "what is left to read");
        assert_eq!(slots.resume(of(2), &window, now).1, 0, "another account");
        assert_eq!(slots.resume(of(1), &(40..20_000), now).1, 40, "another window");
        assert_eq!(slots.resume(of(1), &window, now + KEPT_FOR).1, 0, "too long ago");
    }

    #[test]
    fn nonce_that_may_still_get_a_transaction_is_read_again() {
        let of_confirmed = |nonces: &[u64]| -> Vec<SlotState> {
            nonces.iter().map(|n| slot(*n, TxState::Confirmed)).collect()
        };
        let until = |nonces: &[u64], chain| settled_until(&(0..40), &of_confirmed(nonces), chain);
        assert_eq!(until(&[0, 1, 2], 3), 3);
        assert_eq!(until(&[0, 1, 4], 3), 2, "nobody has nonce 3 yet: it may be filled");
        assert_eq!(
            until(&[0, 1, 4], 9),
            5,
            "the chain has counted 2 and 3: they are nobody's for ever"
        );
        assert_eq!(until(&[], 9), 0);
        assert_eq!(settled_until(&(0..40), &[slot(0, OPEN)], 9), 0, "mined, and not final");
    }

    #[test]
    fn window_that_is_refreshed_for_a_minute_is_read_whole_again() {
        let (slots, window, begun) = (Slots::default(), 0..40, Instant::now());
        let all = [slot(0, TxState::Confirmed)];
        for second in 0..60 {
            let now = begun + Duration::from_secs(second);
            slots.keep(of(1), &window, &all, Some(1), now);
            assert_eq!(slots.resume(of(1), &window, now).1, 1);
        }
        assert_eq!(slots.resume(of(1), &window, begun + KEPT_FOR).1, 0);
    }

    #[test]
    fn windows_that_are_kept_are_bounded() {
        let (slots, now) = (Slots::default(), Instant::now());
        let all = [slot(0, TxState::Confirmed)];
        for account in 0..=WINDOWS_MAX as u8 {
            slots.keep(of(account), &(0..40), &all, Some(1), now);
        }
        assert_eq!(slots.0.lock().unwrap().len(), WINDOWS_MAX);
        assert_eq!(slots.resume(of(0), &(0..40), now).1, 0, "the oldest made room");
    }
}
