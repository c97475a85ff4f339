//! Entries that a section adds to its submitter's audit trail.

use super::{CursorMove, ModeChange, Section, StatusChange};
use crate::ids::Nonce;
use crate::nonce::SubmitterStatus;
use crate::text::Text;

/// An audit entry, written together with the change that it describes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitterAuditEntry {
    pub event: &'static str,
    /// The reason, or the old and the new value.
    pub detail: Text<500>,
}

impl SubmitterAuditEntry {
    /// A change of status, with its reason.
    pub fn status(change: &StatusChange) -> Self {
        let event = match change.to {
            SubmitterStatus::Active => "resumed",
            SubmitterStatus::Paused => "paused",
            SubmitterStatus::Protect => "protected",
        };
        Self { event, detail: change.reason.clone() }
    }

    /// A change of mode: the old and new mode, and the reason.
    pub fn mode(change: &ModeChange) -> Self {
        let ModeChange { from, to, reason } = change;
        let detail = format!("from {} to {}: {reason}", from.name(), to.name());
        Self { event: "mode_changed", detail: Text::lossy(&detail) }
    }

    /// Nonces, lowest first, that an operator returned to the pool; `None` if there are none.
    pub fn handed_back(nonces: &[Nonce], reason: &str) -> Option<Self> {
        let (first, last) = (nonces.first()?, nonces.last()?);
        let detail = format!("{} nonces from {first} to {last}: {reason}", nonces.len());
        Some(Self { event: "nonces_handed_back", detail: Text::lossy(&detail) })
    }

    /// Nonces that the cursor skips without a slot or a reservation in them; `None` if there are
    /// none.
    pub fn skipped(from: Nonce, to: Nonce) -> Option<Self> {
        let detail = || Text::lossy(&format!("from {from} to {to}"));
        (from < to).then(|| Self { event: "cursor_moved", detail: detail() })
    }
}

impl Section {
    /// The audit entries of this section: changes of status and mode, and the part of the cursor's move
    /// that opens no slot.
    pub fn notes(&self) -> Vec<SubmitterAuditEntry> {
        let skipped = self.cursor.and_then(|CursorMove { from, to }| {
            let first = self.slots().find(|slot| !slot.recycled).map_or(to, |slot| slot.nonce);
            let note = SubmitterAuditEntry::skipped(from, first)?;
            let Some(reason) = &self.cursor_reason else { return Some(note) };
            let detail = format!("{}: {reason}", note.detail);
            Some(SubmitterAuditEntry { detail: Text::lossy(&detail), ..note })
        });
        let mode = self.mode.iter().map(SubmitterAuditEntry::mode);
        self.status.iter().map(SubmitterAuditEntry::status).chain(mode).chain(skipped).collect()
    }
}
