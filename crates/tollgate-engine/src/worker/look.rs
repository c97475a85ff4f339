//! Looks for transactions by their hashes before they are sent again, beside the worker's own work.
//!
//! One look at a time, of a bounded number of transactions, lowest nonce first: after a takeover with
//! thousands of open transactions creates and finality go on meanwhile (I14). No answer is no evidence
//! (I8): what no endpoint could tell about is sent again as if nothing had been found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate_model::port::Section;
use tollgate_model::port::chain::{Chain, ChainUnavailable, Sighting};
use tollgate_model::{Allocated, Nonce, Timestamp, TxEvent, TxHash, TxId, TxState};

use super::open::Open;
use super::rejected::may_be_rejected;
use super::write::moved;
use super::{Desk, Stop};
use crate::notes::{LookedFor, Note};
use crate::view::ChainView;

/// Transactions of one look (I13); the others follow.
const LOOKED_FOR_MAX: usize = 256;
/// Transactions that are looked for at once.
const AT_ONCE: usize = 16;
/// Transactions in a row without an answer, after which the rest of a look is not asked for.
const UNANSWERED_MAX: usize = 8;
/// The longest that one question may take.
const QUESTION_MAX: Duration = Duration::from_secs(15);
/// What was looked for longer ago is looked for again before it is sent.
const AGE_MAX: Duration = Duration::from_secs(5);

/// The look that is under way.
pub(super) struct Looking {
    task: Option<JoinHandle<()>>,
    /// Of the last look. Counted from the time at which the desk began: a worker that starts again
    /// gives no number twice.
    number: u64,
}

impl Looking {
    pub(super) fn from(now: Timestamp) -> Self {
        Self { task: None, number: u64::try_from(now.unix_micros()).unwrap_or_default() }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Whether a transaction was looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    is_wanted: bool,
    done_at: Option<Timestamp>,
}

impl Look {
    pub(super) const NOT_WANTED: Self = Self { is_wanted: false, done_at: None };
    pub(super) const WANTED: Self = Self { is_wanted: true, done_at: None };

    /// Whether it was looked for a moment ago.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.done_at.is_some_and(|at| now.since(at) < AGE_MAX)
    }

    pub(super) const fn is_done(&self) -> bool {
        self.done_at.is_some()
    }

    /// Has it looked for with the next look.
    pub(super) const fn want(&mut self) {
        self.is_wanted = true;
    }

    const fn done(now: Timestamp) -> Self {
        Self { is_wanted: false, done_at: Some(now) }
    }
}

/// A transaction that is to be looked for.
#[derive(Clone)]
struct Wanted {
    tx_id: TxId,
    attempts: Vec<TxHash>,
    heard: u64,
    /// Nobody knows whether a node has it.
    is_grey: bool,
}

impl Desk {
    /// Begins the next look, if one is wanted and none is under way.
    pub(super) fn look(&mut self) {
        if self.looking.task.is_some() {
            return;
        }
        let wanted = self.book.iter().filter(|open| open.look.is_wanted && open.mined.is_none());
        let wanted: Vec<_> = wanted.take(LOOKED_FOR_MAX).map(Wanted::of).collect();
        if wanted.is_empty() {
            return;
        }
        self.looking.number += 1;
        let (number, notes) = (self.looking.number, self.notes.clone());
        let chain = self.context.chain.clone();
        self.looking.task = Some(tokio::spawn(async move {
            let looked = look(&chain, wanted).await;
            notes.leave([Note::Looked { number, looked }]);
        }));
    }

    /// Takes notice of what a look has brought: receipts, and what is with a node after all. What was
    /// looked for and has no receipt may be sent again now.
    pub(super) async fn note_looked(
        &mut self,
        number: u64,
        looked: Vec<LookedFor>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        if number != self.looking.number {
            return Ok(());
        }
        self.looking.task = None;
        let receipts = looked.iter().flat_map(|one| one.receipts.clone()).collect();
        self.note_receipts(receipts, view).await?;
        self.leave_grey_zone(&looked).await?;
        let now = self.context.clock.now();
        for one in looked {
            let Some(open) = self.book.get_mut(one.tx_id) else { continue };
            // A further attempt, or an answer, meanwhile: what was not asked is not known.
            let is_current = open.hashes() == one.attempts && open.heard.count() == one.heard;
            open.look = Look::done(now);
            if is_current && one.is_answered && one.receipts.is_empty() {
                open.heard.no_receipts = true;
                // Else it is looked for again later: a chain that fails at once must not be asked in a
                // loop.
                if may_be_rejected(open) {
                    self.agenda.rejected_at = now;
                }
            }
        }
        self.agenda.tick_now();
        Ok(())
    }

