//! When upkeep looks at what next. Owns the times; any part may bring one forward.

use tokio::time::Instant;
use tollgate_model::Timestamp;

use super::TICK;

pub(super) struct Agenda {
    ticked_at: Option<Instant>,
    /// When chain, cursor and slots are compared next.
    reconcile_at: Timestamp,
    /// When rejected slots are looked at next.
    rejected_at: Timestamp,
}

impl Agenda {
    pub(super) const fn from(now: Timestamp) -> Self {
        Self { ticked_at: None, reconcile_at: now, rejected_at: now }
    }

    pub(super) fn is_tick_due(&self) -> bool {
        self.ticked_at.is_none_or(|at| at.elapsed() >= TICK)
    }

    pub(super) fn note_tick(&mut self) {
        self.ticked_at = Some(Instant::now());
    }

    /// Has the next tick come at once.
    pub(super) const fn tick_now(&mut self) {
        self.ticked_at = None;
    }

    pub(super) fn is_reconcile_due(&self, now: Timestamp) -> bool {
        now >= self.reconcile_at
    }

    pub(super) const fn reconcile_at(&mut self, at: Timestamp) {
        self.reconcile_at = at;
    }

    pub(super) fn reconcile_soon(&mut self, at: Timestamp) {
        self.reconcile_at = self.reconcile_at.min(at);
    }

    pub(super) fn is_rejected_due(&self, now: Timestamp) -> bool {
        now >= self.rejected_at
    }

    pub(super) const fn look_at_rejected(&mut self, at: Timestamp) {
        self.rejected_at = at;
    }
}
