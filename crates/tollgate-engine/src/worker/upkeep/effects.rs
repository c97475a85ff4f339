//! The effects that the rules of upkeep return, and the one place where they are carried out.

use std::collections::HashMap;

use tollgate_metrics::ResubmitResult;
use tollgate_model::port::{AlertKind, Checkpoint, TxUpdate};
use tollgate_model::resubmit::Patience;
use tollgate_model::stuck::Trigger;
use tollgate_model::{Nonce, StuckReason, TxId};

use super::lookup::want_lookup;
use crate::worker::alarm::AlertSubject;
use crate::worker::commands::Commands;
use crate::worker::journal::Unwritten;
use crate::worker::state_changes::is_exhausted;
use crate::worker::{Session, Stop};

/// Updates are written first; what follows from one is done only where that one was written (I11).
#[derive(Default)]
pub(super) struct Effects {
    pub(super) updates: Vec<TxUpdate>,
    /// Marked STUCK by one of the updates.
    pub(super) stuck: Vec<(TxId, StuckReason)>,
    /// Claimed by one of the updates, to be sent with the same bytes, lowest nonce first.
    pub(super) resends: Vec<TxId>,
    /// Of those, what uses up a try, and the patience with it then.
    pub(super) tried: HashMap<TxId, Patience>,
    /// To be looked for by their hashes first: they may be mined.
    pub(super) lookups: Vec<Nonce>,
    pub(super) alerts: Vec<(AlertKind, AlertSubject, String)>,
}

impl Effects {
    pub(super) async fn carry_out(
        mut self,
        session: &mut Session,
        commands: &mut Commands,
    ) -> Result<(), Stop> {
        for (kind, subject, detail) in &self.alerts {
            session.alert(*kind, *subject, detail);
        }
        want_lookup(session, &self.lookups);
        let exhausted = self.updates.iter().filter(|update| is_exhausted(update)).count();
        let unwritten = session.apply_all(self.updates).await?;
        count(session, &self.resends, &unwritten, exhausted);
        self.stuck.retain(|(tx_id, _)| !unwritten.contains(*tx_id));
        self.resends.retain(|tx_id| !unwritten.contains(*tx_id));
        note_stuck(session, commands, &self.stuck);
        send_claimed(session, self.resends, &self.tried).await;
        Ok(())
    }
}

fn count(session: &Session, resends: &[TxId], unwritten: &Unwritten, exhausted: usize) {
    let counters = &session.context.metrics.resubmit_total;
    let refused = resends.iter().filter(|tx_id| unwritten.contains(**tx_id)).count();
    counters.add(ResubmitResult::Sent, (resends.len() - refused) as u64);
    counters.add(ResubmitResult::Refused, refused as u64);
    counters.add(ResubmitResult::Exhausted, exhausted as u64);
}

/// Raises alerts, and has the policy asked about what is not the head: the head is asked about anyway.
fn note_stuck(session: &mut Session, commands: &mut Commands, stuck: &[(TxId, StuckReason)]) {
    let head = session.state.in_flight().head().map(|head| head.tx_id);
    for (tx_id, reason) in stuck {
        let Some(tx) = session.state.tx(*tx_id) else { continue };
        let subject = AlertSubject::slot(*tx_id, tx.nonce);
        session.alert(AlertKind::Stuck, subject, reason.name());
        if head != Some(*tx_id) {
            commands.ask_later(*tx_id, Trigger::MarkedStuck);
        }
    }
}

/// Sends what was claimed. It was looked for a moment ago.
async fn send_claimed(session: &mut Session, claimed: Vec<TxId>, tried: &HashMap<TxId, Patience>) {
    if claimed.is_empty() {
        return;
    }
    session.context.counts.note_resends(claimed.len());
    session.reached(Checkpoint::ActionClaimed).await;
    for tx_id in claimed {
        let patience = tried.get(&tx_id);
        if let (Some(patience), Some(tx)) = (patience, session.state.tx_mut(tx_id)) {
            tx.sending.set_patience(*patience);
        }
        session.send_as(tx_id, patience.is_some());
    }
}
