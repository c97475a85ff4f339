//! Answers to callers: one request is one transaction, and it is stored (I6, I7).

use tollgate_model::port::TxStore;
use tollgate_model::{Intent, Submitter, TxId, U256};

use super::AnsweredRequest;
use crate::world::World;

impl World {
    /// A caller was told that its request, which pays `value`, is this transaction.
    pub(crate) async fn create_answered(
        &self,
        submitter: Submitter,
        request: &str,
        value: u64,
        tx_id: TxId,
    ) {
        self.note(format_args!("told {request} {value} is {tx_id}"));
        let Ok(Some(record)) = self.store.tx(tx_id).await else {
            let what = format!("{request} was accepted as {tx_id}, which is not stored");
            return self.checker.fail(self, "I6", what);
        };
        if record.submitter != submitter {
            let what = format!("{request} was told a transaction of {}", record.submitter);
            return self.checker.fail(self, "I7", what);
        }
        let stored = Intent::from_payload(&record.payload).map(|intent| intent.value);
        if stored != Ok(U256::from(value)) {
            let what =
                format!("{request} with {value} was told the transaction of another payload");
            return self.checker.fail(self, "I7", what);
        }
        let key = (submitter, request.to_owned());
        let known = {
            let mut seen = self.checker.lock();
            *seen.requests.entry(key).or_insert(AnsweredRequest { tx_id, value })
        };
        if known.tx_id != tx_id {
            let what = format!("{request} is {} and {tx_id}", known.tx_id);
            self.checker.fail(self, "I7", what);
        }
    }

    /// A caller of this very payment was told its transaction.
    pub(crate) fn was_answered(&self, submitter: Submitter, request: &str, value: u64) -> bool {
        let key = (submitter, request.to_owned());
        self.checker.lock().requests.get(&key).is_some_and(|known| known.value == value)
    }

    /// The transaction has an outcome, as far as the feed was read.
    pub(crate) fn has_ended(&self, tx_id: TxId) -> bool {
        self.checker.lock().done.contains_key(&tx_id)
    }

    /// I7: a request that was accepted is answered with its transaction, whatever the chain and the
    /// clock say now.
    pub(crate) fn refused_after_acceptance(&self, submitter: Submitter, request: &str, why: &str) {
        let what = format!("{request} of {submitter} was accepted, and is refused now: {why}");
        self.checker.fail(self, "I7", what);
    }

    /// A caller was told that its request belongs to another payload.
    pub(crate) fn answered_conflict(&self, submitter: Submitter, request: &str, value: u64) {
        let key = (submitter, request.to_owned());
        let known = self.checker.lock().requests.get(&key).copied();
        if let Some(known) = known.filter(|known| known.value == value) {
            let what = format!("{request} was {} and is now in conflict", known.tx_id);
            self.checker.fail(self, "I7", what);
        }
    }
}
