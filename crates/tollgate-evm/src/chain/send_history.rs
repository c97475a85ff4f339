//! Remembers which endpoints were sent which transactions, so that a resend goes to others first, and which
//! endpoints accept transactions that other endpoints do not know later.
//!
//! Owns a bounded map of transactions by their hashes. Pure. A transaction that is forgotten is sent as if
//! for the first time: the memory affects reach, never safety.

use std::collections::{HashMap, VecDeque};

use tollgate_model::TxHash;

/// Transactions that are remembered (I13); the oldest are forgotten first.
const REMEMBERED_MAX: usize = 65_536;
/// Transactions in a row that an endpoint accepted and another one did not know later, after which it is
/// evident that it does not pass them on. One may have been dropped by a full pool.
const SWALLOWED_EVIDENT: u32 = 3;

/// The earlier sends of one transaction. Endpoints are identified by their places in the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct EarlierSends {
    pub(super) sends: u32,
    by_endpoint: Vec<EndpointSends>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct EndpointSends {
    times: u32,
    is_accepted: bool,
}

impl EarlierSends {
    /// Returns how often it was sent to an endpoint.
    pub(super) fn times(&self, place: usize) -> u32 {
        self.by_endpoint.get(place).map_or(0, |sends| sends.times)
    }

    /// Returns whether an endpoint has accepted it.
    pub(super) fn is_accepted_by(&self, place: usize) -> bool {
        self.by_endpoint.get(place).is_some_and(|sends| sends.is_accepted)
    }

    /// The endpoints that have accepted it.
    fn accepted_by(&self) -> impl Iterator<Item = usize> {
        let by_endpoint = self.by_endpoint.iter().enumerate();
        by_endpoint.filter(|(_, sends)| sends.is_accepted).map(|(place, _)| place)
    }

    /// Returns how many endpoints it is sent to at first: twice as many with each resend.
    pub(super) fn width(&self, fan_out: usize) -> usize {
        fan_out.max(1).saturating_mul(1 << self.sends.min(16))
    }

    fn of_endpoint(&mut self, place: usize) -> &mut EndpointSends {
        if self.by_endpoint.len() <= place {
            self.by_endpoint.resize(place + 1, EndpointSends::default());
        }
        &mut self.by_endpoint[place]
    }
}

/// The transactions that were sent lately.
#[derive(Debug, Default)]
pub(super) struct SendHistory {
    earlier: HashMap<TxHash, EarlierSends>,
    oldest_first: VecDeque<TxHash>,
    /// By endpoint: the transactions in a row that it accepted and did not pass on.
    swallowed: HashMap<usize, u32>,
}

impl SendHistory {
    /// Counts a send that begins now, and returns those before it.
    pub(super) fn begin(&mut self, of: TxHash) -> EarlierSends {
        if !self.earlier.contains_key(&of) {
            self.oldest_first.push_back(of);
            while self.oldest_first.len() > REMEMBERED_MAX
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.earlier.remove(&oldest);
            }
        }
        let earlier = self.earlier.entry(of).or_default();
        let before = earlier.clone();
        earlier.sends = earlier.sends.saturating_add(1);
        before
    }

    pub(super) fn note_sent(&mut self, of: TxHash, place: usize) {
        if let Some(earlier) = self.earlier.get_mut(&of) {
            let sends = earlier.of_endpoint(place);
            sends.times = sends.times.saturating_add(1);
        }
    }

    /// Compares an endpoint's answer with the earlier sends: whether it knows what only others were sent.
    /// Returns those for which it is evident that they don't pass transactions on, with how many.
    pub(super) fn note_known(
        &mut self,
        earlier: &EarlierSends,
        place: usize,
        is_known: bool,
    ) -> Vec<(usize, u32)> {
        let mut evident = Vec::new();
        if earlier.times(place) > 0 {
            return evident;
        }
        for other in earlier.accepted_by() {
            let swallowed = self.swallowed.entry(other).or_default();
            *swallowed = if is_known { 0 } else { swallowed.saturating_add(1) };
            if *swallowed >= SWALLOWED_EVIDENT {
                evident.push((other, *swallowed));
            }
        }
        evident
    }

    pub(super) fn note_accepted(&mut self, of: TxHash, place: usize) {
        if let Some(earlier) = self.earlier.get_mut(&of) {
            earlier.of_endpoint(place).is_accepted = true;
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
    fn each_send_knows_the_endpoints_of_the_sends_before_it() {
        let mut history = SendHistory::default();
        assert_eq!(history.begin(hash(1)), EarlierSends::default());
        history.note_sent(hash(1), 2);
        history.note_accepted(hash(1), 2);
        let earlier = history.begin(hash(1));
        assert_eq!((earlier.sends, earlier.times(2), earlier.times(0)), (1, 1, 0));
        assert!(
            earlier.is_accepted_by(2) && !earlier.is_accepted_by(0) && !earlier.is_accepted_by(9)
        );
        assert_eq!(history.begin(hash(2)), EarlierSends::default(), "another transaction");
    }

    #[test]
    fn endpoint_whose_transactions_others_never_know_is_evident_after_three_in_a_row() {
        let mut history = SendHistory::default();
        let mut sent_to_another = |n: u64, is_known: bool| {
            history.begin(hash(n));
            history.note_sent(hash(n), 1);
            history.note_accepted(hash(n), 1);
            let earlier = history.begin(hash(n));
            assert_eq!(history.note_known(&earlier, 1, false), [], "its own answer tells nothing");
            history.note_known(&earlier, 0, is_known)
        };
        assert_eq!([1, 2].map(|n| sent_to_another(n, false)), [[], []]);
        assert_eq!(sent_to_another(3, true), [], "one was passed on");
        assert_eq!([4, 5].map(|n| sent_to_another(n, false)), [[], []]);
        assert_eq!(sent_to_another(6, false), [(1, 3)]);
        assert_eq!(sent_to_another(7, false), [(1, 4)]);
    }

    #[test]
    fn each_resend_goes_to_twice_as_many_endpoints() {
        let mut history = SendHistory::default();
        let mut width = |fan_out| history.begin(hash(1)).width(fan_out);
        assert_eq!([width(1), width(1), width(1), width(3)], [1, 2, 4, 24]);
        assert_eq!(width(0), 16, "at least one endpoint");
        assert_eq!(width(usize::MAX), usize::MAX);
    }

    #[test]
    fn oldest_transactions_are_forgotten_first() {
        let mut history = SendHistory::default();
        for n in 0..=REMEMBERED_MAX as u64 {
            history.begin(hash(n));
        }
        assert_eq!(history.earlier.len(), REMEMBERED_MAX);
        assert_eq!(history.begin(hash(0)).sends, 0);
        assert_eq!(history.begin(hash(REMEMBERED_MAX as u64)).sends, 1);
        history.note_sent(hash(u64::MAX), 0);
        assert_eq!(history.earlier.len(), REMEMBERED_MAX, "notes remember nothing new");
    }
}
