//! Takes up everything that an earlier owner left open.
//!
//! Every stored attempt is maybe sent (I5): it is looked for on the chain by all its hashes, and sent again
//! with the same bytes. What was UNSENT goes to the grey zone, because the owner that could have said so is
//! gone.

use tollgate_model::port::Page;
use tollgate_model::{Allocated, TxEvent, TxState};
use tracing::info;

use super::Stop;
use super::session::{Session, moved};

/// Loads the submitter's open work.
pub(super) async fn load(session: &mut Session) -> Result<(), Stop> {
    let (page, now) = (Page::new(Page::MAX)?, session.now());
    let (mut after, mut found) = (None, 0);
    loop {
        let work = session.context.store.open_work(session.submitter, after, page).await?;
        let Some(last) = work.last() else { break };
        after = Some(last.record.tx_id);
        found += work.len();
        for tx in work {
            session.state.load(tx, &session.context.options.resubmit, now);
        }
    }
    let waits = session.context.store.waits(session.submitter).await?;
    session.state.waits_mut().load(waits);
    session.journal.set_aside_refused(&mut session.state, now);
    for hash in session.state.in_flight().all_hashes() {
        session.context.attempts.insert(hash, session.submitter);
    }
    info!(submitter = %session.submitter, found, "open work loaded");
    doubt_unsent(session).await
}

async fn doubt_unsent(session: &mut Session) -> Result<(), Stop> {
    let unsent = TxState::Allocated(Allocated::Unsent);
    let unsent = session.state.in_flight().iter().filter(|tx| tx.row.state == unsent);
    let updates = unsent.map(|tx| moved(tx, TxEvent::AnswerUnclear)).collect::<Result<_, _>>()?;
    session.apply_all(updates).await.map(|_| ())
}
