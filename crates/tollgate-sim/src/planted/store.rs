//! Mistakes of the engine in its writes and their order, made at its store.

use std::sync::Arc;

use tollgate_model::nonce::Mode;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::{
    Acquisition, CreateAnswer, FencedBatch, Section, SectionOutcome, TxStore, UpdateAnswer,
};
use tollgate_model::{Route, Timestamp};

use super::{Bug, edited};
use crate::world::World;

/// [`Bug::SendFirst`]: what a batch opens slots for is sent before the batch is written.
pub(crate) async fn send_first(world: &World, chain: &Arc<dyn Chain>, batch: &FencedBatch) {
    if !world.has(Bug::SendFirst) {
        return;
    }
    for slot in batch.sections().iter().flat_map(Section::slots) {
        chain.send(&slot.attempt.raw, Route::Public).await;
    }
}

/// [`Bug::OlderHashesForgotten`]: with a further attempt all others are forgotten.
pub(crate) async fn forget_older(world: &World, batch: &FencedBatch) {
    if !world.has(Bug::OlderHashesForgotten) {
        return;
    }
    let updates = batch.sections().iter().flat_map(|section| &section.updates);
    for update in updates.filter(|update| update.attempt.is_some()) {
        let attempts = world.store.attempts(update.tx_id).await.unwrap_or_default();
        world.planted.forget(attempts.into_iter().map(|attempt| attempt.tx_hash));
    }
}

/// [`Bug::AnswerFirst`]: what a batch of creates would be answered, before it is written.
pub(crate) fn answer_first(
    world: &World,
    batch: &FencedBatch,
    at: Timestamp,
) -> Option<Vec<SectionOutcome>> {
    let creates = batch.sections().iter().any(|section| !section.creates.is_empty());
    let done = |section| done(section, at);
    (world.has(Bug::AnswerFirst) && creates).then(|| batch.sections().iter().map(done).collect())
}

fn done(section: &Section, at: Timestamp) -> SectionOutcome {
    SectionOutcome::Committed {
        at,
        creates: vec![CreateAnswer::Created; section.creates.len()],
        updates: vec![UpdateAnswer::Applied; section.updates.len()],
    }
}

/// [`Bug::StrictUnchecked`]: a strict submitter is taken for a pipelined one.
pub(crate) fn unstrict(world: &World, mut granted: Acquisition) -> Acquisition {
    if let Acquisition::Granted { submitter, .. } = &mut granted
        && world.has(Bug::StrictUnchecked)
    {
        submitter.mode = Mode::Pipelined;
    }
    granted
}

/// [`Bug::UnclaimedResends`]: resends are not written.
pub(crate) fn unclaimed(world: &World, batch: FencedBatch) -> FencedBatch {
    edited((world, Bug::UnclaimedResends), batch, |section| {
        section.updates.retain(|update| !update.resubmitted);
    })
}

/// [`Bug::UnclaimedResends`]: the outcomes of all updates, with those that were not written.
pub(crate) fn with_claims(
    world: &World,
    asked: &FencedBatch,
    outcomes: Vec<SectionOutcome>,
) -> Vec<SectionOutcome> {
    if !world.has(Bug::UnclaimedResends) {
        return outcomes;
    }
    let full = |(outcome, section): (SectionOutcome, &Section)| match outcome {
        SectionOutcome::Committed { at, creates, updates } => {
            let mut written = updates.into_iter();
            let answer = |resubmitted: bool| match resubmitted {
                true => Some(UpdateAnswer::Applied),
                false => written.next(),
            };
            let resubmitted = section.updates.iter().map(|update| update.resubmitted);
            let updates = resubmitted.filter_map(answer).collect();
            SectionOutcome::Committed { at, creates, updates }
        }
        outcome => outcome,
    };
    outcomes.into_iter().zip(asked.sections()).map(full).collect()
}
