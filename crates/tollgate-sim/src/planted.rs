//! Mistakes that are made on purpose: each breaks a promise, and the checker must notice.

use tollgate_engine::PlantedBug as EngineBug;
use tollgate_model::RequestId;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, StrictAdvance};
use tollgate_model::port::{Completion, FencedBatch, OpenTx};
use tollgate_model::rejected::RejectedSlot;
use tollgate_sqlite::PlantedBug as StoreBug;

use crate::plan::Plan;
use crate::world::World;

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The store writes without looking at the lease.
    SkippedGuard,
    /// A takeover sets the cursor back.
    RewindingTakeover,
    /// A transaction whose send timed out gives its slot away.
    SlotFreedOnTimeout,
    /// Bytes are sent before they are durable.
    SendFirst,
    /// Only the newest attempt of a transaction is remembered.
    OlderHashesForgotten,
    /// A caller is answered before the commit.
    AnswerFirst,
    /// A new owner does not take up what waits.
    WaitingLeftOut,
    /// Each node has its own names for requests.
    OwnNames,
    /// One confirmation is missing.
    EarlyFinality,
    /// An endpoint that does not answer, or lags, says that there is no receipt.
    SilenceIsNo,
    /// Blocks that left the chain still count.
    ForksIgnored,
    /// A reader of the feed misses what was written together with something else.
    FeedSkips,
    /// What is sent again is not claimed.
    UnclaimedResends,
    /// A strict submitter goes on whatever the chain counts.
    StrictUnchecked,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::SkippedGuard,
        Self::RewindingTakeover,
        Self::SlotFreedOnTimeout,
        Self::SendFirst,
        Self::OlderHashesForgotten,
        Self::AnswerFirst,
        Self::WaitingLeftOut,
        Self::OwnNames,
        Self::EarlyFinality,
        Self::SilenceIsNo,
        Self::ForksIgnored,
        Self::FeedSkips,
        Self::UnclaimedResends,
        Self::StrictUnchecked,
    ];

    /// The mistake of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }

    pub(crate) fn of_the_engine(self) -> Option<EngineBug> {
        match self {
            Self::SlotFreedOnTimeout => Some(EngineBug::SlotFreedOnTimeout),
            Self::SendFirst => Some(EngineBug::SendFirst),
            Self::OlderHashesForgotten => Some(EngineBug::OlderHashesForgotten),
            Self::AnswerFirst => Some(EngineBug::AnswerFirst),
            Self::ForksIgnored => Some(EngineBug::ForksIgnored),
            Self::UnclaimedResends => Some(EngineBug::UnclaimedResends),
            Self::StrictUnchecked => Some(EngineBug::StrictUnchecked),
            Self::SkippedGuard
            | Self::RewindingTakeover
            | Self::WaitingLeftOut
            | Self::OwnNames
            | Self::EarlyFinality
            | Self::SilenceIsNo
            | Self::FeedSkips => None,
        }
    }

    pub(crate) fn of_the_store(self) -> Option<StoreBug> {
        match self {
            Self::SkippedGuard => Some(StoreBug::SkippedGuard),
            Self::RewindingTakeover => Some(StoreBug::RewindingTakeover),
            Self::SlotFreedOnTimeout
            | Self::SendFirst
            | Self::OlderHashesForgotten
            | Self::AnswerFirst
            | Self::WaitingLeftOut
            | Self::OwnNames
            | Self::EarlyFinality
            | Self::SilenceIsNo
            | Self::ForksIgnored
            | Self::FeedSkips
            | Self::UnclaimedResends
            | Self::StrictUnchecked => None,
        }
    }

    /// A plan in which it can show at all. The weather is left as it was drawn.
    pub(crate) fn favour(self, plan: &mut Plan) {
        match self {
            Self::SlotFreedOnTimeout => plan.rejected_slot = RejectedSlot::Recycle,
            Self::EarlyFinality => plan.finality = FinalityRule::Confirmations(plan.confirmations),
            Self::StrictUnchecked => {
                (plan.mode, plan.strict_advance) = (Mode::Strict, StrictAdvance::Final);
            }
            Self::OlderHashesForgotten => plan.bumps = true,
            Self::SkippedGuard
            | Self::RewindingTakeover
            | Self::SendFirst
            | Self::AnswerFirst
            | Self::WaitingLeftOut
            | Self::OwnNames
            | Self::SilenceIsNo
            | Self::ForksIgnored
            | Self::FeedSkips
            | Self::UnclaimedResends => {}
        }
    }
}

/// [`Bug::OwnNames`]: a node adds its own name to those of its callers.
pub(crate) fn renamed(world: &World, node: &str, batch: FencedBatch) -> FencedBatch {
    if !world.has(Bug::OwnNames) {
        return batch;
    }
    let mut sections = batch.sections().to_vec();
    for create in sections.iter_mut().flat_map(|section| &mut section.creates) {
        let own = |id: &RequestId| RequestId::new(format!("{}-{node}", id.as_str())).ok();
        create.request_id = create.request_id.as_ref().and_then(own);
    }
    FencedBatch::new(batch.node().clone(), sections).unwrap_or(batch)
}

/// [`Bug::WaitingLeftOut`]: what has no slot yet is not there.
pub(crate) fn left_out(world: &World, mut work: Vec<OpenTx>) -> Vec<OpenTx> {
    if world.has(Bug::WaitingLeftOut) {
        work.retain(|tx| tx.record.nonce.is_some());
    }
    work
}

/// [`Bug::FeedSkips`]: the last of several that come at once is not seen.
pub(crate) fn skipped(world: &World, mut page: Vec<Completion>) -> Vec<Completion> {
    if world.has(Bug::FeedSkips) && page.len() > 1 {
        page.swap_remove(0);
    }
    page
}
