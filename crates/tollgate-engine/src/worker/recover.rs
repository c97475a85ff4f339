//! The start of a desk: everything that any earlier owner left open is taken up.
//!
//! Every stored attempt is maybe sent (I5): it is looked for on the chain by all its hashes, and
//! sent again with the same bytes. What was UNSENT goes to the grey zone, because the owner that
//! could have said so is gone.

use futures_util::{StreamExt, stream};
use tollgate_model::port::{MinedIn, Page, Section, SectionOutcome, TxUpdate};
use tollgate_model::{Allocated, Timestamp, TxEvent, TxHash, TxId, TxState};
use tracing::info;

use super::{Desk, Stop};
use crate::notes::Note;
use crate::sender::Parcel;

/// Receipts that are asked for at once.
const ASKED_AT_ONCE: usize = 16;

impl Desk {
    pub(super) async fn recover(&mut self) -> Result<(), Stop> {
        self.load().await?;
        self.doubt_what_was_unsent().await?;
        let receipts = self.look_for_receipts().await;
        let view = self.context.view.borrow().clone();
        self.follow(receipts.into_iter().map(Note::Mined).collect(), &view).await?;
        let now = self.context.clock.now();
        let unmined: Vec<TxId> =
            self.book.iter().filter(|open| open.mined.is_none()).map(|open| open.tx_id).collect();
        for tx_id in unmined {
            self.resend(tx_id, now);
        }
        Ok(())
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
            for tx in work {
                self.book.load(tx, now);
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
        let mut section = Section::new(self.lease);
        for open in self.book.iter().filter(|open| open.seen.state == unsent) {
            let update = TxUpdate::moved(open.tx_id, open.seen, TxEvent::AnswerUnclear)
                .map_err(|error| Stop::Restart(error.to_string()))?;
            section.updates.push(update);
        }
        self.apply(section).await
    }

    /// The receipts of all attempts that have none on record yet. An error is no answer: the
    /// tracker and the ticks will find what is not found here.
    async fn look_for_receipts(&self) -> Vec<MinedIn> {
        let unmined = self.book.iter().filter(|open| open.mined.is_none());
        let hashes: Vec<_> =
            unmined.flat_map(|open| open.attempts.iter().map(|form| form.hash)).collect();
        self.receipts_of(hashes).await
    }

    /// Looks for receipts one by one, a few at a time.
    pub(super) async fn receipts_of(&self, hashes: Vec<TxHash>) -> Vec<MinedIn> {
        let chain = &self.context.chain;
        stream::iter(hashes)
            .map(|hash| chain.receipt(hash))
            .buffer_unordered(ASKED_AT_ONCE)
            .filter_map(|answer| async { answer.ok().flatten() })
            .collect()
            .await
    }

    /// Sends a transaction's newest attempt again: the same bytes.
    pub(super) fn resend(&mut self, tx_id: TxId, now: Timestamp) {
        let Some(open) = self.book.get_mut(tx_id) else { return };
        open.resend_at = now.after(self.context.options.resubmit.interval);
        if let Some(raw) = open.newest().cloned() {
            self.sender.send(Parcel { tx_id, raw });
        }
    }

    /// Commits updates and notes what they made of the rows.
    pub(super) async fn apply(&mut self, section: Section) -> Result<(), Stop> {
        if section.updates.is_empty() {
            return Ok(());
        }
        let updates = section.updates.clone();
        match self.commit(section).await {
            Ok(SectionOutcome::Committed { updates: answers, .. }) => {
                for (update, answer) in updates.iter().zip(answers) {
                    self.applied(update, answer)?;
                }
                Ok(())
            }
            Ok(SectionOutcome::Fenced) => Err(Stop::Fenced),
            Ok(other) => Err(Stop::Restart(format!("{other:?}"))),
            Err(error) => {
                self.settle_before_restart(updates.iter().map(|update| update.tx_id)).await;
                Err(Stop::Restart(error.to_string()))
            }
        }
    }

    /// After a commit whose answer was lost: waits until it can't land any more, so that what is
    /// read back next is the truth.
    pub(super) async fn settle_before_restart(&self, tx_ids: impl Iterator<Item = TxId>) {
        let tx_ids: Vec<TxId> = tx_ids.collect();
        let store = &self.context.store;
        while let Err(error) = store.settle(&self.context.node, self.lease, &tx_ids).await {
            if !error.is_retryable() {
                return;
            }
            tokio::time::sleep(super::RESTART_PAUSE).await;
        }
    }
}
