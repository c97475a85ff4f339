//! Counts and logs the changes of transactions, after they are durable. Owns nothing and decides nothing.
//!
//! Every change of state is one line at INFO with the fields of the log dictionary; a change that keeps the
//! state (a claim, a further attempt) is one at DEBUG.

use tollgate_metrics::{ChainMetrics, GreyZoneResult, TxEnd};
use tollgate_model::port::span::{SpanKind, SpanSink};
use tollgate_model::port::{Evidence, Lease, NewTx, TxUpdate};
use tollgate_model::schedule::waits_since;
use tollgate_model::{
    Allocated, Failed, NodeId, Nonce, RequestId, StuckReason, Timestamp, TraceParent, Tracking,
    TxEvent, TxHash, TxId, TxState,
};
use tracing::{Level, debug, enabled, info};

use super::in_flight::InFlightTx;
use super::state::{QueuedTx, SubmitterState};
use crate::context::Context;
use crate::spans::{self, About, OfTx};

/// The writer of changes, and where they are counted.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) metrics: &'a ChainMetrics,
    pub(super) spans: &'a dyn SpanSink,
    pub(super) node: &'a NodeId,
    pub(super) lease: Lease,
}

impl<'a> Writer<'a> {
    pub(super) fn new(context: &'a Context, lease: Lease) -> Self {
        let Context { metrics, node, spans, .. } = context;
        Self { metrics, spans: &**spans, node, lease }
    }
}

/// A transaction as it was before its change.
#[derive(Clone, Copy)]
struct Before<'a> {
    request_id: Option<&'a RequestId>,
    trace: Option<TraceParent>,
    nonce: Option<Nonce>,
    tx_hash: Option<TxHash>,
    /// When it was accepted, or its `notBefore` if that is later.
    since: Timestamp,
    /// A node was known to have it.
    was_sent: bool,
    /// A block has held it before.
    was_mined: bool,
}

impl<'a> Before<'a> {
    fn of(state: &'a SubmitterState, tx_id: TxId) -> Option<Self> {
        let in_flight = state.tx(tx_id).map(Self::in_flight);
        in_flight.or_else(|| state.queue().get(tx_id).map(Self::queued))
    }

    fn in_flight(tx: &'a InFlightTx) -> Self {
        let newest = tx.newest().map(|attempt| attempt.signed.tx_hash);
        Self {
            request_id: tx.request_id.as_ref(),
            trace: tx.trace,
            nonce: Some(tx.nonce),
            tx_hash: tx.mined.as_ref().map(|mined| mined.tx_hash).or(newest),
            since: tx.waits_since,
            was_sent: tx.was_accepted,
            was_mined: tx.mined.is_some() || tx.forked,
        }
    }

    fn queued(tx: &'a QueuedTx) -> Self {
        Self {
            request_id: tx.request_id.as_ref(),
            trace: tx.trace,
            nonce: None,
            tx_hash: None,
            since: waits_since(&tx.intent, tx.accepted_at),
            was_sent: false,
            was_mined: false,
        }
    }
}

/// A create is durable.
pub(super) fn note_created(writer: Writer<'_>, tx: &NewTx) {
    let slot = tx.slot.as_ref();
    info!(
        submitter = %writer.lease.submitter,
        tx_id = %tx.tx_id,
        request_id = tx.request_id.as_ref().map(RequestId::shown),
        trace_id = tx.trace.map(|trace| display(trace.trace_id())),
        node_id = writer.node.as_str(),
        fencing_token = writer.lease.token.get(),
        nonce = slot.map(|slot| slot.nonce.get()),
        tx_hash = slot.map(|slot| display(slot.attempt.tx_hash)),
        to = %tx.initial_state(),
        "transaction accepted"
    );
}

/// A queued transaction has a slot.
pub(super) fn note_allocated(writer: Writer<'_>, update: &TxUpdate, queued: &QueuedTx) {
    let slot = update.slot.as_ref();
    let before = Before {
        nonce: slot.map(|slot| slot.nonce),
        tx_hash: slot.map(|slot| slot.attempt.tx_hash),
        ..Before::queued(queued)
    };
    log(writer, update, before);
}

/// A change is durable. Called before the state in memory follows it.
pub(super) fn note_changed(
    writer: Writer<'_>,
    state: &SubmitterState,
    update: &TxUpdate,
    now: Timestamp,
) {
    let Some(before) = Before::of(state, update.tx_id) else { return };
    log(writer, update, before);
    count(writer.metrics, update, before, now);
    if let Some(trace) = before.trace {
        record_step(writer, trace, update, before, now);
    }
}

/// Records the time from the acceptance of a traced transaction to a step of its life.
fn record_step(
    writer: Writer<'_>,
    trace: TraceParent,
    update: &TxUpdate,
    before: Before<'_>,
    now: Timestamp,
) {
    let to = update.to();
    let name = match update.event() {
        Some(TxEvent::NodeAccepted) if !before.was_sent => "transaction sent",
        Some(TxEvent::Mined) if !before.was_mined => "transaction mined",
        Some(TxEvent::GaveUp(_)) => "transaction stuck",
        Some(_) if to.is_final() => "transaction final",
        _ => return,
    };
    let failed = matches!(to, TxState::Failed(_) | TxState::Stuck(_));
    let took = now.since(before.since);
    let about = About { name, kind: SpanKind::Internal, took, failed };
    let tx_hash = update.evidence.mined().map(|mined| mined.tx_hash).or(before.tx_hash);
    let of = OfTx { tx_id: update.tx_id, submitter: writer.lease.submitter, tx_hash };
    let state = ("tollgate.state", to.to_string());
    let node = ("tollgate.node_id", writer.node.as_str().to_owned());
    spans::record(writer.spans, trace, &about, of, [state, node]);
}

