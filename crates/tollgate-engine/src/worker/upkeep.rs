//! Checks that a worker makes by itself, at each tick: is it still wanted, does the chain agree, do nodes reject
//! it, does it offer more, is it sent again, who has to decide. Owns what each look remembers.
//!
//! Rules of the model return what to do as [`Effects`], which are carried out in one place: claimed under the
//! fence first (I11), then done.

mod effects;
mod expiry;
mod finality;
mod head;
mod holes;
mod lookup;
mod pool;
mod pricing;
mod reconcile;
mod rejected;
mod resubmit;
mod search;

use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::TxUpdate;
use tollgate_model::{Queued, Timestamp, TxEvent, TxState};

use super::Stop;
use super::commands::Commands;
use super::intake::Intake;
use super::session::Session;
use effects::Effects;
pub(super) use expiry::withdraw_expired;
use finality::FinalityWatch;
use head::HeadWatch;
use lookup::HashLookups;
pub(super) use lookup::{Lookup, want_lookup};
use pool::PoolWatch;
pub(super) use pool::load_pool;
pub(super) use reconcile::{FOREIGN_LOOK, with_reconcile_view};
pub(super) use search::SlotKnowledge;
use search::SlotSearches;

pub(super) struct Upkeep {
    head: HeadWatch,
    finality: FinalityWatch,
    pool: PoolWatch,
    searches: SlotSearches,
    lookups: HashLookups,
    /// Comparisons with the chain that failed in a row.
    reconcile_failures: u32,
}

impl Upkeep {
    pub(super) fn from(now: Timestamp) -> Self {
        Self {
            head: HeadWatch::from(now),
            finality: FinalityWatch::default(),
            pool: PoolWatch::default(),
            searches: SlotSearches::default(),
            lookups: HashLookups::from(now),
            reconcile_failures: 0,
        }
    }

    pub(super) async fn tick(
        &mut self,
        session: &mut Session,
        intake: &mut Intake,
        commands: &mut Commands,
    ) -> Result<(), Stop> {
        session.agenda.note_tick();
        align_holds(session).await?;
        expiry::expire(session)?.carry_out(session, commands).await?;
        self.reconcile_if_due(session, intake).await?;
        holes::fill_marked(session, intake).await?;
        rejected::settle(session, commands).await?;
        let is_known = session.state.in_flight().head().is_none_or(|head| !head.awaits_lookup());
        if is_known {
            self.head.diagnose(session).await?;
        }
        self.head.note(session);
        if is_known {
            pricing::bump_head(session).await?;
        }
        self.head.examine(session).await?;
        resubmit::resubmit(session, &self.head)?.carry_out(session, commands).await?;
        self.finality.check(session).carry_out(session, commands).await?;
        if is_known {
            commands.ask_about_head(session);
        }
        self.lookups.begin(session);
        store_waits(session).await
    }

    /// Notes which transaction is the head of the line.
    pub(super) fn note_head(&mut self, session: &mut Session) {
        self.head.note(session);
    }
}

/// Makes queued transactions HELD while the submitter takes no work, and WAITING while it does.
pub(super) async fn align_holds(session: &mut Session) -> Result<(), Stop> {
    let (wanted, event) = match session.state.status() {
        SubmitterStatus::Active => (Queued::Waiting, TxEvent::Unheld),
        SubmitterStatus::Paused | SubmitterStatus::Protect => (Queued::Held, TxEvent::Held),
    };
    let wanted = TxState::Queued(wanted);
    let off = session.state.queue().iter().filter(|queued| queued.row.state != wanted);
    let updates: Result<Vec<_>, _> =
        off.map(|queued| TxUpdate::moved(queued.tx_id, queued.row, event)).collect();
    session.apply_all(updates?).await.map(|_| ())
}

/// So that a new owner is as patient as this one.
async fn store_waits(session: &mut Session) -> Result<(), Stop> {
    let Some(waits) = session.state.waits_mut().unstored() else { return Ok(()) };
    let mut section = session.section();
    section.waits = Some(waits.clone());
    session.record(section).await?;
    session.state.waits_mut().note_stored(waits);
    Ok(())
}
