//! A reader of the feed that remembers only the last place it saw, and what each outcome rests on
//! (I8, I9, I10).

use tollgate_model::event::EventKind;
use tollgate_model::port::{Completion, EventStore, FeedFilter, FeedKind, FeedStore, Page};
use tollgate_model::{Failed, Seq, TxState};

use crate::world::World;

impl World {
    /// All entries of the feed, so that their numbers have no gap.
    fn feed(&self) -> FeedFilter {
        FeedFilter { chain_id: Some(self.chain_id()), with_stuck: true }
    }

    /// Reads new completions.
    pub(crate) async fn read_feed(&self) {
        let Ok(page) = Page::new(Page::MAX) else { return };
        let after = self.checker.lock().last_seq.unwrap_or(Seq::MIN);
        let Ok(new) = self.store.completions(self.feed(), after, page).await else { return };
        for completion in crate::planted::skipped(self, new.items) {
            self.take_completion(completion);
        }
        self.read_events().await;
    }

    /// Reads new events, and gives them numbers before, as every node does.
    async fn read_events(&self) {
        let Ok(page) = Page::new(Page::MAX) else { return };
        while self.store.number_events(page).await.is_ok_and(|numbered| numbered > 0) {}
        loop {
            let after = self.checker.lock().last_event.unwrap_or(Seq::MIN);
            let Ok(found) = self.store.events(after, page).await else { return };
            let mut expected = after.get() + 1;
            for event in crate::planted::events_skipped(self, found.items) {
                let (seq, kind) = (event.seq.get(), event.event.kind);
                if seq != expected {
                    let what = format!("event {expected} is missing: {seq} came");
                    self.checker.fail(self, "I10", what);
                }
                expected = seq + 1;
                let ends = matches!(kind, EventKind::TxConfirmed | EventKind::TxFailed);
                let Some(tx) = event.event.tx.filter(|_| ends) else { continue };
                let is_new = self.checker.lock().ended.insert(tx.tx_id);
                if !is_new {
                    self.checker.fail(
                        self,
                        "I9",
                        format!("{} ended twice by its events", tx.tx_id),
                    );
                }
            }
            self.checker.lock().last_event = Some(found.next);
            if found.next == found.end {
                return;
            }
        }
    }

    /// I10: every end that the feed tells is among the events.
    fn check_events(&self) {
        let missed = {
            let seen = self.checker.lock();
            seen.done.keys().find(|tx_id| !seen.ended.contains(*tx_id)).copied()
        };
        if let Some(missed) = missed {
            self.checker.fail(self, "I10", format!("no event tells the end of {missed}"));
        }
    }

    /// I10: what was read bit by bit is what is there as a whole.
    pub(crate) async fn check_feed(&self) {
        let Ok(page) = Page::new(Page::MAX) else { return };
        let (mut after, mut count) = (Seq::MIN, 0);
        while let Ok(read) = self.store.completions(self.feed(), after, page).await {
            let Some(last) = read.items.last() else { break };
            (after, count) = (last.seq, count + read.items.len());
            let missed = {
                let seen = self.checker.lock();
                let mut ended = read.items.iter().filter(|it| it.state.is_final());
                ended.find(|it| !seen.done.contains_key(&it.tx_id)).map(|it| it.tx_id)
            };
            if let Some(missed) = missed {
                return self.checker.fail(self, "I10", format!("a reader never saw {missed}"));
            }
        }
        self.check_events();
        self.note(format_args!("{count} in the feed"));
    }

    fn take_completion(&self, completion: Completion) {
        let Completion { seq, tx_id, state, .. } = completion;
        self.note(format_args!("feed {} {tx_id} {state}", seq.get()));
        let (last, known, broken) = {
            let mut seen = self.checker.lock();
            let last = seen.last_seq.replace(seq).unwrap_or(Seq::MIN);
            let known = match FeedKind::of_state(state) {
                FeedKind::Final => seen.done.insert(tx_id, completion.clone()),
                // Nothing follows the end.
                FeedKind::Stuck | FeedKind::Unstuck => seen.done.get(&tx_id).cloned(),
            };
            (last, known, seen.finality_broken)
        };
        let is_next = if self.shares_feed { seq > last } else { seq.get() == last.get() + 1 };
        if !is_next {
            let what = format!("after {} came {}", last.get(), seq.get());
            self.checker.fail(self, "I10", what);
        }
        if let Some(known) = known {
            let what = format!("{tx_id} ended twice: {} and {state}", known.state);
            self.checker.fail(self, "I9", what);
        }
        if broken || !state.is_final() {
            return;
        }
        if let Err(why) = self.judge(&completion) {
            self.checker.fail(self, "I8", format!("{tx_id} {state}: {why}"));
        }
    }

    /// Compares an outcome with the chain.
    fn judge(&self, completion: &Completion) -> Result<(), String> {
        match completion.state {
            TxState::Confirmed => self.judge_mined(completion, Some(true), false),
            TxState::Failed(Failed::Reverted) => self.judge_mined(completion, Some(false), false),
            TxState::Failed(Failed::Cancelled | Failed::Rejected) => match completion.tx_hash {
                Some(_) => self.judge_mined(completion, None, true),
                None => self.judge_never_taken(completion),
            },
            TxState::Failed(Failed::NonceTaken) => self.judge_taken(completion),
            TxState::Queued(_)
            | TxState::Allocated(_)
            | TxState::Tracking(_)
            | TxState::Stuck(_) => Err("is not final".to_owned()),
        }
    }

    fn judge_mined(
        &self,
        completion: &Completion,
        succeeded: Option<bool>,
        closes: bool,
    ) -> Result<(), String> {
        let hash = completion.tx_hash.ok_or("no hash")?;
        let (place, settled) = {
            let state = self.chain.lock();
            (state.place(&hash), state.settled())
        };
        let (block, success) = place.ok_or_else(|| format!("{hash} is in no block"))?;
        if block > settled {
            return Err(format!("in block {block}, settled is {settled}"));
        }
        if succeeded.is_some_and(|wanted| wanted != success) {
            return Err(format!("the receipt says {success}"));
        }
        let seen = self.checker.lock();
        match seen.sent.get(&hash) {
            Some(sent) if sent.tx_id != completion.tx_id => Err("mined is another's".to_owned()),
            Some(sent) if closes && !sent.closes => Err("the intent itself was mined".to_owned()),
            Some(_) | None => Ok(()),
        }
    }

    fn judge_never_taken(&self, completion: &Completion) -> Result<(), String> {
        let seen = self.checker.lock();
        let taken = seen.sent.values().any(|sent| sent.tx_id == completion.tx_id && sent.taken);
        if taken { Err("a node has taken it".to_owned()) } else { Ok(()) }
    }

    fn judge_taken(&self, completion: &Completion) -> Result<(), String> {
        let ours: Vec<_> = {
            let seen = self.checker.lock();
            let ours = seen.sent.iter().filter(|(_, sent)| sent.tx_id == completion.tx_id);
            ours.map(|(hash, sent)| (*hash, *sent)).collect()
        };
        let Some((_, sent)) = ours.first() else { return Ok(()) };
        let state = self.chain.lock();
        if let Some((hash, _)) = ours.iter().find(|(hash, _)| state.place(hash).is_some()) {
            return Err(format!("{hash}, which is ours, is in the slot"));
        }
        if state.settled_count(sent.from) <= sent.nonce {
            return Err(format!("nobody's is settled in slot {}", sent.nonce));
        }
        Ok(())
    }
}
