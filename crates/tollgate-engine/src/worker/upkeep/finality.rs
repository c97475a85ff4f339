//! Raises an alert when mined transactions wait and nothing becomes final. Moves nothing.

use tollgate_model::Timestamp;
use tollgate_model::finality::{FinalityPatience, settled_up_to, stall};
use tollgate_model::port::AlertKind;

use super::Effects;
use crate::worker::Session;
use crate::worker::alarm::AlertSubject;

/// The settled height while something waits for it, and since when it has not risen.
#[derive(Default)]
pub(super) struct FinalityWatch {
    settled: Option<(Option<u64>, Timestamp)>,
}

impl FinalityWatch {
    /// Looks whether the settled height rises while something mined waits for it.
    pub(super) fn check(&mut self, session: &Session) -> Effects {
        let now = session.now();
        if session.state.in_flight().iter().all(|tx| tx.mined.is_none()) {
            self.settled = None;
            return Effects::default();
        }
        let options = &session.context.options;
        let height = session.context.view.get().height();
        let up_to = height.and_then(|height| settled_up_to(options.finality, height));
        let known = self.settled.filter(|(known, _)| *known == up_to);
        let (_, since) = *self.settled.insert(known.unwrap_or((up_to, now)));
        let patience = FinalityPatience {
            without_tag: options.receipt_alert_after,
            standing: options.finality_alert_after,
        };
        let stalled = stall(options.finality, height, now.since(since), patience);
        let alert = |why| (AlertKind::FinalityStalled, AlertSubject::default(), format!("{why}"));
        Effects { alerts: stalled.map(alert).into_iter().collect(), ..Effects::default() }
    }
}
