//! Lets a submitter go for the node that should own it, at a quiet moment.

use std::time::Duration;

use tokio::time::Instant;
use tracing::info;

use super::{Desk, Inbox};

/// How long a quiet moment is waited for. After that the submitter goes with callers still waiting:
/// they are told before anything is done, and asked again where it went.
const QUIET_PATIENCE: Duration = Duration::from_secs(2);

impl Desk {
    /// Whether the time has come. Asked between two rounds: no batch is in flight then.
    pub(super) fn hands_over(&mut self, inbox: &Inbox) -> bool {
        let placement = &self.context.placement;
        let Some(better) = placement.better_owner(self.submitter) else {
            self.outranked = None;
            return false;
        };
        if !self.serves() {
            // Nothing can be signed here: every moment longer is one in which nobody can work.
            info!(submitter = %self.submitter, to = better.as_str(), "let go for a node that serves it");
            return true;
        }
        let now = Instant::now();
        let since = match &self.outranked {
            Some((node, since)) if *node == better => *since,
            Some(_) | None => {
                self.outranked = Some((better, now));
                return false;
            }
        };
        let waited = now - since;
        if !placement.lets_go(waited) {
            return false;
        }
        let nobody_waits = inbox.creates.is_empty() && inbox.orders.is_empty();
        let is_quiet = nobody_waits && self.sender.is_idle() && !self.asking.is_open();
        let is_tired = || placement.lets_go(waited.saturating_sub(QUIET_PATIENCE));
        if !(is_quiet || is_tired()) || !placement.may_hand_over(self.submitter, better.clone()) {
            return false;
        }
        info!(submitter = %self.submitter, to = better.as_str(), "let go for the preferred node");
        true
    }
}
