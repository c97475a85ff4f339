//! The head of the line: since when it is that, what the pools say of it, and why no block takes it.

use std::time::Duration;

use tollgate_model::bump::pays_the_market;
use tollgate_model::diagnose::{DiagnosisView, diagnose};
use tollgate_model::hindrance::{Hindrance, hindrance};
use tollgate_model::port::{AlertKind, TxUpdate};
use tollgate_model::{Route, StuckReason, Text, Timestamp, TxId, U256};

use crate::worker::alarm::AlertSubject;
use crate::worker::in_flight::InFlightTx;
use crate::worker::{Session, Stop};

/// The time between two examinations of the head.
const EXAMINE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct HeadWatch {
    head: Option<TxId>,
    /// The head was looked for since the worker began.
    is_known: bool,
    /// The pools are looked at next.
    diagnose_at: Timestamp,
    examined_at: Option<Timestamp>,
    hold_may_be_over: bool,
}

impl HeadWatch {
    pub(super) const fn from(now: Timestamp) -> Self {
        Self {
            head: None,
            is_known: false,
            diagnose_at: now,
            examined_at: None,
            hold_may_be_over: false,
        }
    }

    pub(super) fn is(&self, tx_id: TxId) -> bool {
        self.head == Some(tx_id)
    }

    pub(super) const fn hold_may_be_over(&self) -> bool {
        self.hold_may_be_over
    }

    /// Patience with the head begins when it becomes the head, whoever was the owner then.
    pub(super) fn note(&mut self, session: &mut Session) {
        let now = session.now();
        let head = session.state.in_flight().head().map(|head| head.tx_id);
        let takes_over = !std::mem::replace(&mut self.is_known, true);
        if head == self.head {
            return;
        }
        self.head = head;
        self.diagnose_at = now;
        (self.examined_at, self.hold_may_be_over) = (None, false);
        let Some(tx) = head.and_then(|head| session.state.tx_mut(head)) else { return };
        // A new owner is as patient with the head that it finds as the one before was.
        if !(takes_over && tx.sending.is_stored()) {
            tx.sending.renew(now);
        }
        // What it was refused for is mined by now, or is not ours.
        if tx.line_slot(now).is_refused() {
            let nonce = tx.nonce;
            tx.sending.make_due(now);
            session.state.in_flight_mut().resend_refused_above(nonce, None, now);
        }
    }

    /// Looks for the head in the pools, where that is wanted, and writes down what is new.
    pub(super) async fn diagnose(&mut self, session: &mut Session) -> Result<(), Stop> {
        let now = session.now();
        let Some(interval) = session.context.options.diagnose else { return Ok(()) };
        let head = session.state.in_flight().head().filter(|_| now >= self.diagnose_at);
        // Public pools don't know a private transaction, and must not learn its hash.
        let is_public = |tx: &&InFlightTx| tx.route(now) == Route::Public;
        let Some(tx) = head.filter(is_public) else { return Ok(()) };
        self.diagnose_at = now.after(interval);
        let (tx_id, hashes, address) = (tx.tx_id, tx.hashes(), session.submitter.address);
        let chain = &session.context.chain;
        let endpoints = chain.pools(address, &hashes).await;
        let counts = chain.counts(address).await.ok();
        let (nonce, endpoints) = (tx.nonce, endpoints.as_slice());
        let found = diagnose(&DiagnosisView { nonce, attempts: &hashes, endpoints, counts });
        if tx.diagnosis == Some(found) {
            return Ok(());
        }
        let mut update = TxUpdate::noted(tx_id, tx.row, "diagnosed");
        update.diagnosis = Some(Text::lossy(&found.to_string()));
        let _refused = session.apply_one(update).await?;
        if let Some(tx) = session.state.tx_mut(tx_id) {
            tx.set_diagnosis(found);
        }
        Ok(())
    }

    /// Finds out why no block takes the head: now and then while it is held, and once it has waited for longer
    /// than the first pause.
    pub(super) async fn examine(&mut self, session: &mut Session) -> Result<(), Stop> {
        let now = session.now();
        if self.examined_at.is_some_and(|at| now.since(at) < EXAMINE_EVERY) {
            return Ok(());
        }
        let Some(head) = self.head.and_then(|head| session.state.tx(head)) else { return Ok(()) };
        let rules = &session.context.options.resubmit;
        let patience = rules.timeout.map_or(rules.interval, |timeout| timeout.min(rules.interval));
        let is_overdue = now.since(head.sending.patience().since) >= patience;
        let (tx_id, held_for) = (head.tx_id, head.hold());
        self.hold_may_be_over = false;
        if head.mined.is_some() || !(held_for.is_some() || is_overdue && !head.awaits_lookup()) {
            return Ok(());
        }
        let examined = hindrance_of(session, head).await;
        self.examined_at = Some(now);
        let Some((found, pays_the_market)) = examined else { return Ok(()) };
        self.hold_may_be_over = match held_for {
            Some(StuckReason::InsufficientFunds) => !matches!(found, Some(Hindrance::Funds { .. })),
            Some(_) => pays_the_market,
            None => false,
        };
        if let Some(tx) = session.state.tx_mut(tx_id) {
            tx.holds.set_hindrance(found);
        }
        show_hindrance(session, tx_id).await
    }
}

/// Finds why no block can take a transaction's newest attempt, and whether that offers what the market asks for;
/// `None` if the chain can't be asked.
async fn hindrance_of(session: &Session, tx: &InFlightTx) -> Option<(Option<Hindrance>, bool)> {
    let newest = &tx.newest()?.signed;
    let replaced =
        || session.context.attempt_cost(session.submitter.chain_id, newest).replaced_value;
    let value = match tx.closing() {
        Some(_) => U256::ZERO,
        None => replaced().unwrap_or(tx.intent.value),
    };
    let balance = session.context.chain.balance(session.submitter.address).await.ok()?;
    let quote = session.context.chain.fee_quote(tx.intent.speed).await.ok()?;
    let found = hindrance(value, &newest.fees, Some(balance), quote.base_fee);
    Some((found, pays_the_market(&newest.fees, &quote)))
}

/// Writes a hindrance down where it is new, and that it is gone, and raises an alert.
async fn show_hindrance(session: &mut Session, tx_id: TxId) -> Result<(), Stop> {
    let Some(tx) = session.state.tx(tx_id) else { return Ok(()) };
    let hold = tx.hold();
    if hold == tx.holds.shown() {
        return Ok(());
    }
    let what = if hold.is_some() { "held" } else { "hold_over" };
    let mut update = TxUpdate::noted(tx_id, tx.row, what);
    match tx.holds.hindrance() {
        Some(hindrance) => {
            let (cause, subject) = (hindrance.to_string(), AlertSubject::slot(tx_id, tx.nonce));
            let kind = match hindrance {
                Hindrance::Funds { .. } => AlertKind::InsufficientFunds,
                Hindrance::BaseFee { .. } => AlertKind::FeeCap,
            };
            update.last_error = Some(Text::lossy(&cause));
            session.alert(kind, subject, &cause);
        }
        None if hold.is_none() => update.clear_error(),
        // What a node said of it is written down with its answer.
        None => return Ok(()),
    }
    if session.apply_one(update).await?.is_none()
        && let Some(tx) = session.state.tx_mut(tx_id)
    {
        tx.note_hold_shown();
    }
    Ok(())
}
