//! Changes that the store refused, remembered over restarts of the worker.
//!
//! A change that can't be written would otherwise be tried at each tick, or end the worker each time
//! it recovers, so that the account never takes work again (I14).

use std::collections::HashMap;
use std::time::Duration;

use tollgate_model::port::TxUpdate;
use tollgate_model::{Timestamp, TxId};

/// The pause before a refused change is tried again. An operator may have repaired the database meanwhile.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Changes that are remembered (I13). Beyond that all are forgotten, and each is tried once more.
const REMEMBERED_MAX: usize = 10_000;

/// The changes of one submitter's transactions that the store refused.
#[derive(Default)]
pub(in crate::worker) struct Refusals {
    known: HashMap<(TxId, &'static str), Refused>,
}

struct Refused {
    /// The version of the row. After any other change of the row it is tried again.
    version: u32,
    until: Timestamp,
    why: String,
}

impl Refusals {
    /// Remembers that the store refused a change of a row that is at this version; until when it is
    /// not tried again.
    pub(in crate::worker) fn add(
        &mut self,
        tx_id: TxId,
        event: &'static str,
        version: u32,
        why: &str,
        now: Timestamp,
    ) -> Timestamp {
        if self.known.len() >= REMEMBERED_MAX {
            self.known.clear();
        }
        let until = now.after(RETRY_AFTER);
        self.known.insert((tx_id, event), Refused { version, until, why: why.to_owned() });
        until
    }

    /// The reason why a change is not tried now, and until when; `None` if it is to be tried.
    pub(in crate::worker) fn of(
        &self,
        update: &TxUpdate,
        now: Timestamp,
    ) -> Option<(&str, Timestamp)> {
        let refused = self.known.get(&(update.tx_id, update.event_name()))?;
        let holds = refused.version == update.row.version && now < refused.until;
        holds.then_some((refused.why.as_str(), refused.until))
    }

    /// The transactions with a change that is not tried now, by the versions of their rows.
    pub(in crate::worker) fn standing(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = (TxId, u32, Timestamp)> {
        let standing = self.known.iter().filter(move |(_, refused)| now < refused.until);
        standing.map(|((tx_id, _), refused)| (*tx_id, refused.version, refused.until))
    }

    /// Forgets a transaction that ended.
    pub(in crate::worker) fn forget(&mut self, tx_id: TxId) {
        if !self.known.is_empty() {
            self.known.retain(|(of, _), _| *of != tx_id);
        }
    }
}

/// Changes of a section that are not written. Whoever asked for them must not go on as if they were.
#[must_use = "what is not written must not be acted on"]
#[derive(Debug, Default)]
pub(in crate::worker) struct Unwritten(HashMap<TxId, String>);

impl Unwritten {
    pub(in crate::worker) fn add(&mut self, tx_id: TxId, why: &str) {
        self.0.insert(tx_id, why.to_owned());
    }

    pub(in crate::worker) fn contains(&self, tx_id: TxId) -> bool {
        self.0.contains_key(&tx_id)
    }

    /// The reason why the only change of a section is not written, if it is not.
    pub(in crate::worker) fn only(self) -> Option<String> {
        self.0.into_values().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::port::RowVersion;
    use tollgate_model::{Queued, TxState};
    use uuid::Uuid;

    fn update(version: u32) -> TxUpdate {
        let tx_id = TxId::from_uuid(Uuid::from_u128(1));
        let state = TxState::Queued(Queued::Waiting);
        TxUpdate::noted(tx_id, RowVersion { state, version }, "unsigned")
    }

    #[test]
    fn refused_change_is_tried_again_after_a_pause_or_another_change_of_its_row() {
        let (mut refusals, now) = (Refusals::default(), Timestamp::EPOCH);
        assert!(refusals.of(&update(1), now).is_none());
        let until = refusals.add(update(1).tx_id, "unsigned", 1, "no room", now);
        assert_eq!(refusals.of(&update(1), now), Some(("no room", until)));
        assert!(refusals.of(&update(2), now).is_none());
        assert!(refusals.of(&update(1), until).is_none());
        refusals.forget(update(1).tx_id);
        assert!(refusals.of(&update(1), now).is_none());
    }
}
