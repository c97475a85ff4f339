//! The start of a desk: everything that any earlier owner left open is taken up.
//!
//! Every stored attempt is maybe sent (I5): it is looked for on the chain by all its hashes, and
//! sent again with the same bytes. What was UNSENT goes to the grey zone, because the owner that
//! could have said so is gone.

use tollgate_model::port::Page;
use tollgate_model::{Allocated, TxEvent, TxState};
use tracing::info;

use super::waits::Waits;
use super::write::moved;
use super::{Desk, Stop};
use crate::planted::PlantedBug;

impl Desk {
    pub(super) async fn recover(&mut self) -> Result<(), Stop> {
        self.load().await?;
        self.doubt_what_was_unsent().await?;
        let view = self.context.view.get();
        self.follow(Vec::new(), &view).await?;
        // Everything that was loaded is looked for beside this, and then sent again where the rules
        // send it by themselves.
        self.govern().await
    }

    async fn load(&mut self) -> Result<(), Stop> {
        let page = Page::new(Page::MAX).map_err(|error| Stop::Restart(error.to_string()))?;
        let now = self.context.clock.now();
        let (mut after, mut found) = (None, 0);
        loop {
            let work = self.context.store.open_work(self.submitter, after, page).await;
            let work = work.map_err(|error| Stop::Restart(error.to_string()))?;
            let Some(last) = work.last() else { break };
            after = Some(last.record.tx_id);
            found += work.len();
            for mut tx in work {
                if self.context.options.breaks(PlantedBug::OlderHashesForgotten) {
                    let last = tx.attempts.len().saturating_sub(1);
                    tx.attempts.drain(..last);
                }
                self.book.load(tx, &self.context.options.resubmit, now);
            }
        }
        let waits = self.context.store.waits(self.submitter).await;
        let waits = waits.map_err(|error| Stop::Restart(error.to_string()))?;
        self.book.waits = Waits::stored(waits);
        for (tx_id, version, until) in self.refusals.standing(now) {
            if self.book.waiting(tx_id).is_some_and(|waiting| waiting.seen.version == version) {
                self.book.set_aside(tx_id, until);
            }
        }
        for hash in self.book.all_hashes() {
            self.context.attempts.insert(hash, self.submitter);
        }
        info!(submitter = %self.submitter, found, "open work taken up");
        Ok(())
    }

    async fn doubt_what_was_unsent(&mut self) -> Result<(), Stop> {
        let unsent = TxState::Allocated(Allocated::Unsent);
        let unsent = self.book.iter().filter(|open| open.seen.state == unsent);
        let updates = unsent.map(|open| moved(open, TxEvent::AnswerUnclear));
        let updates = updates.collect::<Result<_, _>>()?;
        self.apply_all(updates).await.map(|_| ())
    }
}