fn log(writer: Writer<'_>, update: &TxUpdate, before: Before<'_>) {
    let (from, to) = (update.row.state, update.to());
    if from == to && !enabled!(Level::DEBUG) {
        return;
    }
    let mined = match &update.evidence {
        Evidence::Set(receipt) => Some(receipt.tx_hash),
        Evidence::Keep | Evidence::Clear => None,
    };
    let newest = update.attempt.as_ref().map(|attempt| attempt.tx_hash);
    let error = update.last_error.as_ref().map(|error| error.as_str());
    let reason = update.detail.as_ref().map(|detail| detail.as_str());
    let reason = reason.or(error).filter(|reason| !reason.is_empty());
    macro_rules! line {
        ($level:ident, $message:literal) => {
            $level!(
                submitter = %writer.lease.submitter,
                tx_id = %update.tx_id,
                request_id = before.request_id.map(RequestId::shown),
                trace_id = before.trace.map(|trace| display(trace.trace_id())),
                node_id = writer.node.as_str(),
                fencing_token = writer.lease.token.get(),
                nonce = before.nonce.map(Nonce::get),
                tx_hash = mined.or(newest).or(before.tx_hash).map(display),
                from = %from,
                to = %to,
                event = update.event_name(),
                reason,
                $message
            )
        };
    }
    match from == to {
        true => line!(debug, "transaction noted"),
        false if to.is_final() => line!(info, "transaction final"),
        false => line!(info, "transaction state changed"),
    }
}

fn count(metrics: &ChainMetrics, update: &TxUpdate, before: Before<'_>, now: Timestamp) {
    let age = now.since(before.since);
    match update.event() {
        Some(TxEvent::NodeAccepted) if !before.was_sent => metrics.tx_sent_seconds.observe(age),
        Some(TxEvent::Mined) if !before.was_mined => metrics.tx_mined_seconds.observe(age),
        Some(TxEvent::Orphaned) => metrics.confirmations_new_fork_total.inc(),
        Some(TxEvent::GaveUp(reason)) => metrics.stuck_total.inc(reason),
        _ => {}
    }
    let (from, to) = (update.row.state, update.to());
    let ended = end_of(to).and_then(|end| metrics.tx_final_seconds.of(end));
    ended.into_iter().for_each(|times| times.observe(age));
    if let Some(result) = grey_zone(from, to) {
        metrics.grey_zone_total.inc(result);
    }
}

/// The name of a final state in metrics.
const fn end_of(to: TxState) -> Option<TxEnd> {
    match to {
        TxState::Confirmed => Some(TxEnd::Confirmed),
        TxState::Failed(Failed::Reverted) => Some(TxEnd::Reverted),
        TxState::Failed(Failed::Cancelled) => Some(TxEnd::Cancelled),
        TxState::Failed(Failed::Rejected) => Some(TxEnd::Rejected),
        TxState::Failed(Failed::NonceTaken) => Some(TxEnd::NonceTaken),
        TxState::Queued(_) | TxState::Allocated(_) | TxState::Tracking(_) | TxState::Stuck(_) => {
            None
        }
    }
}

/// The way into the grey zone or out of it. A transaction that is STUCK there has left it by being marked.
fn grey_zone(from: TxState, to: TxState) -> Option<GreyZoneResult> {
    const GREY: TxState = TxState::Allocated(Allocated::UnknownSubmitResult);
    match (from, to) {
        (GREY, GREY) => None,
        (_, GREY) => Some(GreyZoneResult::Entered),
        (GREY, TxState::Tracking(Tracking::Mined)) => Some(GreyZoneResult::Mined),
        (GREY, TxState::Tracking(_)) => Some(GreyZoneResult::Accepted),
        (GREY, TxState::Allocated(Allocated::InsufficientFunds)) => Some(GreyZoneResult::Funds),
        (GREY, TxState::Stuck(_)) => Some(GreyZoneResult::Stuck),
        (GREY, TxState::Confirmed | TxState::Failed(_)) => Some(GreyZoneResult::Ended),
        _ => None,
    }
}

/// The number of transactions that are STUCK.
pub(super) fn stuck_count(state: &SubmitterState) -> usize {
    let is_stuck = |tx: &&InFlightTx| matches!(tx.row.state, TxState::Stuck(_));
    state.in_flight().iter().filter(is_stuck).count()
}

/// True if nobody but a person or evidence moves it on.
pub(super) fn is_exhausted(update: &TxUpdate) -> bool {
    update.event() == Some(TxEvent::GaveUp(StuckReason::ResubmitsExhausted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_zone_is_entered_and_left_once_each_and_only_final_states_have_an_end() {
        let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
        for state in TxState::ALL {
            assert_eq!(end_of(state).is_some(), state.is_final(), "{state}");
            if state == grey {
                assert_eq!(grey_zone(state, grey), None);
                continue;
            }
            assert_eq!(grey_zone(state, grey), Some(GreyZoneResult::Entered), "{state}");
            assert_ne!(grey_zone(grey, state), Some(GreyZoneResult::Entered), "{state}");
            assert_eq!(grey_zone(state, state), None);
        }
    }
}
