//! Which endpoints were handed which transactions, so that what is sent again goes elsewhere.
//!
//! Owns a bounded memory of transactions by their hashes. Pure. A transaction that is forgotten is
//! sent as if for the first time: the memory is about reach, never about safety.

use std::collections::{HashMap, VecDeque};

use tollgate_model::TxHash;

/// How many transactions are remembered (I13). Above this the oldest are forgotten.
const REMEMBERED_MAX: usize = 65_536;

/// What was done with one transaction before a send of it begins. Endpoints are named by their
/// places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Past {
    /// How often it was sent.
    pub(super) sends: u32,
    given: Vec<Given>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Given {
    times: u32,
    is_taken: bool,
}

impl Past {
    /// How often an endpoint was handed it.
    pub(super) fn times(&self, place: usize) -> u32 {
        self.given.get(place).map_or(0, |given| given.times)
    }

    /// Whether an endpoint said that it has it.
    pub(super) fn is_taken(&self, place: usize) -> bool {
        self.given.get(place).is_some_and(|given| given.is_taken)
    }

    /// How many endpoints it goes to at first: twice as many each time that it is sent again.
    pub(super) fn width(&self, fan_out: usize) -> usize {
        fan_out.max(1).saturating_mul(1 << self.sends.min(16))
    }

    fn given(&mut self, place: usize) -> &mut Given {
        if self.given.len() <= place {
            self.given.resize(place + 1, Given::default());
        }
        &mut self.given[place]
    }
}

/// The transactions that were sent lately.
#[derive(Debug, Default)]
pub(super) struct Handed {
    past: HashMap<TxHash, Past>,
    oldest_first: VecDeque<TxHash>,
}

impl Handed {
    /// Counts a send that begins now, and tells what was before it.
    pub(super) fn begin(&mut self, of: TxHash) -> Past {
        if !self.past.contains_key(&of) {
            self.oldest_first.push_back(of);
            while self.oldest_first.len() > REMEMBERED_MAX
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.past.remove(&oldest);
            }
        }
        let past = self.past.entry(of).or_default();
        let before = past.clone();
        past.sends = past.sends.saturating_add(1);
        before
    }

    /// It was handed to an endpoint.
    pub(super) fn note_given(&mut self, of: TxHash, place: usize) {
        if let Some(past) = self.past.get_mut(&of) {
            let given = past.given(place);
            given.times = given.times.saturating_add(1);
        }
    }

    /// An endpoint said that it has it.
    pub(super) fn note_taken(&mut self, of: TxHash, place: usize) {
        if let Some(past) = self.past.get_mut(&of) {
            past.given(place).is_taken = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> TxHash {
        TxHash::left_padding_from(&n.to_be_bytes())
    }

    #[test]
    fn each_send_knows_who_was_handed_it_before() {
        let mut handed = Handed::default();
        assert_eq!(handed.begin(hash(1)), Past::default());
        handed.note_given(hash(1), 2);
        handed.note_taken(hash(1), 2);
        let past = handed.begin(hash(1));
        assert_eq!((past.sends, past.times(2), past.times(0)), (1, 1, 0));
        assert!(past.is_taken(2) && !past.is_taken(0) && !past.is_taken(9));
        assert_eq!(handed.begin(hash(2)), Past::default(), "another transaction");
    }

    #[test]
    fn each_send_goes_to_twice_as_many() {
        let mut handed = Handed::default();
        let mut width = |fan_out| handed.begin(hash(1)).width(fan_out);
        assert_eq!([width(1), width(1), width(1), width(3)], [1, 2, 4, 24]);
        assert_eq!(width(0), 16, "nobody is never asked");
        assert_eq!(width(usize::MAX), usize::MAX);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut handed = Handed::default();
        for n in 0..=REMEMBERED_MAX as u64 {
            handed.begin(hash(n));
        }
        assert_eq!(handed.past.len(), REMEMBERED_MAX);
        assert_eq!(handed.begin(hash(0)).sends, 0);
        assert_eq!(handed.begin(hash(REMEMBERED_MAX as u64)).sends, 1);
        handed.note_given(hash(u64::MAX), 0);
        assert_eq!(handed.past.len(), REMEMBERED_MAX, "notes remember nothing new");
    }
}
