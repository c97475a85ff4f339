//! Finds what is to blame for a section with creates or new slots that the store refuses.

use tollgate_model::ids::InvalidValue;
use tollgate_model::port::{AlertKind, TxUpdate};
use tollgate_model::{Text, TxEvent, TxId};
use tracing::error;

use super::{Accepted, CreateJob, Intake, refuse};
use crate::create::CreateError;
use crate::errors::Unserved;
use crate::worker::alarm::AlertSubject;
use crate::worker::state::QueuedTx;
use crate::worker::{Session, Stop};

pub(super) enum Flaw {
    /// The section can't be written, whatever the database holds.
    Own(InvalidValue),
    /// The database's own rules refuse it.
    Store(String),
}

impl Flaw {
    fn answer(&self) -> CreateError {
        match self {
            Self::Own(invalid) => CreateError::Invalid(invalid.clone()),
            Self::Store(why) => Unserved::unavailable(why.clone()).into(),
        }
    }
}

impl Intake {
    /// After a section that was refused as a whole: nothing of it is written. What is to blame is found by
    /// halves, and fails alone (I14).
    pub(super) async fn isolate_refused(
        &mut self,
        session: &mut Session,
        queued: &[QueuedTx],
        creates: Vec<CreateJob>,
        flaw: Flaw,
    ) -> Result<Accepted, Stop> {
        let ops = queued.len() + creates.len();
        if ops > 1 {
            self.section_max = Some(ops / 2);
            return Ok(Accepted::More(creates));
        }
        self.section_max = None;
        refuse(creates, &flaw.answer());
        match (queued.first(), flaw) {
            (None, _) => {}
            (Some(queued), Flaw::Own(why)) => {
                reject_queued(session, queued.tx_id, &why.to_string()).await?;
            }
            // Not its own fault, as far as is known: it is kept, and the others pass it.
            (Some(queued), Flaw::Store(why)) => pass_queued(session, queued.tx_id, &why).await?,
        }
        Ok(Accepted::More(Vec::new()))
    }
}

/// Sets aside what waits and is refused a slot by the store, with the reason where people see it, so that the
/// line moves (I14). It is tried again later.
async fn pass_queued(session: &mut Session, tx_id: TxId, why: &str) -> Result<(), Stop> {
    let Some(queued) = session.state.queue().get(tx_id) else { return Ok(()) };
    let detail = format!("the store refuses it a slot: {why}");
    let mut update = TxUpdate::noted(tx_id, queued.row, "slot_refused");
    update.last_error = Some(Text::lossy(&detail));
    session.alert(AlertKind::Stuck, AlertSubject::tx(tx_id), &detail);
    error!(submitter = %session.submitter, %tx_id, error = why, "slot refused by the store");
    let _refused = session.apply_one(update).await?;
    if let Some(queued) = session.state.queue().get(tx_id) {
        let refused = (tx_id, TxEvent::SlotAllocated.name(), queued.row.version);
        session.journal.note_refused(&mut session.state, refused, why);
    }
    Ok(())
}

/// Ends what waits for a slot and can never be written with one. It never had a nonce (I8), and what stands
/// behind it goes on.
async fn reject_queued(session: &mut Session, tx_id: TxId, why: &str) -> Result<(), Stop> {
    let Some(queued) = session.state.queue().get(tx_id) else { return Ok(()) };
    let mut update = TxUpdate::moved(tx_id, queued.row, TxEvent::Refused)?;
    let detail = format!("can't be written: {why}");
    update.last_error = Some(Text::lossy(&detail));
    update.detail = Some(Text::lossy(&detail));
    let _refused = session.apply_one(update).await?;
    error!(submitter = %session.submitter, %tx_id, error = why, "transaction rejected before it had a slot");
    session.alert(AlertKind::Rejected, AlertSubject::tx(tx_id), &detail);
    Ok(())
}
