//! Looks for transactions by their hashes before they are sent again, beside the worker's own work. Owns which
//! were looked for.
//!
//! One lookup at a time, of a bounded number of transactions, lowest nonce first: after a takeover with
//! thousands of open transactions creates and finality go on meanwhile (I14). No answer is no evidence
//! (I8): what no endpoint could tell about is sent again as if nothing had been found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate_model::port::chain::{Chain, ChainUnavailable, TxLocation};
use tollgate_model::{Nonce, Route, Timestamp, TxEvent, TxHash, TxId};
use tracing::Instrument;

use super::Upkeep;
use crate::mailbox::{LookupFindings, WorkerEvent};
use crate::view::ChainView;
use crate::worker::Stop;
use crate::worker::evidence::record_receipts;
use crate::worker::in_flight::InFlightTx;
use crate::worker::session::{Session, moved};

/// Transactions of one look (I13); the others follow.
const LOOKED_FOR_MAX: usize = 256;
/// Transactions that are looked for at once.
const AT_ONCE: usize = 16;
/// Transactions in a row without an answer, after which the rest of a look is not asked for.
const UNANSWERED_MAX: usize = 8;
/// The longest that one question may take.
const QUESTION_MAX: Duration = Duration::from_secs(15);
/// The age of a lookup after which it is repeated before a send.
const AGE_MAX: Duration = Duration::from_secs(5);

/// The lookup that is under way.
pub(super) struct HashLookups {
    task: Option<JoinHandle<()>>,
    /// Of the last lookup. Counted from the time at which the worker began: a worker that starts again
    /// gives no number twice.
    number: u64,
}

impl HashLookups {
    pub(super) fn from(now: Timestamp) -> Self {
        Self { task: None, number: u64::try_from(now.unix_micros()).unwrap_or_default() }
    }
}

impl Drop for HashLookups {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The state of the lookup of one transaction.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct Lookup {
    is_wanted: bool,
    done_at: Option<Timestamp>,
}

impl Lookup {
    pub(in crate::worker) const NOT_WANTED: Self = Self { is_wanted: false, done_at: None };
    pub(in crate::worker) const WANTED: Self = Self { is_wanted: true, done_at: None };

    pub(in crate::worker) fn is_fresh(&self, now: Timestamp) -> bool {
        self.done_at.is_some_and(|at| now.since(at) < AGE_MAX)
    }

    pub(in crate::worker) const fn is_done(&self) -> bool {
        self.done_at.is_some()
    }

    /// Has it looked for with the next look.
    const fn want(&mut self) {
        self.is_wanted = true;
    }

