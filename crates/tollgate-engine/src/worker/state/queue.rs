//! Transactions that wait for a slot, in the order in which they were accepted.

use std::collections::{BTreeMap, HashMap};

use tollgate_model::port::RowVersion;
use tollgate_model::schedule::is_due;
use tollgate_model::{Intent, Queued, RequestId, Timestamp, TraceParent, TxId, TxState};

/// A transaction that waits for a slot.
#[derive(Clone, Debug)]
pub(in crate::worker) struct QueuedTx {
    pub(in crate::worker) tx_id: TxId,
    pub(in crate::worker) request_id: Option<RequestId>,
    pub(in crate::worker) row: RowVersion,
    pub(in crate::worker) intent: Intent,
    pub(in crate::worker) accepted_at: Timestamp,
    /// The trace of its request.
    pub(in crate::worker) trace: Option<TraceParent>,
    /// The recorded reason why it could not be signed.
    pub(in crate::worker) unsigned: Option<String>,
    /// The store refused a change of it: until then it gets no slot, and others pass it.
    pub(super) set_aside_until: Option<Timestamp>,
}

impl QueuedTx {
    pub(in crate::worker) fn new(
        (tx_id, request_id, row): (TxId, Option<RequestId>, RowVersion),
        intent: Intent,
        accepted_at: Timestamp,
    ) -> Self {
        let (trace, unsigned, set_aside_until) = (None, None, None);
        Self { tx_id, request_id, row, intent, accepted_at, trace, unsigned, set_aside_until }
    }

    pub(in crate::worker) fn traced(self, trace: Option<TraceParent>) -> Self {
        Self { trace, ..self }
    }

    fn is_ready(&self, now: Timestamp) -> bool {
        self.row.state == TxState::Queued(Queued::Waiting)
            && !self.is_set_aside(now)
            && is_due(&self.intent, now)
    }

    fn is_set_aside(&self, now: Timestamp) -> bool {
        self.set_aside_until.is_some_and(|until| now < until)
    }
}

/// The queued transactions, oldest first. Each is found by its id, so that a change of all of them (a pause, say)
/// costs one look per transaction and not a walk.
#[derive(Debug, Default)]
pub(in crate::worker) struct Queue {
    line: BTreeMap<u64, QueuedTx>,
    places: HashMap<TxId, u64>,
    next_place: u64,
}

impl Queue {
    pub(in crate::worker) fn len(&self) -> usize {
        self.line.len()
    }

    pub(in crate::worker) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(in crate::worker) fn iter(&self) -> impl Iterator<Item = &QueuedTx> {
        self.line.values()
    }

    /// Those that may get slots now.
    pub(in crate::worker) fn ready(&self, now: Timestamp) -> impl Iterator<Item = &QueuedTx> {
        self.line.values().filter(move |waiting| waiting.is_ready(now))
    }

    /// Those whose `notBefore` has passed, with a slot to come now or HELD.
    pub(in crate::worker) fn due(&self, now: Timestamp) -> impl Iterator<Item = &QueuedTx> {
        self.line.values().filter(move |waiting| is_due(&waiting.intent, now))
    }

    /// True if a transaction will fill the next free nonce: HELD or not, unless it is set aside or not due.
    pub(in crate::worker) fn has_next(&self, now: Timestamp) -> bool {
        self.due(now).any(|waiting| !waiting.is_set_aside(now))
    }

    pub(in crate::worker) fn get(&self, tx_id: TxId) -> Option<&QueuedTx> {
        self.places.get(&tx_id).and_then(|place| self.line.get(place))
    }

    pub(in crate::worker) fn get_mut(&mut self, tx_id: TxId) -> Option<&mut QueuedTx> {
        self.places.get(&tx_id).and_then(|place| self.line.get_mut(place))
    }

    /// Lets what waits behind a transaction pass it until then.
    pub(in crate::worker) fn set_aside(&mut self, tx_id: TxId, until: Timestamp) {
        if let Some(waiting) = self.get_mut(tx_id) {
            waiting.set_aside_until = Some(until);
        }
    }

    /// Adds one behind all others.
    pub(in crate::worker) fn push(&mut self, waiting: QueuedTx) {
        self.places.insert(waiting.tx_id, self.next_place);
        self.line.insert(self.next_place, waiting);
        self.next_place += 1;
    }

    /// Takes one out, wherever it stands.
    pub(in crate::worker) fn remove(&mut self, tx_id: TxId) {
        if let Some(place) = self.places.remove(&tx_id) {
            self.line.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::{Address, U256};
    use uuid::Uuid;

    fn waiting(n: u128) -> QueuedTx {
        let tx_id = TxId::from_uuid(Uuid::from_u128(n));
        let row = RowVersion { state: TxState::Queued(Queued::Waiting), version: 1 };
        let intent = Intent::transfer(Address::ZERO, U256::ZERO);
        QueuedTx::new((tx_id, None, row), intent, Timestamp::EPOCH)
    }

    fn ids(queue: &Queue) -> Vec<u128> {
        queue.iter().map(|waiting| waiting.tx_id.uuid().as_u128()).collect()
    }

    #[test]
    fn scheduled_transaction_is_passed_until_it_is_due() {
        let (start, mut later) = (Timestamp::from_unix_micros(5), waiting(1));
        later.intent.not_before = Some(5);
        let mut queue = Queue::default();
        queue.push(later);
        let before = Timestamp::from_unix_micros(4);
        assert!(!queue.has_next(before), "a free nonce below open slots is not left to it");
        assert!(queue.has_next(start));
        queue.push(waiting(2));
        let ready = |now| queue.ready(now).map(|it| it.tx_id).collect::<Vec<_>>();
        assert_eq!(ready(before), [waiting(2).tx_id]);
        assert_eq!(ready(start), [waiting(1).tx_id, waiting(2).tx_id]);
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
        queue.get_mut(waiting(2).tx_id).unwrap().row.version = 7;
        assert_eq!(queue.get(waiting(2).tx_id).unwrap().row.version, 7);
        assert!(queue.get(waiting(9).tx_id).is_none());
    }
}
