//! Tracks since when the view has not moved although a new head was announced.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::port::chain::BlockRef;

use super::retry::ALERT_REPEAT;

/// A view that does not move, because a block above it can't be read.
#[derive(Default)]
pub(super) struct Stall {
    top: Option<BlockRef>,
    since: Option<Instant>,
    /// When the announced head was first delivered since then.
    head_delivered: Option<Instant>,
    alerted: Option<Instant>,
    head_checked: Option<Instant>,
}

/// The pause between two requests of the announced head while the view does not move.
const HEAD_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Stall {
    /// Notes a failed try while the view's head was `top`.
    pub(super) fn note_failure(&mut self, top: Option<BlockRef>, now: Instant) {
        if self.since.is_none() || self.top != top {
            let (alerted, head_checked) = (self.alerted, self.head_checked);
            *self = Self { top, since: Some(now), alerted, head_checked, ..Self::default() };
        }
    }

    /// The view reached the head.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_alert_due(&self, now: Instant, after: Duration) -> bool {
        is_past(self.since, now, after)
            && self.alerted.is_none_or(|at| now.saturating_duration_since(at) >= ALERT_REPEAT)
    }

    /// An alert was raised.
    pub(super) fn note_alert(&mut self, now: Instant) {
        self.alerted = Some(now);
    }

    pub(super) fn is_head_check_due(&mut self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < HEAD_CHECK_INTERVAL;
        if self.head_checked.is_some_and(is_recent) {
            return false;
        }
        self.head_checked = Some(now);
        true
    }

    /// Notes that the head was delivered. Returns whether it has been for long enough to skip the blocks
    /// below it: an outage that affects all blocks skips none.
    pub(super) fn may_skip(&mut self, now: Instant, after: Duration) -> bool {
        self.head_delivered.get_or_insert(now);
        is_past(self.head_delivered, now, after)
    }
}

fn is_past(since: Option<Instant>, now: Instant, after: Duration) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) >= after)
}
