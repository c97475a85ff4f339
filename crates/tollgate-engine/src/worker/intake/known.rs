//! Creates whose requests were made durable since they were looked up. Owns the requests that this worker has
//! written.
//!
//! A request is looked up in the store before its create is handed to the worker (`lookup.rs`). What became durable
//! since was written under this lease (I1), so the worker remembers what it writes, and asks the store only about
//! look-ups that are older than its memory. The look-up inside the fenced transaction decides in any case (I7): this
//! one answers a repeat before anything else could refuse it.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::time::Instant;
use tollgate_model::RequestId;
use tollgate_model::port::{CreateAnswer, KnownRequest, NewTx};

use super::{CreateJob, Session, refuse};

/// Requests that are remembered (I13). Those that were written before are looked up in the store.
const REMEMBERED_MAX: usize = 10_000;

/// The requests that were made durable since a certain time.
pub(super) struct RequestMemory {
    /// Everything durable before is seen by look-ups that began later.
    since: Instant,
    known: HashMap<RequestId, KnownRequest>,
    /// Oldest first, with the time at which each was known to be durable.
    order: VecDeque<(RequestId, Instant)>,
}

/// Creates that are not durable yet.
#[derive(Default)]
pub(super) struct Sorted {
    /// The first of each request id.
    pub(super) new: Vec<CreateJob>,
    /// Those with a request id that one of the new ones has.
    pub(super) doubles: Vec<CreateJob>,
}

impl RequestMemory {
    pub(super) fn since(since: Instant) -> Self {
        Self { since, known: HashMap::new(), order: VecDeque::new() }
    }

    /// A transaction is durable, as of now at the latest.
    pub(super) fn note_durable(&mut self, tx: &NewTx, now: Instant) {
        let Some(request_id) = &tx.request_id else { return };
        let known = KnownRequest { tx_id: tx.tx_id, payload_digest: tx.payload.digest() };
        if self.known.insert(request_id.clone(), known).is_none() {
            self.order.push_back((request_id.clone(), now));
        }
        while self.order.len() > REMEMBERED_MAX
            && let Some((forgotten, durable_at)) = self.order.pop_front()
        {
            self.known.remove(&forgotten);
            self.since = self.since.max(durable_at);
        }
    }

    /// Returns whether a look-up that began then saw everything that is not remembered. Not if both were at the
    /// same time: which was first can't be said.
    fn covers(&self, looked_up: Instant) -> bool {
        looked_up > self.since
    }

    /// Answers creates whose requests are durable. Doubles among the others wait until the first of them is (I6).
    pub(super) async fn sort(&self, session: &Session, creates: Vec<CreateJob>) -> Sorted {
        let mut stored = HashMap::new();
        let unsure = creates.iter().filter(|create| !self.covers(create.looked_up));
        let unsure = unsure.filter_map(|create| create.request_id.clone());
        let asked: Vec<_> = unsure.map(|request_id| (session.submitter, request_id)).collect();
        if !asked.is_empty() {
            match session.context.store.known_requests(&asked).await {
                Ok(found) => {
                    let named = asked.into_iter().map(|(_, request_id)| request_id).zip(found);
                    stored
                        .extend(named.filter_map(|(request_id, known)| Some((request_id, known?))));
                }
                Err(why) => {
                    refuse(creates, &why.into());
                    return Sorted::default();
                }
            }
        }
        let known =
            |request_id: &RequestId| self.known.get(request_id).or(stored.get(request_id)).copied();
        let (mut sorted, mut named) = (Sorted::default(), HashSet::new());
        for create in creates {
            let taken = create.request_id.as_ref().and_then(known);
            let answer = CreateAnswer::judge(&create.payload, taken);
            if answer != CreateAnswer::Created {
                create.answer_stored(answer, None);
            } else if create.request_id.clone().is_none_or(|id| named.insert(id)) {
                sorted.new.push(create);
            } else {
                sorted.doubles.push(create);
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tollgate_model::port::Payload;
    use tollgate_model::{Bytes, TxId};
    use uuid::Uuid;

    fn tx(n: usize) -> NewTx {
        NewTx {
            tx_id: TxId::from_uuid(Uuid::from_u128(n as u128)),
            request_id: Some(RequestId::new(format!("r{n}")).unwrap()),
            payload: Payload::new(Bytes::from_static(b"p")).unwrap(),
            slot: None,
            held: false,
            valid_until: None,
            author: None,
            trace: None,
        }
    }

    #[test]
    fn look_up_that_is_not_newer_than_the_memory_is_repeated() {
        let begin = Instant::now();
        let later = |micros| begin + Duration::from_micros(micros);
        let mut memory = RequestMemory::since(begin);
        assert!(!memory.covers(begin), "what was written at that very time may be missing");
        assert!(memory.covers(later(1)));
        for n in 0..REMEMBERED_MAX {
            memory.note_durable(&tx(n), later(5));
        }
        assert!(memory.covers(later(1)), "all is remembered");
        memory.note_durable(&tx(REMEMBERED_MAX), later(9));
        assert!(!memory.covers(later(5)), "the first was forgotten");
        assert!(memory.covers(later(6)));
        assert_eq!(memory.known.len(), REMEMBERED_MAX, "I13");
        let last = tx(REMEMBERED_MAX);
        assert_eq!(memory.known[&last.request_id.unwrap()].tx_id, last.tx_id);
    }
}
