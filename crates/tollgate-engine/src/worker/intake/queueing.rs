//! Makes creates durable without slots: what can't be priced now, and what is not due yet.

use tracing::warn;

use super::{Accepted, CreateJob, Intake, Target, refuse, slots};
use crate::errors::Unserved;
use crate::worker::{Session, Stop};

impl Intake {
    /// Keeps creates that can't be priced now without a slot (I6); they get one when the chain can be asked. What
    /// is signed already can't wait for one.
    pub(super) async fn keep_without_slots(
        &mut self,
        session: &mut Session,
        creates: Vec<CreateJob>,
        why: Unserved,
    ) -> Result<Accepted, Stop> {
        warn!(submitter = %session.submitter, error = %why, "no fee quote; creates are queued without slots");
        let (signed, creates): (Vec<_>, Vec<_>) =
            creates.into_iter().partition(|create| create.signed.is_some());
        refuse(signed, &why.into());
        self.queue(session, creates).await
    }

    /// Keeps what is not due without a slot. It gets one at the first tick at which it is due.
    pub(super) async fn keep_scheduled(
        &mut self,
        session: &mut Session,
        creates: Vec<CreateJob>,
    ) -> Result<(), Stop> {
        self.until_accepted(session, creates, Target::Queue).await
    }

    pub(super) async fn queue(
        &mut self,
        session: &mut Session,
        mut creates: Vec<CreateJob>,
    ) -> Result<Accepted, Stop> {
        if creates.is_empty() {
            return Ok(Accepted::Done);
        }
        let later = creates.split_off(self.section_max(session).min(creates.len()));
        let section = slots::section(session, &[], &creates, Vec::new())?;
        match self.commit(session, section, Vec::new(), creates).await {
            Ok(done) => Ok(done.with(later, false)),
            Err(stop) => {
                refuse(later, &stop.answer().into());
                Err(stop)
            }
        }
    }
}