    pub(in crate::worker) const fn done(now: Timestamp) -> Self {
        Self { is_wanted: false, done_at: Some(now) }
    }
}

/// A transaction that is to be looked for.
#[derive(Clone)]
struct Wanted {
    tx_id: TxId,
    /// The endpoints that may see its hashes.
    route: Route,
    attempts: Vec<TxHash>,
    answers: u64,
    /// Nobody knows whether a node has it.
    in_grey_zone: bool,
}

impl HashLookups {
    /// Begins the next lookup, if one is wanted and none is under way.
    pub(super) fn begin(&mut self, session: &Session) {
        // A task that panicked is finished without a result.
        if self.task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let wanted = session.state.in_flight().unmined().filter(|tx| tx.lookup.is_wanted);
        let now = session.now();
        let wanted: Vec<_> = wanted.take(LOOKED_FOR_MAX).map(|tx| Wanted::of(tx, now)).collect();
        if wanted.is_empty() {
            return;
        }
        self.number += 1;
        let (number, mailbox) = (self.number, session.mailbox.clone());
        let chain = session.context.chain.clone();
        let look = async move {
            let found = look_up(&chain, wanted).await;
            mailbox.post([WorkerEvent::LookedUp { number, found }]);
        };
        self.task = Some(tokio::spawn(look.in_current_span()));
    }
}

impl Upkeep {
    /// Takes notice of what a lookup has brought: receipts, and what is with a node after all. What was looked
    /// for and has no receipt may be sent again now.
    pub(in crate::worker) async fn note_looked_up(
        &mut self,
        session: &mut Session,
        number: u64,
        found: Vec<LookupFindings>,
        view: &ChainView,
    ) -> Result<(), Stop> {
        if number != self.lookups.number {
            return Ok(());
        }
        self.lookups.task = None;
        let receipts = found.iter().flat_map(|one| one.receipts.clone()).collect();
        record_receipts(session, receipts, view).await?;
        leave_grey_zone(session, &found).await?;
        let now = session.now();
        for one in found {
            let Some(tx) = session.state.tx_mut(one.tx_id) else { continue };
            // A further attempt, or an answer, meanwhile: what was not asked is not known.
            let is_current = tx.hashes() == one.attempts && tx.answers.count() == one.answers;
            let has_no_receipt = is_current && one.is_answered && one.receipts.is_empty();
            tx.note_lookup(has_no_receipt, now);
            // Else it is looked for again later: a chain that fails at once must not be asked in a loop.
            if has_no_receipt && tx.may_be_rejected() {
                session.agenda.look_at_rejected(now);
            }
        }
        session.agenda.tick_now();
        Ok(())
    }
}

/// Ends the grey zone of transactions that a node knows by their hash.
async fn leave_grey_zone(session: &mut Session, found: &[LookupFindings]) -> Result<(), Stop> {
    let pending = found.iter().filter(|one| one.is_pending);
    let grey = pending.filter_map(|one| session.state.tx(one.tx_id)).filter(|tx| tx.in_grey_zone());
    let updates = grey.map(|tx| moved(tx, TxEvent::NodeAccepted)).collect::<Result<_, _>>()?;
    session.apply_all(updates).await.map(|_| ())
}

/// Has slots looked for with the next lookup.
pub(in crate::worker) fn want_lookup(session: &mut Session, nonces: &[Nonce]) {
    for nonce in nonces {
        if let Some(tx) = session.state.in_flight_mut().at_mut(*nonce) {
            tx.lookup.want();
        }
    }
}

impl Wanted {
    fn of(tx: &InFlightTx, now: Timestamp) -> Self {
        let (tx_id, attempts, answers) = (tx.tx_id, tx.hashes(), tx.answers.count());
        Self { tx_id, route: tx.route(now), attempts, answers, in_grey_zone: tx.in_grey_zone() }
    }

    fn unanswered(self) -> LookupFindings {
        let Self { tx_id, attempts, answers, .. } = self;
        let (receipts, is_answered, is_pending) = (Vec::new(), false, false);
        LookupFindings { tx_id, attempts, answers, receipts, is_answered, is_pending }
    }
}

async fn look_up(chain: &Arc<dyn Chain>, wanted: Vec<Wanted>) -> Vec<LookupFindings> {
    let order: Vec<TxId> = wanted.iter().map(|one| one.tx_id).collect();
    let mut found: BTreeMap<TxId, LookupFindings> =
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
async fn look_for(chain: &Arc<dyn Chain>, wanted: Wanted) -> LookupFindings {
    let (route, in_grey_zone) = (wanted.route, wanted.in_grey_zone);
    let mut looked = LookupFindings { is_answered: true, ..wanted.unanswered() };
    for hash in &looked.attempts {
        match answered(chain.receipt(*hash, route)).await {
            Ok(receipt) => looked.receipts.extend(receipt),
            Err(_) => looked.is_answered = false,
        }
    }
    if !in_grey_zone || !looked.receipts.is_empty() || !looked.is_answered {
        return looked;
    }
    for hash in &looked.attempts {
        let seen = answered(chain.sighting(*hash, route)).await;
        if matches!(seen, Ok(Some(TxLocation::Pending))) {
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
