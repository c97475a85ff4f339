//! The signatures that were accepted lately: none is accepted twice.

use std::collections::{HashSet, VecDeque};

/// Signatures that are remembered (I13): about 10 MB when full.
const SEEN_MAX: usize = 131_072;

/// Remembers accepted signatures for as long as their time is in the window.
///
/// If there are more than fit, the oldest are forgotten, and with them everything that is as old: a
/// request with an earlier time is then refused as a node's. So the bound costs age, not safety.
#[derive(Default)]
pub(super) struct SeenSignatures {
    by_arrival: VecDeque<(u64, [u8; 32])>,
    macs: HashSet<[u8; 32]>,
    /// Nothing up to this time is accepted any more, in milliseconds.
    forgotten_to: u64,
}

impl SeenSignatures {
    /// Takes a signature whose MAC is valid. Returns false if it was taken before, or may have been.
    /// `earliest` is the oldest time that is in the window.
    pub(super) fn take(&mut self, time_ms: u64, mac: [u8; 32], earliest: u64) -> bool {
        while let Some((time, mac)) = self.by_arrival.front() {
            if *time >= earliest && self.by_arrival.len() < SEEN_MAX {
                break;
            }
            // One that is still in the window makes way for a newer one.
            self.forgotten_to = self.forgotten_to.max(*time);
            self.macs.remove(mac);
            self.by_arrival.pop_front();
        }
        if time_ms <= self.forgotten_to || !self.macs.insert(mac) {
            return false;
        }
        self.by_arrival.push_back((time_ms, mac));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(number: u64) -> [u8; 32] {
        let mut mac = [0; 32];
        mac[..8].copy_from_slice(&number.to_be_bytes());
        mac
    }

    #[test]
    fn signature_is_taken_once_and_forgotten_after_the_window() {
        let mut seen = SeenSignatures::default();
        assert!(seen.take(1_000, mac(1), 0) && seen.take(1_000, mac(2), 0));
        assert!(!seen.take(1_000, mac(1), 0), "a replay");
        assert!(seen.take(5_000, mac(3), 1_001));
        assert_eq!(seen.macs.len(), 1, "what left the window needs no memory");
        assert!(!seen.take(1_000, mac(1), 0), "and is not taken again, whatever the clock says");
    }

    #[test]
    fn full_memory_refuses_what_is_as_old_as_what_it_forgot() {
        let mut seen = SeenSignatures::default();
        for number in 0..SEEN_MAX as u64 + 10 {
            assert!(seen.take(1_000 + number, mac(number), 0));
        }
        assert_eq!((seen.macs.len(), seen.by_arrival.len()), (SEEN_MAX, SEEN_MAX));
        assert!(!seen.take(1_000, mac(0), 0), "forgotten, and refused all the same");
        assert!(!seen.take(1_009, mac(u64::MAX), 0), "it might have been taken before");
        assert!(seen.take(1_010 + SEEN_MAX as u64, mac(u64::MAX), 0));
    }
}
