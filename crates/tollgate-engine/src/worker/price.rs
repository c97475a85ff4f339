//! Whether the head of the line offers more, and what the pools say of it.

use tollgate_model::bump::{BumpDecision, BumpView, to_beat};
use tollgate_model::diagnose::{DiagnosisView, diagnose};
use tollgate_model::port::{AlertKind, AttemptKind, Section, TxUpdate};
use tollgate_model::resubmit::is_resent;
use tollgate_model::{Text, TxId};
use tracing::{info, warn};

use super::act::{Ground, Halt, claim};
use super::alarm::About;
use super::open::Open;
use super::{Desk, Stop};

impl Desk {
    /// Asks the bump policy about the head.
    pub(super) async fn bump_head(&mut self) -> Result<(), Stop> {
        let head = self.book.head().filter(|open| is_resent(open.seen.state));
        let Some(open) = head.filter(|_| self.context.policies.bump.is_on()) else {
            return Ok(());
        };
        let open = open.clone();
        let Some((view, kind)) = self.bump_view(&open).await else { return Ok(()) };
        let now = self.context.clock.now();
        match self.context.policies.bump.decide(&view, now) {
            BumpDecision::Bump { to } => match self.sign_bump(&open, kind, to).await {
                Ok(attempt) => {
                    let update = claim(&open, None, "bumped")?;
                    let (by, action) = ("gasbump", "bump");
                    let reason = format!("{} wei", attempt.fees.max_fee.wei());
                    let ground =
                        Ground { by, action, reason: &reason, trigger: None, fields: None };
                    match self.send_further(&open, update, attempt, ground).await {
                        Ok(hash) => info!(tx_id = %open.tx_id, %hash, "offers more"),
                        Err(Halt::Stop(stop)) => return Err(stop),
                        Err(Halt::Refused(why)) => {
                            warn!(tx_id = %open.tx_id, %why, "can't offer more");
                        }
                    }
                }
                Err(why) => warn!(tx_id = %open.tx_id, %why, "can't offer more"),
            },
            BumpDecision::HoldAtCap { why } => {
                let about = About { tx_id: Some(open.tx_id), nonce: Some(open.nonce) };
                let detail = format!("the market is above {}", why.name());
                self.alarm.raise(AlertKind::FeeCap, about, &detail, now);
            }
            BumpDecision::NotPrice
            | BumpDecision::Wait { .. }
            | BumpDecision::Exhausted
            | BumpDecision::Off => {}
        }
        Ok(())
    }

    /// What the policy is asked about, and the kind that a bump would be. `None` if the chain can't
    /// be asked.
    async fn bump_view(&self, open: &Open) -> Option<(BumpView, AttemptKind)> {
        let intent = open.intent().ok()?;
        let closing = open.closing();
        let newest = open.newest()?;
        let may_sign = self.has_key() && (closing.is_some() || intent.signed.is_none());
        let view = BumpView {
            may_sign,
            is_head: true,
            last: to_beat(open.offers()).or_else(|| open.dearest())?,
            last_at: newest.at,
            bumps: u16::try_from(open.attempts.len().saturating_sub(1)).unwrap_or(u16::MAX),
            quote: self.context.chain.fee_quote(intent.speed).await.ok()?,
            ceiling: self.ceiling(&intent, closing.is_some()),
            last_answer: open.heard.last,
            diagnosis: open.diagnosis,
        };
        Some((view, closing.unwrap_or(AttemptKind::Bump)))
    }

    /// Looks for the head in the pools, where that is wanted, and writes down what is new.
    pub(super) async fn diagnose_head(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        let Some(interval) = self.context.options.diagnose else { return Ok(()) };
        let Some(open) = self.book.head().filter(|_| now >= self.agenda.diagnose_at) else {
            return Ok(());
        };
        let (tx_id, hashes) = (open.tx_id, open.hashes());
        self.agenda.diagnose_at = now.after(interval);
        let chain = &self.context.chain;
        let address = self.submitter.address;
        let endpoints = chain.pools(address, &hashes).await;
        let counts = chain.counts(address).await.ok();
        let nonce = open.nonce;
        let view = DiagnosisView { nonce, attempts: &hashes, endpoints: &endpoints, counts };
        self.note_diagnosis(tx_id, diagnose(&view)).await
    }

    async fn note_diagnosis(
        &mut self,
        tx_id: TxId,
        diagnosis: tollgate_model::diagnose::Diagnosis,
    ) -> Result<(), Stop> {
        let Some(open) = self.book.get(tx_id) else { return Ok(()) };
        if open.diagnosis == Some(diagnosis) {
            return Ok(());
        }
        let mut update = TxUpdate::noted(tx_id, open.seen, "diagnosed");
        update.diagnosis = Some(Text::lossy(&diagnosis.to_string()));
        let mut section = Section::new(self.lease);
        section.updates.push(update);
        self.record(section).await?;
        if let Some(open) = self.book.get_mut(tx_id) {
            open.diagnosis = Some(diagnosis);
        }
        Ok(())
    }
}
