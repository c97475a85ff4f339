//! Writes who asked for a change into the audit log.
//!
//! An entry is written right before its change is carried out: there is no change without one. A change that is
//! refused afterwards leaves its entry behind, and one that moved to another node meanwhile may leave two.

use std::fmt::Display;

use tollgate_model::Text;
use tollgate_model::audit::{AuditAuthor, AuditEntry, AuditedAction};
use tollgate_model::port::Store;

use super::Caller;
use crate::http::problem::Problem;

impl Caller {
    /// The caller as the audit log names it.
    pub(crate) fn audit_author(&self) -> AuditAuthor {
        AuditAuthor {
            key_id: self.key_id().cloned(),
            name: Text::lossy(self.key_name().unwrap_or_default()),
            address: self.remote(),
        }
    }

    /// Records that this caller asks for a change. The change must not be carried out if this fails.
    pub(crate) async fn record(
        &self,
        store: &dyn Store,
        action: AuditedAction,
        subject: impl Display,
        reason: Option<&Text<500>>,
    ) -> Result<(), Problem> {
        let (author, reason) = (self.audit_author(), reason.cloned());
        let subject = Text::lossy(&subject.to_string());
        let entry = AuditEntry { author, action, subject, reason };
        Ok(store.record_audit(&entry).await?)
    }
}
