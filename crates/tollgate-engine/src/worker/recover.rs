//! The start of a desk: everything that any earlier owner left open is taken up.
//!
//! Every stored attempt is maybe sent (I5): it is looked for on the chain by all its hashes, and
//! sent again with the same bytes. What was UNSENT goes to the grey zone, because the owner that
//! could have said so is gone.

use futures_util::{StreamExt, stream};
use tollgate_model::port::{MinedIn, Page};
use tollgate_model::{Allocated, TxEvent, TxHash, TxState};
use tracing::info;

use super::write::moved;
use super::{Desk, Stop};
use crate::notes::Note;
use crate::planted::PlantedBug;

/// Receipts that are asked for at once.
const ASKED_AT_ONCE: usize = 16;
/// Errors in a row after which the rest is left to the tracker and the ticks.
const ERRORS_IN_A_ROW_MAX: usize = 8;

impl Desk {
    pub(super) async fn recover(&mut self) -> Result<(), Stop> {
        self.load().await?;
        self.doubt_what_was_unsent().await?;
        let receipts = self.look_for_receipts().await;
        let view = self.context.view.get();
        self.follow(receipts.into_iter().map(Note::Mined).collect(), &view).await?;
        // Everything that was loaded is due to be sent again, where the rules send it by themselves.
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
        self.apply_all(updates).await
    }

    /// The receipts of all attempts that have none on record yet. An error is no answer: the
    /// tracker and the ticks will find what is not found here.
    async fn look_for_receipts(&self) -> Vec<MinedIn> {
        let unmined = self.book.iter().filter(|open| open.mined.is_none());
        let hashes: Vec<_> =
            unmined.flat_map(|open| open.attempts.iter().map(|form| form.hash)).collect();
        self.receipts_of(hashes).await
    }

    /// Looks for receipts one by one, a few at a time. One that can't be read does not keep the
    /// others; a chain that answers none of a few questions in a row is not asked on, because a
    /// submitter's callers wait meanwhile (I14).
    pub(super) async fn receipts_of(&self, hashes: Vec<TxHash>) -> Vec<MinedIn> {
        let chain = &self.context.chain;
        let mut answers =
            stream::iter(hashes).map(|hash| chain.receipt(hash)).buffer_unordered(ASKED_AT_ONCE);
        let (mut found, mut errors_in_a_row) = (Vec::new(), 0);
        while let Some(answer) = answers.next().await {
            errors_in_a_row = if answer.is_err() { errors_in_a_row + 1 } else { 0 };
            found.extend(answer.ok().flatten());
            if errors_in_a_row >= ERRORS_IN_A_ROW_MAX {
                break;
            }
        }
        found
    }
}
