//! Since when the submitter waits for what is no transaction's own: holes, a count that nothing explains,
//! reserved nonces that nobody sends. Stored, so that patience goes on under a new owner.

use std::collections::BTreeMap;

use tollgate_model::port::{BatchLimits, SubmitterWait, WaitKind};
use tollgate_model::{Nonce, Timestamp};

/// The conditions that the submitter waits for, and since when.
#[derive(Debug, Default)]
pub(in crate::worker) struct SubmitterWaits {
    since: BTreeMap<(WaitKind, Nonce), Timestamp>,
    stored: Vec<SubmitterWait>,
}

impl SubmitterWaits {
    /// Takes over what the store has.
    pub(in crate::worker) fn load(&mut self, waits: Vec<SubmitterWait>) {
        self.since = waits.iter().map(|wait| ((wait.kind, wait.nonce), wait.since)).collect();
        self.stored = waits;
    }

    /// Since when this is waited for: since now, if it is new.
    pub(in crate::worker) fn since(
        &mut self,
        kind: WaitKind,
        nonce: Nonce,
        now: Timestamp,
    ) -> Timestamp {
        *self.since.entry((kind, nonce)).or_insert(now)
    }

    /// Forgets what is not waited for any more.
    pub(in crate::worker) fn retain(
        &mut self,
        kind: WaitKind,
        is_waited_for: impl Fn(Nonce) -> bool,
    ) {
        self.since.retain(|(of, nonce), _| *of != kind || is_waited_for(*nonce));
    }

    /// The waits to store, if they differ from the stored ones.
    pub(in crate::worker) fn unstored(&self) -> Option<Vec<SubmitterWait>> {
        let wait = |((kind, nonce), since): (&(WaitKind, Nonce), &Timestamp)| SubmitterWait {
            kind: *kind,
            nonce: *nonce,
            since: *since,
        };
        let waits: Vec<_> = self.since.iter().map(wait).take(BatchLimits::WAITS).collect();
        (waits != self.stored).then_some(waits)
    }

    /// These are stored now.
    pub(in crate::worker) fn note_stored(&mut self, waits: Vec<SubmitterWait>) {
        self.stored = waits;
    }
}