    /// What is in the grey zone and known to a node by its hash is with that node.
    async fn leave_grey_zone(&mut self, looked: &[LookedFor]) -> Result<(), Stop> {
        let mut section = Section::new(self.lease);
        for one in looked.iter().filter(|one| one.is_pending) {
            let open = self.book.get(one.tx_id).filter(|open| is_grey(open));
            if let Some(open) = open {
                section.updates.push(moved(open, TxEvent::NodeAccepted)?);
            }
        }
        self.record(section).await
    }

    /// Has the slots looked for that a node counts as used.
    pub(super) fn want_look(&mut self, nonces: &[Nonce]) {
        for nonce in nonces {
            if let Some(open) = self.book.at_mut(*nonce) {
                open.look.want();
            }
        }
    }
}

impl Wanted {
    fn of(open: &Open) -> Self {
        let (tx_id, attempts, heard) = (open.tx_id, open.hashes(), open.heard.count());
        Self { tx_id, attempts, heard, is_grey: is_grey(open) }
    }

    fn unanswered(self) -> LookedFor {
        let Self { tx_id, attempts, heard, .. } = self;
        let (receipts, is_answered, is_pending) = (Vec::new(), false, false);
        LookedFor { tx_id, attempts, heard, receipts, is_answered, is_pending }
    }
}

fn is_grey(open: &Open) -> bool {
    let grey = [Allocated::UnknownSubmitResult, Allocated::InsufficientFunds];
    grey.map(TxState::Allocated).contains(&open.seen.state)
}

async fn look(chain: &Arc<dyn Chain>, wanted: Vec<Wanted>) -> Vec<LookedFor> {
    let order: Vec<TxId> = wanted.iter().map(|one| one.tx_id).collect();
    let mut found: BTreeMap<TxId, LookedFor> =
        wanted.iter().map(|one| (one.tx_id, one.clone().unanswered())).collect();
    let mut answers =
        stream::iter(wanted).map(|one| look_for(chain, one)).buffer_unordered(AT_ONCE);
    let mut unanswered = 0;
    while let Some(one) = answers.next().await {
        unanswered = if one.is_answered { 0 } else { unanswered + 1 };
        found.insert(one.tx_id, one);
        if unanswered >= UNANSWERED_MAX {
            break;
        }
    }
    order.iter().filter_map(|tx_id| found.remove(tx_id)).collect()
}

/// Looks for receipts of all attempts and, where nobody knows whether a node has one of them, for the
/// attempts in the pools.
async fn look_for(chain: &Arc<dyn Chain>, wanted: Wanted) -> LookedFor {
    let is_grey = wanted.is_grey;
    let mut looked = LookedFor { is_answered: true, ..wanted.unanswered() };
    for hash in &looked.attempts {
        match answered(chain.receipt(*hash)).await {
            Ok(receipt) => looked.receipts.extend(receipt),
            Err(_) => looked.is_answered = false,
        }
    }
    if !is_grey || !looked.receipts.is_empty() || !looked.is_answered {
        return looked;
    }
    for hash in &looked.attempts {
        if matches!(answered(chain.sighting(*hash)).await, Ok(Some(Sighting::Pending))) {
            looked.is_pending = true;
            break;
        }
    }
    looked
}

async fn answered<T>(
    question: impl Future<Output = Result<T, ChainUnavailable>>,
) -> Result<T, ChainUnavailable> {
    let silent = |_| ChainUnavailable("no answer in time".to_owned());
    timeout(QUESTION_MAX, question).await.map_err(silent)?
}
