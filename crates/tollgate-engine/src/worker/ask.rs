//! Puts the question to the stuck policy when somebody has to decide, and has done what it says.
//!
//! One question at a time, beside the worker's own work, so that a slow policy delays nothing. An
//! answer to anything but the question that is open now is nobody's answer: nothing is done twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use tollgate_model::port::{AlertKind, Attempt, Section, TxRecord, TxUpdate};
use tollgate_model::stuck::{LineView, Trigger, trigger};
use tollgate_model::{Timestamp, TxId};
use tracing::{info, warn};

use super::act::{Ground, Halt};
use super::alarm::About;
use super::{Desk, Stop};
use crate::context::Context;
use crate::notes::{Decided, Note, Question};

/// The longest that a policy may take; then nothing is done (I13).
const PATIENCE: Duration = Duration::from_secs(120);
/// Questions that may wait (I13): more are asked when they come up again.
const WAITING_MAX: usize = 256;

/// What is being asked, and what is to be asked next.
pub(super) struct Asking {
    open: Option<Question>,
    next: VecDeque<(TxId, Trigger)>,
    /// The number of the last question. Counted from the time at which the desk began: a worker that
    /// starts again under the same token gives no number twice.
    asked: u64,
}

impl Asking {
    pub(super) fn from(now: Timestamp) -> Self {
        let asked = u64::try_from(now.unix_micros()).unwrap_or_default();
        Self { open: None, next: VecDeque::new(), asked }
    }

    /// Whether a policy is being asked.
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

impl Desk {
    /// Asks the policy if the line, a mark or an operator calls for it.
    pub(super) fn ask_about_head(&mut self) {
        if self.asking.open.is_some() {
            return;
        }
        let now = self.context.clock.now();
        while let Some((tx_id, why)) = self.asking.next.pop_front() {
            if self.book.get(tx_id).is_some_and(|open| open.mined.is_none()) {
                return self.ask(tx_id, why, now);
            }
        }
        let Some(head) = self.book.head() else { return };
        let line = LineView {
            head: head.seen.state,
            head_since: head.waits.since,
            asked_at: head.asked.at,
            depth: self.book.depth_behind(head.nonce),
            oldest: self.book.oldest().unwrap_or(now),
        };
        let tx_id = head.tx_id;
        if let Some(why) = trigger(&self.context.options.stuck, &line, now) {
            self.ask(tx_id, why, now);
        }
    }

    fn ask(&mut self, tx_id: TxId, why: Trigger, now: Timestamp) {
        let Some(open) = self.book.get_mut(tx_id) else { return };
        open.asked.at = Some(now);
        let (nonce, last_answer, diagnosis) = (open.nonce, open.heard.last, open.diagnosis);
        let age = now.since(open.accepted_at);
        let depth = self.book.depth_behind(nonce);
        let about = About { tx_id: Some(tx_id), nonce: Some(nonce) };
        let kind = match why {
            Trigger::HeadStuck | Trigger::MarkedStuck => Some(AlertKind::Stuck),
            Trigger::BacklogOld | Trigger::BacklogDeep => Some(AlertKind::Backlog),
            Trigger::OperatorAsked => None,
        };
        if let Some(kind) = kind {
            let detail = format!("{}, {depth} wait behind it", why.name());
            self.alarm.raise(kind, about, &detail, now);
        }
        self.asking.asked += 1;
        let number = self.asking.asked;
        let question = Question { number, lease: self.lease, tx_id, trigger: why };
        self.asking.open = Some(question);
        let (context, notes, token) = (self.context.clone(), self.notes.clone(), self.lease.token);
        tokio::spawn(async move {
            let told = async {
                let (tx, attempts) = read(&context, tx_id).await?;
                let told = StuckContext {
                    question: number,
                    trigger: why,
                    tx: TxRecord { fencing_token: token, ..tx },
                    attempts,
                    last_answer,
                    diagnosis,
                    age,
                    depth,
                };
                Ok::<_, String>(decide(context.policies.stuck.clone(), told).await)
            };
            let decision = told.await.unwrap_or_else(|error| failed(&error));
            notes.leave([Note::Decided(Box::new(Decided { question, decision }))]);
        });
    }

    /// Does what the policy says, if it is the answer to the open question.
    pub(super) async fn note_decision(&mut self, decided: Decided) -> Result<(), Stop> {
        let Decided { question, decision } = decided;
        if self.asking.open != Some(question) {
            return Ok(());
        }
        self.asking.open = None;
        let (tx_id, now) = (question.tx_id, self.context.clock.now());
        let Some(open) = self.book.get(tx_id) else { return Ok(()) };
        let about = About { tx_id: Some(tx_id), nonce: Some(open.nonce) };
        if decision.failed {
            self.alarm.raise(AlertKind::Policy, about, decision.reason.as_str(), now);
        }
        let ground = Ground {
            by: "policy",
            action: decision.action.name(),
            reason: decision.reason.as_str(),
            trigger: Some(question.trigger.name()),
            fields: decision.fields.as_ref().map(|fields| fields.as_str()),
        };
        if decision.action == StuckAction::Noop {
            return self.note_noop(tx_id, ground).await;
        }
        let with = &decision.replacement;
        match self.carry_out_action(tx_id, decision.action, with, ground).await {
            Ok(acted) => {
                info!(%tx_id, action = ground.action, reason = ground.reason, ?acted, "decided");
                Ok(())
            }
            Err(Halt::Stop(stop)) => Err(stop),
            Err(Halt::Refused(why)) => {
                warn!(%tx_id, action = ground.action, %why, "what was decided can't be done");
                let detail = format!("{}: {why}", ground.action);
                self.alarm.raise(AlertKind::Policy, about, &detail, now);
                let reason = format!("{}; not possible: {why}", ground.reason);
                self.note_noop(tx_id, Ground { reason: &reason, ..ground }).await
            }
        }
    }

    /// Writes down a decision that changes nothing; the same one in a row only once.
    async fn note_noop(&mut self, tx_id: TxId, ground: Ground<'_>) -> Result<(), Stop> {
        let Some(open) = self.book.get(tx_id) else { return Ok(()) };
        let detail = ground.detail(open, &self.submitter.to_string(), None);
        if open.asked.noted.as_deref() == Some(detail.as_str()) {
            return Ok(());
        }
        let noted = detail.as_str().to_owned();
        let mut update = TxUpdate::noted(tx_id, open.seen, "decided");
        update.detail = Some(detail);
        let mut section = Section::new(self.lease);
        section.updates.push(update);
        self.record(section).await?;
        if let Some(open) = self.book.get_mut(tx_id) {
            open.asked.noted = Some(noted);
        }
        Ok(())
    }
}

async fn read(context: &Context, tx_id: TxId) -> Result<(TxRecord, Vec<Attempt>), String> {
    let tx = context.store.tx(tx_id).await.map_err(|error| error.to_string())?;
    let tx = tx.ok_or("it is gone")?;
    let attempts = context.store.attempts(tx_id).await.map_err(|error| error.to_string())?;
    Ok((tx, attempts))
}

/// A policy that dies, or takes too long, has decided nothing.
async fn decide(policy: Arc<dyn StuckPolicy>, told: StuckContext) -> StuckDecision {
    let asked = tokio::spawn(async move { policy.decide(&told).await });
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
            outbox: None,
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
