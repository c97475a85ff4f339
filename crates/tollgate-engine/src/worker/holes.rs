//! Holes: shown and told as long as they are there, and filled where the policy allows it.

use tokio::sync::oneshot;
use tollgate_model::hole::{HoleDecision, HoleView, decide};
use tollgate_model::port::chain::{Call, Trial};
use tollgate_model::port::{AlertKind, Page, WaitKind};
use tollgate_model::reconcile::{Hole, ReconcileStep};
use tollgate_model::refusal::gas_to_self;
use tollgate_model::{Bytes, Intent, Nonce, Text, Timestamp, U256, Wei};
use tracing::{info, warn};

use super::alarm::About;
use super::pool::tended;
use super::{Create, Desk, Stop};
use crate::context::Context;

/// Holes that are filled by placeholders in one go (I13); the rest at the next comparison.
const FILLED_MAX: usize = 16;

impl Desk {
    /// Takes notice of all holes that a comparison showed.
    pub(super) async fn note_holes(&mut self, steps: &[ReconcileStep]) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let holes: Vec<Hole> = steps.iter().filter_map(hole).collect();
        // What is not seen any more was filled, or was none.
        let is_seen = |first: Nonce| holes.iter().any(|hole| hole.first == first);
        self.book.waits.retain(WaitKind::Hole, is_seen);
        for hole in &holes {
            let about = About { tx_id: None, nonce: Some(hole.first) };
            self.alarm.raise(AlertKind::Hole, about, &ReconcileStep::Hole(*hole).to_string(), now);
            self.note_hole(hole, now).await?;
        }
        Ok(())
    }

    async fn note_hole(&mut self, hole: &Hole, now: Timestamp) -> Result<(), Stop> {
        let since = self.book.waits.since(WaitKind::Hole, hole.first, now);
        let options = &self.context.options;
        let patience = options.stuck.head_after;
        let view = HoleView {
            hole: *hole,
            seen_for: now.since(since),
            patience,
            mode: self.book.mode,
            status: self.book.status,
            next_waits: self.book.queued.has_next(now),
            has_key: self.has_key(),
            window: options.nonces.window,
            came_back: self.book.pool.recyclable.contains(&hole.first),
        };
        match decide(options.rejected_slot, &view) {
            HoleDecision::Show => Ok(()),
            HoleDecision::Wait => {
                self.agenda.reconcile_soon(now.max(since.after(patience)));
                Ok(())
            }
            HoleDecision::Recycle => self.adopt(hole).await.map(|_| ()),
            HoleDecision::Placeholder => {
                let mut nonces = self.adopt(hole).await?;
                nonces.truncate(FILLED_MAX);
                self.fill_with_placeholders(&nonces).await
            }
        }
    }

    /// Puts the nonces of a hole into the pool; the store knows what is no hole at all (I3).
    async fn adopt(&mut self, hole: &Hole) -> Result<Vec<Nonce>, Stop> {
        let inside = (hole.first.get()..=hole.last.get()).map_while(|nonce| Nonce::new(nonce).ok());
        let nonces: Vec<Nonce> = inside.take(Page::MAX as usize).collect();
        let Context { store, node, .. } = self.context.as_ref();
        let adopted = store.adopt(node, self.lease, &nonces, &Text::lossy("hole")).await;
        let adopted = tended(adopted)?;
        if !adopted.is_empty() {
            info!(submitter = %self.submitter, ?adopted, "a hole is filled");
        }
        self.book.put_back(adopted.iter().copied());
        // What was adopted before and is still free is as much in the way.
        let free = nonces.into_iter().filter(|nonce| self.book.pool.recyclable.contains(nonce));
        Ok(free.collect())
    }

    /// Transfers to self, taken in like any other intents: the lowest free nonces are their slots.
    /// They have no request ids: a nonce that comes back once more gets another placeholder.
    pub(super) async fn fill_with_placeholders(&mut self, nonces: &[Nonce]) -> Result<(), Stop> {
        let Some(lowest) = nonces.first().copied() else { return Ok(()) };
        let from = self.submitter.address;
        let (to, value) = (Some(from), Wei(U256::ZERO));
        let call = Call { from, to, value, data: Bytes::new() };
        let gas = match self.context.chain.try_call(&call).await {
            Ok(tried @ Trial::Gas(_)) => gas_to_self(Some(&tried), &self.context.chain.limits()),
            Ok(Trial::Reverts(_) | Trial::Refused(_)) | Err(_) => return Ok(()),
        };
        let (mut creates, mut answers) = (Vec::new(), Vec::new());
        for nonce in nonces {
            let metadata = Some(serde_json::json!({ "placeholder": nonce.get() }).to_string());
            let intent = Intent { gas: Some(gas), metadata, ..Intent::call(to, U256::ZERO) };
            let Ok(payload) = intent.to_payload() else { return Ok(()) };
            let (reply, answer) = oneshot::channel();
            let tx_id = self.context.ids.tx_id();
            let (request_id, valid_until, signed) = (None, None, None);
            creates.push(Create { tx_id, request_id, payload, valid_until, signed, reply });
            answers.push(answer);
        }
        self.admit(creates).await?;
        for answer in answers {
            if let Ok(Err(why)) = answer.await {
                let about = About { tx_id: None, nonce: Some(lowest) };
                let detail = format!("no placeholder: {why}");
                self.alarm.raise(AlertKind::Hole, about, &detail, self.context.clock.now());
                warn!(submitter = %self.submitter, %lowest, %why, "no placeholder");
                break;
            }
        }
        Ok(())
    }
}

const fn hole(step: &ReconcileStep) -> Option<Hole> {
    match step {
        ReconcileStep::Hole(hole) => Some(*hole),
        ReconcileStep::Protect(_)
        | ReconcileStep::AwaitProof(_)
        | ReconcileStep::Unproven { .. }
        | ReconcileStep::MoveCursor(_)
        | ReconcileStep::FindReceipts { .. }
        | ReconcileStep::NoteReceipt { .. }
        | ReconcileStep::AwaitFinality { .. }
        | ReconcileStep::SlotTaken { .. } => None,
    }
}
