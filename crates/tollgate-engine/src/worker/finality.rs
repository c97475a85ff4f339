//! Tells people when mined transactions wait and nothing becomes final. Moves nothing.

use tollgate_model::Timestamp;
use tollgate_model::finality::{FinalityPatience, settled_up_to, stall};
use tollgate_model::port::AlertKind;

use super::Desk;
use super::alarm::About;

/// The settled height while something waits for it, and since when it stands there.
#[derive(Clone, Copy)]
pub(super) struct SettledSince {
    up_to: Option<u64>,
    since: Timestamp,
}

impl Desk {
    /// Looks whether the settled height rises while something mined waits for it.
    pub(super) fn watch_finality(&mut self) {
        let now = self.context.clock.now();
        if self.book.iter().all(|open| open.mined.is_none()) {
            self.agenda.settled_since = None;
            return;
        }
        let options = &self.context.options;
        let height = self.context.view.get().height();
        let up_to = height.and_then(|height| settled_up_to(options.finality, height));
        let known = self.agenda.settled_since.filter(|known| known.up_to == up_to);
        let known = known.unwrap_or(SettledSince { up_to, since: now });
        self.agenda.settled_since = Some(known);
        let patience = FinalityPatience {
            without_tag: options.receipt_alert_after,
            standing: options.finality_alert_after,
        };
        let told = stall(options.finality, height, now.since(known.since), patience);
        if let Some(why) = told {
            let (kind, about) = (AlertKind::FinalityStalled, About::default());
            self.alarm.raise(kind, about, &why.to_string(), now);
        }
    }
}
