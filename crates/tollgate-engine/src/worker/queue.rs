//! Transactions that wait for a slot, in the order in which they were accepted.

use std::collections::{BTreeMap, HashMap};

use tollgate_model::port::Seen;
use tollgate_model::{Bytes, Queued, Timestamp, TxId, TxState};

use super::open::Born;

/// A transaction that waits for a slot.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) tx_id: TxId,
    pub(super) seen: Seen,
    pub(super) payload: Bytes,
    pub(super) accepted_at: Timestamp,
    pub(super) valid_until: Option<Timestamp>,
    /// Why it could not be signed, as far as it is written down.
    pub(super) unsigned: Option<String>,
    /// The store refused a change of it: until then it gets no slot, and others pass it.
    pub(super) set_aside_until: Option<Timestamp>,
}

impl Waiting {
    /// Whether it may get a slot.
    fn is_ready(&self, now: Timestamp) -> bool {
        self.seen.state == TxState::Queued(Queued::Waiting) && !self.is_set_aside(now)
    }

    fn is_set_aside(&self, now: Timestamp) -> bool {
        self.set_aside_until.is_some_and(|until| now < until)
    }

    pub(super) const fn born(&self, seen: Seen) -> Born<'_> {
        Born {
            tx_id: self.tx_id,
            seen,
            payload: &self.payload,
            accepted_at: self.accepted_at,
            valid_until: self.valid_until,
        }
    }
}

/// What waits, oldest first. Each is found by its id, so that a change of all of them (a pause, say)
/// costs one look per transaction and not a walk.
#[derive(Debug, Default)]
pub(super) struct Queue {
    line: BTreeMap<u64, Waiting>,
    places: HashMap<TxId, u64>,
    next_place: u64,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.line.values()
    }

    /// Those that may get slots now.
    pub(super) fn ready(&self, now: Timestamp) -> impl Iterator<Item = &Waiting> {
        self.line.values().filter(move |waiting| waiting.is_ready(now))
    }

    /// Whether any will fill the next free nonce: HELD or not, unless it is set aside.
    pub(super) fn has_next(&self, now: Timestamp) -> bool {
        self.line.values().any(|waiting| !waiting.is_set_aside(now))
    }

    pub(super) fn first(&self) -> Option<&Waiting> {
        self.line.values().next()
    }

    pub(super) fn get(&self, tx_id: TxId) -> Option<&Waiting> {
        self.places.get(&tx_id).and_then(|place| self.line.get(place))
    }

    pub(super) fn get_mut(&mut self, tx_id: TxId) -> Option<&mut Waiting> {
        self.places.get(&tx_id).and_then(|place| self.line.get_mut(place))
    }

    /// Adds one behind all others.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.places.insert(waiting.tx_id, self.next_place);
        self.line.insert(self.next_place, waiting);
        self.next_place += 1;
    }

    /// Takes one out, wherever it stands.
    pub(super) fn remove(&mut self, tx_id: TxId) {
        if let Some(place) = self.places.remove(&tx_id) {
            self.line.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn waiting(n: u128) -> Waiting {
        Waiting {
            tx_id: TxId::from_uuid(Uuid::from_u128(n)),
            seen: Seen { state: TxState::Queued(Queued::Waiting), version: 1 },
            payload: Bytes::new(),
            accepted_at: Timestamp::EPOCH,
            valid_until: None,
            unsigned: None,
            set_aside_until: None,
        }
    }

    fn ids(queue: &Queue) -> Vec<u128> {
        queue.iter().map(|waiting| waiting.tx_id.uuid().as_u128()).collect()
    }

    #[test]
    fn queue_keeps_the_order_of_arrival_when_one_is_taken_out() {
        let mut queue = Queue::default();
        for n in [3, 1, 2] {
            queue.push(waiting(n));
        }
        queue.remove(waiting(1).tx_id);
        queue.remove(waiting(9).tx_id);
        queue.push(waiting(1));
        assert_eq!(ids(&queue), [3, 2, 1]);
        assert_eq!((queue.len(), queue.is_empty()), (3, false));
        assert_eq!(queue.first().unwrap().tx_id, waiting(3).tx_id);
        queue.get_mut(waiting(2).tx_id).unwrap().seen.version = 7;
        assert_eq!(queue.get(waiting(2).tx_id).unwrap().seen.version, 7);
        assert!(queue.get(waiting(9).tx_id).is_none());
    }
}
