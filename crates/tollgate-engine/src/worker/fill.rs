//! Fills nonces that an operator has handed back, and moves the cursor where a person vouches for it.
//!
//! A cursor never goes back (I4): what lies between the chain's count and a cursor that is too far
//! ahead is filled from below, through the pool (I3), a window at a time.

use tollgate_model::fill::{FillView, NoncesRefused, advance, fillable};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{CursorMove, HandBack, Section, StoreError};
use tollgate_model::{Nonce, Text};
use tracing::info;

use super::act::Halt;
use super::{Desk, Stop};
use crate::act::{ActError, Fill, Filled};
use crate::context::Context;

/// Placeholders that are made in one go (I13); the rest at the next tick.
const PLACEHOLDERS_AT_ONCE: usize = 64;

impl Desk {
    /// Hands nonces back by an operator's word: fenced, audited, bounded.
    pub(super) async fn fill_range(
        &mut self,
        fill: Fill,
        reason: &Text<500>,
    ) -> Result<Filled, Halt> {
        let Fill { range, with, used } = fill;
        let counts = self.chain_counts().await?;
        let view = FillView {
            mode: self.book.mode,
            cursor: self.book.cursor,
            counts,
            has_key: self.has_key(),
            free: self.book.pool.recyclable.len(),
        };
        let nonces = fillable(&view, range, with).map_err(|why| match why {
            // Those that are free get filled: the same call succeeds later.
            NoncesRefused::TooManyFree { .. } => ActError::Busy,
            why => ActError::Nonces(why),
        })?;
        let all = range.last.get() - range.first.get() + 1;
        let (wanted, reason) = (nonces.len() as u64, with.stored_reason(reason.as_str()));
        let wanted_back = HandBack { nonces, used, reason };
        let Context { store, node, .. } = self.context.as_ref();
        let free = match store.hand_back(node, self.lease, &wanted_back).await {
            Ok(free) => free,
            Err(StoreError::Fenced(_)) => return Err(Stop::Fenced.into()),
            Err(error @ StoreError::Unavailable(_)) => {
                return Err(ActError::Unavailable(error.to_string()).into());
            }
            Err(error) => return Err(Stop::Restart(error.to_string()).into()),
        };
        let (submitter, handed_back) = (self.submitter, free.len() as u64);
        let (first, last, reason) = (range.first, range.last, &wanted_back.reason);
        info!(%submitter, %first, %last, handed_back, %reason, "nonces handed back by an operator");
        for nonce in &free {
            self.book.pool.set_filled_with(*nonce, with);
        }
        self.book.put_back(free);
        let free = self.book.pool.recyclable.len() as u64;
        let (taken, counted) = (wanted - handed_back, all - wanted);
        Ok(Filled { handed_back, taken, counted, free })
    }

    /// Makes placeholders for nonces that an operator wants filled so, while no transaction waits that
    /// would fill them.
    pub(super) async fn fill_marked(&mut self) -> Result<(), Stop> {
        let may_fill = self.book.status == SubmitterStatus::Active && self.has_key();
        if !self.book.pool.has_marked()
            || !may_fill
            || self.book.queued.has_next(self.context.clock.now())
        {
            return Ok(());
        }
        let slots = self.next_slots(PLACEHOLDERS_AT_ONCE).await?;
        let marked: Vec<Nonce> = slots
            .iter()
            .take_while(|slot| slot.recycled && self.book.pool.is_marked(slot.nonce))
            .map(|slot| slot.nonce)
            .collect();
        self.fill_with_placeholders(&marked).await
    }

    /// Moves the cursor to a count that an operator vouches for. What no second endpoint confirms is
    /// read as it is told: that is what the operator decides about.
    pub(super) async fn advance_cursor(
        &mut self,
        to: Nonce,
        reason: &Text<500>,
    ) -> Result<CursorMove, Halt> {
        let counts = self.context.chain.counts(self.submitter.address).await;
        let counts = counts.map_err(|error| ActError::Unavailable(error.to_string()))?;
        let step =
            advance(self.book.mode, self.book.cursor, &counts, to).map_err(ActError::from)?;
        info!(submitter = %self.submitter, %to, %reason, "cursor moved by an operator");
        let mut section = Section::new(self.lease);
        section.cursor = Some(step);
        section.cursor_reason = Some(reason.clone());
        self.record(section).await?;
        self.book.drift = true;
        Ok(step)
    }
}
