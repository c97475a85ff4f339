//! Asks the stuck policy when a decision is needed, and carries out what it says. Owns the open question and
//! those that wait.
//!
//! One question at a time, beside the worker's own work, so that a slow policy delays nothing. An answer to
//! anything but the question that is open now is ignored: nothing is done twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use tollgate_model::port::{AlertKind, Attempt, TxRecord, TxUpdate};
use tollgate_model::stuck::{LineView, Trigger, trigger};
use tollgate_model::{Nonce, Timestamp, TxId};
use tracing::{Instrument, info, warn};

use super::{ActionFailure, ActionOrigin, Commands, carry_out_action};
use crate::context::Context;
use crate::mailbox::{PolicyAnswer, PolicyQuestion, WorkerEvent};
use crate::worker::alarm::AlertSubject;
use crate::worker::{Session, Stop};

/// The longest that a policy may take; then nothing is done (I13).
const PATIENCE: Duration = Duration::from_secs(120);
/// Questions that may wait (I13): more are asked when they come up again.
const WAITING_MAX: usize = 256;

/// The open question and those that wait.
pub(super) struct StuckQuestions {
    open: Option<PolicyQuestion>,
    next: VecDeque<(TxId, Trigger)>,
    /// The number of the last question. Counted from the time at which the worker began: a worker that
    /// starts again under the same token gives no number twice.
    asked: u64,
}

impl StuckQuestions {
    pub(super) fn from(now: Timestamp) -> Self {
        let asked = u64::try_from(now.unix_micros()).unwrap_or_default();
        Self { open: None, next: VecDeque::new(), asked }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Has a transaction asked about, once.
    pub(super) fn add(&mut self, tx_id: TxId, trigger: Trigger) {
        if self.next.len() < WAITING_MAX && !self.next.contains(&(tx_id, trigger)) {
            self.next.push_back((tx_id, trigger));
        }
    }
}

impl StuckQuestions {
    /// Asks the policy if the line, a mark or an operator calls for it.
    pub(super) fn ask_about_head(&mut self, session: &mut Session) {
        if self.open.is_some() {
            return;
        }
        let now = session.now();
        while let Some((tx_id, why)) = self.next.pop_front() {
            if session.state.tx(tx_id).is_some_and(|tx| tx.mined.is_none()) {
                return self.ask(session, tx_id, why, now);
            }
        }
        let Some(head) = session.state.in_flight().head() else { return };
        let line = LineView {
            head: head.row.state,
            head_since: head.sending.patience().since,
            asked_at: head.decisions.asked_at,
            depth: depth_behind(session, head.nonce),
            oldest: session.state.oldest(now).unwrap_or(now),
        };
        let tx_id = head.tx_id;
        if let Some(why) = trigger(&session.context.options.stuck, &line, now) {
            self.ask(session, tx_id, why, now);
        }
    }

    fn ask(&mut self, session: &mut Session, tx_id: TxId, why: Trigger, now: Timestamp) {
        let Some(tx) = session.state.tx_mut(tx_id) else { return };
        tx.decisions.note_asked(now);
        let (nonce, last_answer, diagnosis) = (tx.nonce, tx.answers.last(), tx.diagnosis);
        let trace = tx.trace;
        let age = now.since(tx.waits_since);
        let depth = depth_behind(session, nonce);
        let kind = match why {
            Trigger::HeadStuck | Trigger::MarkedStuck => Some(AlertKind::Stuck),
            Trigger::BacklogOld | Trigger::BacklogDeep => Some(AlertKind::Backlog),
            Trigger::OperatorAsked => None,
        };
        if why == Trigger::HeadStuck {
            session.context.metrics.head_stuck_total.inc();
        }
        if let Some(kind) = kind {
            let detail = format!("{}, {depth} wait behind it", why.name());
            session.alert(kind, AlertSubject::slot(tx_id, nonce), &detail);
        }
        self.asked += 1;
        let number = self.asked;
        let question = PolicyQuestion { number, lease: session.lease, tx_id, trigger: why };
        self.open = Some(question);
        let (context, mailbox) = (session.context.clone(), session.mailbox.clone());
        let token = session.lease.token;
        let ask = async move {
            let asked = async {
                let (tx, attempts) = read(&context, tx_id).await?;
                let about = StuckContext {
                    question: number,
                    trigger: why,
                    tx: TxRecord { fencing_token: token, ..tx },
                    attempts,
                    last_answer,
                    diagnosis,
                    age,
                    depth,
                    trace,
                };
                Ok::<_, String>(decide(context.policies.stuck.clone(), about).await)
            };
            let decision = asked.await.unwrap_or_else(|error| failed(&error));
            let decided = PolicyAnswer { question, decision };
            mailbox.post([WorkerEvent::Decided(Box::new(decided))]);
        };
        tokio::spawn(ask.in_current_span());
    }

