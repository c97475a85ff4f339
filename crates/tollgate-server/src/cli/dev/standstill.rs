//! Notices that a chain stands still while something waits. Pure: time and head are arguments.

use std::time::Duration;

use tokio::time::Instant;

/// A remark for the person at the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// No block has come for a while, and something waits for one.
    Stands,
    /// After such a notice, blocks come again.
    GoesOn,
}

/// The last block of a chain, and since when nothing has followed it.
pub(super) struct Standstill {
    patience: Duration,
    head: Option<u64>,
    /// When waiting for the next block began; `None` while nothing waits.
    waits_since: Option<Instant>,
    is_noted: bool,
}

impl Standstill {
    /// Calls it a standstill after this time.
    pub(super) const fn new(patience: Duration) -> Self {
        Self { patience, head: None, waits_since: None, is_noted: false }
    }

    /// Looks at the head; returns what is worth a note, once for each standstill.
    pub(super) fn look(
        &mut self,
        now: Instant,
        head: Option<u64>,
        something_waits: bool,
    ) -> Option<Notice> {
        if head != self.head {
            (self.head, self.waits_since) = (head, None);
            if std::mem::take(&mut self.is_noted) {
                return Some(Notice::GoesOn);
            }
        }
        if !something_waits {
            self.waits_since = None;
            return None;
        }
        let since = *self.waits_since.get_or_insert(now);
        let stands = !self.is_noted && now.duration_since(since) >= self.patience;
        stands.then(|| {
            self.is_noted = true;
            Notice::Stands
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_without_blocks_is_noted_once_while_something_waits_and_once_when_it_goes_on() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut stands = Standstill::new(Duration::from_secs(5));
        assert_eq!(stands.look(at(0), Some(7), false), None);
        assert_eq!(stands.look(at(60), Some(7), false), None, "nothing waits");
        assert_eq!(stands.look(at(61), Some(7), true), None, "it has just begun to wait");
        assert_eq!(stands.look(at(65), Some(7), true), None);
        assert_eq!(stands.look(at(66), Some(7), true), Some(Notice::Stands));
        assert_eq!(stands.look(at(90), Some(7), true), None, "said once");
        assert_eq!(stands.look(at(91), Some(8), true), Some(Notice::GoesOn));
        assert_eq!(stands.look(at(92), Some(9), true), None);
        assert_eq!(stands.look(at(96), Some(9), true), None, "four seconds since block 9");
        assert_eq!(stands.look(at(97), Some(9), true), Some(Notice::Stands));
    }
}
