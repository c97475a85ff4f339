//! What becomes of sections with creates or new slots that the store does not take.

use tollgate_model::ids::InvalidId;
use tollgate_model::port::{AlertKind, Section, TxUpdate};
use tollgate_model::{Text, TxEvent, TxId};
use tracing::error;

use super::admit::{Admitted, refuse};
use super::alarm::About;
use super::queue::Waiting;
use super::{Create, Desk, Stop};
use crate::create::CreateError;

impl Desk {
    /// After a section that was refused as a whole: nothing of it is written. What is to blame is looked
    /// for by halves, and fails alone (I14).
    pub(super) async fn set_aside(
        &mut self,
        waiting: &[Waiting],
        creates: Vec<Create>,
        flaw: Flaw,
    ) -> Result<Admitted, Stop> {
        let ops = waiting.len() + creates.len();
        if ops > 1 {
            self.admit_max = Some(ops / 2);
            return Ok(Admitted::More(creates));
        }
        self.admit_max = None;
        refuse(creates, &flaw.answer());
        match (waiting.first(), flaw) {
            (None, _) => {}
            (Some(waiting), Flaw::Own(why)) => {
                self.reject_waiting(waiting.tx_id, &why.to_string()).await?;
            }
            // Not its own fault, as far as anybody knows: it is kept, and the others pass it.
            (Some(waiting), Flaw::Store(why)) => self.pass_waiting(waiting.tx_id, &why).await?,
        }
        Ok(Admitted::More(Vec::new()))
    }

    /// Sets aside what waits and is refused a slot by the store, with the reason where people see it, so
    /// that the line moves (I14). It is tried again later.
    async fn pass_waiting(&mut self, tx_id: TxId, why: &str) -> Result<(), Stop> {
        let Some(waiting) = self.book.queued.get(tx_id) else { return Ok(()) };
        let detail = format!("the store refuses it a slot: {why}");
        let mut update = TxUpdate::noted(tx_id, waiting.seen, "slot_refused");
        update.last_error = Some(Text::lossy(&detail));
        let now = self.context.clock.now();
        let about = About { tx_id: Some(tx_id), nonce: None };
        self.alarm.raise(AlertKind::Stuck, about, &detail, now);
        error!(submitter = %self.submitter, %tx_id, why, "slot can't be written");
        let mut section = Section::new(self.lease);
        section.updates.push(update);
        self.record(section).await?;
        if let Some(waiting) = self.book.queued.get(tx_id) {
            let (event, version) = (TxEvent::SlotAllocated.name(), waiting.seen.version);
            let until = self.refusals.add(tx_id, event, version, why, now);
            self.book.set_aside(tx_id, until);
        }
        Ok(())
    }

    /// Ends what waits for a slot and can never be written with one. It never had a nonce (I8), and what
    /// stands behind it goes on.
    async fn reject_waiting(&mut self, tx_id: TxId, why: &str) -> Result<(), Stop> {
        let Some(waiting) = self.book.queued.get(tx_id) else { return Ok(()) };
        let update = TxUpdate::moved(tx_id, waiting.seen, TxEvent::Refused);
        let mut update = update.map_err(|error| Stop::Restart(error.to_string()))?;
        let detail = format!("can't be written: {why}");
        (update.last_error, update.detail) =
            (Some(Text::lossy(&detail)), Some(Text::lossy(&detail)));
        let mut section = Section::new(self.lease);
        section.updates.push(update);
        self.record(section).await?;
        error!(submitter = %self.submitter, %tx_id, why, "transaction rejected before it had a slot");
        let about = About { tx_id: Some(tx_id), nonce: None };
        self.alarm.raise(AlertKind::Rejected, about, &detail, self.context.clock.now());
        Ok(())
    }
}

/// Why a section was refused.
pub(super) enum Flaw {
    /// It can't be written, whatever the database holds.
    Own(InvalidId),
    /// The database's own rules refuse it.
    Store(String),
}

impl Flaw {
    fn answer(&self) -> CreateError {
        match self {
            Self::Own(invalid) => CreateError::Invalid(invalid.clone()),
            Self::Store(why) => CreateError::Unavailable(why.clone()),
        }
    }
}