    /// Closes the open question; false if this is another one.
    fn close(&mut self, question: PolicyQuestion) -> bool {
        let is_open = self.open == Some(question);
        if is_open {
            self.open = None;
        }
        is_open
    }
}

impl Commands {
    /// Does what the policy says, if it is the answer to the open question.
    pub(in crate::worker) async fn note_decision(
        &mut self,
        session: &mut Session,
        PolicyAnswer { question, decision }: PolicyAnswer,
    ) -> Result<(), Stop> {
        let tx_id = question.tx_id;
        if !self.questions.close(question) {
            return Ok(());
        }
        let Some(tx) = session.state.tx(tx_id) else { return Ok(()) };
        let subject = AlertSubject::slot(tx_id, tx.nonce);
        if decision.failed {
            session.alert(AlertKind::Policy, subject, decision.reason.as_str());
        }
        let origin = ActionOrigin {
            by: "policy",
            action: decision.action.name(),
            reason: decision.reason.as_str(),
            trigger: Some(question.trigger.name()),
            fields: decision.fields.as_ref().map(|fields| fields.as_str()),
        };
        if decision.action == StuckAction::Noop {
            return note_noop(session, tx_id, origin).await;
        }
        let with = &decision.replacement;
        match carry_out_action(session, tx_id, decision.action, with, origin).await {
            Ok(acted) => {
                let (action, reason) = (origin.action, origin.reason);
                info!(%tx_id, action, reason, ?acted, "stuck policy decided");
                Ok(())
            }
            Err(ActionFailure::Stop(stop)) => Err(stop),
            Err(ActionFailure::Refused(why)) => {
                warn!(%tx_id, action = origin.action, error = %why, "decision of the stuck policy not possible");
                let detail = format!("{}: {why}", origin.action);
                session.alert(AlertKind::Policy, subject, &detail);
                let reason = format!("{}; not possible: {why}", origin.reason);
                note_noop(session, tx_id, ActionOrigin { reason: &reason, ..origin }).await
            }
        }
    }
}

/// Writes down a decision that changes nothing; the same one in a row only once.
async fn note_noop(
    session: &mut Session,
    tx_id: TxId,
    origin: ActionOrigin<'_>,
) -> Result<(), Stop> {
    let Some(tx) = session.state.tx(tx_id) else { return Ok(()) };
    let detail = origin.detail(session, tx, None);
    if tx.decisions.noted.as_deref() == Some(detail.as_str()) {
        return Ok(());
    }
    let noted = detail.as_str().to_owned();
    let mut update = TxUpdate::noted(tx_id, tx.row, "decided");
    update.detail = Some(detail);
    let _refused = session.apply_one(update).await?;
    if let Some(tx) = session.state.tx_mut(tx_id) {
        tx.decisions.note_recorded(noted);
    }
    Ok(())
}

/// The number of transactions that wait behind a slot, with a slot of their own or without.
fn depth_behind(session: &Session, nonce: Nonce) -> u64 {
    let state = &session.state;
    (state.in_flight().unmined_above(nonce) + state.queue().due(session.now()).count()) as u64
}

async fn read(context: &Context, tx_id: TxId) -> Result<(TxRecord, Vec<Attempt>), String> {
    let tx = context.store.tx(tx_id).await.map_err(|error| error.to_string())?;
    let tx = tx.ok_or("it is gone")?;
    let attempts = context.store.attempts(tx_id).await.map_err(|error| error.to_string())?;
    Ok((tx, attempts))
}

/// A policy that dies, or takes too long, has decided nothing.
async fn decide(policy: Arc<dyn StuckPolicy>, told: StuckContext) -> StuckDecision {
    let asked = tokio::spawn(async move { policy.decide(&told).await }.in_current_span());
    let abort = asked.abort_handle();
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(decision)) => decision,
        Ok(Err(died)) => failed(&died.to_string()),
        Err(_) => {
            abort.abort();
            failed("it did not answer in time")
        }
    }
}

fn failed(why: &str) -> StuckDecision {
    let decision = StuckDecision::new(StuckAction::Noop, &format!("the policy failed: {why}"));
    StuckDecision { failed: true, ..decision }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use tokio::sync::oneshot;
    use tokio::time::Instant;
    use tollgate_model::port::{Lease, NewTx, Payload};
    use tollgate_model::{Address, Bytes, ChainId, FencingToken, Submitter};

    /// Never answers; whoever waits is told when it is given up.
    struct Silent(std::sync::Mutex<Option<oneshot::Sender<()>>>);

    #[async_trait]
    impl StuckPolicy for Silent {
        async fn decide(&self, _context: &StuckContext) -> StuckDecision {
            let _given_up = self.0.lock().unwrap().take();
            std::future::pending().await
        }
    }

    fn told() -> StuckContext {
        let tx = NewTx {
            tx_id: TxId::from_uuid(uuid::Uuid::from_u128(7)),
            request_id: None,
            payload: Payload::new(Bytes::from_static(b"intent")).unwrap(),
            slot: None,
            held: false,
            valid_until: None,
            author: None,
            trace: None,
        };
        let submitter = Submitter::new(ChainId::MIN, Address::ZERO);
        let lease = Lease { submitter, token: FencingToken::MIN };
        StuckContext {
            question: 1,
            trigger: Trigger::HeadStuck,
            tx: TxRecord::accepted(&tx, lease, Timestamp::EPOCH),
            attempts: Vec::new(),
            last_answer: None,
            diagnosis: None,
            age: Duration::ZERO,
            depth: 0,
            trace: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn policy_that_never_answers_is_given_up_and_has_decided_nothing() {
        let (waits, given_up) = oneshot::channel();
        let asked_at = Instant::now();
        let policy = Arc::new(Silent(std::sync::Mutex::new(Some(waits))));
        let decision = decide(policy, told()).await;
        assert_eq!((decision.action, decision.failed), (StuckAction::Noop, true));
        assert!(asked_at.elapsed() >= PATIENCE && asked_at.elapsed() < 2 * PATIENCE);
        assert!(given_up.await.is_err(), "what it was doing is dropped");
    }
}
