//! Lets a submitter go for the node that should own it, at a quiet moment. Owns since when that node is known.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_model::NodeId;
use tracing::info;

use super::session::Session;

/// The longest wait for a quiet moment. After that the submitter goes with callers still waiting: they are
/// answered before anything is done, and ask again where it went.
const QUIET_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct OwnershipTransfer {
    /// The node that should be the owner instead, and since when.
    preferred: Option<(NodeId, Instant)>,
}

impl OwnershipTransfer {
    /// True if the lease is to be released now. Asked between two rounds: no batch is in flight then.
    pub(super) fn is_due(&mut self, session: &Session, is_quiet: bool) -> bool {
        let (placement, submitter) = (&session.context.placement, session.submitter);
        let Some(better) = placement.better_owner(submitter) else {
            self.preferred = None;
            return false;
        };
        if !session.serves() {
            // Nothing can be signed here: every moment longer is one in which nobody can work.
            info!(%submitter, node_id = better.as_str(), "lease released for a node that serves the account");
            return true;
        }
        let now = Instant::now();
        let since = match &self.preferred {
            Some((node, since)) if *node == better => *since,
            Some(_) | None => {
                self.preferred = Some((better, now));
                return false;
            }
        };
        let waited = now - since;
        let is_overdue = || placement.lets_go(waited.saturating_sub(QUIET_PATIENCE));
        let is_due = placement.lets_go(waited)
            && (is_quiet || is_overdue())
            && placement.may_hand_over(submitter, better.clone());
        if is_due {
            info!(%submitter, node_id = better.as_str(), "lease released for the preferred node");
        }
        is_due
    }
}
