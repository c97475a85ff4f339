//! Mistakes that are made on purpose: each breaks a promise, and the checker must notice. Mistakes of the
//! engine are made at its ports: `chain` and `store` change its calls and their answers.

mod chain;
mod store;

use tollgate_model::event::NumberedEvent;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, StrictAdvance, SubmitterStatus};
use tollgate_model::port::chain::{CallEstimate, Occupant, OccupantSupport};
use tollgate_model::port::{Completion, FencedBatch, KnownRequest, OpenTx, Section, TxStore};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::sql::Overrides;
use tollgate_model::{ChainId, Intent, Nonce, RequestId, Submitter, TxHash, TxId};

use crate::chain::CHAIN_ID;
use crate::node::Node;
use crate::plan::{Lie, Plan, Steady, TOO_DEAR, TRANSFER_GAS};
use crate::world::World;
pub(crate) use chain::{PlantedChain, PlantedMemory};
pub(crate) use store::{answer_first, forget_older, send_first, unclaimed, unstrict, with_claims};

/// The page of open work under [`Bug::FirstPageOnly`].
const SHORT_PAGE: usize = 100;

/// Declares the mistakes and the list of all of them.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

bugs! {
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
    /// A new owner does not take up queued transactions.
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
    /// Resends are not claimed.
    UnclaimedResends,
    /// A strict submitter goes on whatever the chain counts.
    StrictUnchecked,
    /// Prices are those of one endpoint, whoever else is there.
    OneVoiceFees,
    /// Counts are those of one endpoint.
    OneVoiceCounts,
    /// The head is that of one endpoint.
    OneVoiceHeads,
    /// Blocks come from one endpoint.
    OneVoiceBlocks,
    /// Receipts come from one endpoint.
    OneVoiceReceipts,
    /// A receipt of one endpoint is final without a second one.
    ReceiptsUnsupported,
    /// Everything is sent to one endpoint.
    OneVoiceSends,
    /// Each call is made many times, and the quota goes with them.
    WastedCalls,
    /// An endpoint that failed once is never asked again.
    GivesUpOnErrors,
    /// A slot without a trace of ours is another's.
    AbsenceIsProof,
    /// A batch of sends without answers is sent again, and only the second answers count.
    FirstDoubted,
    /// Requests are looked up on another chain.
    ChainsMixed,
    /// A new owner takes up only the first hundred of what is open.
    FirstPageOnly,
    /// A node says that it has keys that it lacks.
    KeysPretended,
    /// A search for orphans returns the first few only.
    OrphansCutOff,
    /// A request that has ended is taken for a new one.
    RepeatsForgotten,
    /// A caller is told that its nonce is used, and nothing is written.
    UsedForgotten,
    /// An endpoint that lacks a block answers with its own newest count, and is believed.
    LateCountsBelieved,
    /// Calls have no time limit: an endpoint that says nothing is waited for.
    SilenceAwaited,
    /// One endpoint's count and its receipts are taken for one node's, and what it does not show for
    /// another's.
    BalancerTrusted,
    /// Estimates are those of one endpoint.
    OneVoiceEstimates,
    /// A create without gas is taken for a plain transfer.
    GasGuessed,
    /// An operator is told that a submitter takes work again, and nothing is written.
    ResumeForgotten,
    /// The `safe` and `finalized` blocks are those of one endpoint.
    OneVoiceTags,
    /// One endpoint is asked about everything.
    OneVoiceInAll,
    /// Private transactions are sent to public endpoints.
    RouteIgnored,
    /// A new owner takes scheduled intents for due.
    ScheduleForgotten,
    /// A node that passes a create on leaves out its chain: the receiver takes its own.
    ChainLeftOut,
    /// A request for a pool is assigned anew each time.
    AssignmentForgotten,
    /// An outsider's transaction that two endpoints show counts as the word of one.
    OccupantsIgnored,
    /// A reader of events misses what was numbered together with something else.
    EventSkips,
}

impl Bug {
    /// The mistake of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| format!("{bug:?}") == name)
    }

    /// Replacements of the store's queries.
    pub(crate) fn overrides(self) -> Overrides {
        match self {
            Self::SkippedGuard => &[("lease_guard", "select ?1, ?2, ?3, ?4")],
            _ => &[],
        }
    }

    /// Statements that plant it in the database.
    pub(crate) fn statements(self) -> Option<&'static str> {
        let rewind = "create trigger rewinding_takeover
            after update of fencing_token on submitter_lease when new.owner_node <> ''
            begin update submitter_cursor set next_nonce = max(next_nonce - 1, 0); end";
        (self == Self::RewindingTakeover).then_some(rewind)
    }

    /// A plan in which it can show at all.
    pub(crate) fn favour(self, plan: &mut Plan) {
        match self {
            Self::SlotFreedOnTimeout => plan.rejected_slot = RejectedSlot::Recycle,
            Self::EarlyFinality => plan.finality = FinalityRule::Confirmations(plan.confirmations),
            Self::StrictUnchecked => {
                (plan.mode, plan.strict_advance) = (Mode::Strict, StrictAdvance::Final);
            }
            Self::OlderHashesForgotten => plan.bumps = true,
            // Endpoints that answer leave nothing to misunderstand.
            Self::SilenceIsNo => (plan.real_client, plan.faults.lose_chain) = (false, 0.3),
            Self::OneVoiceFees => plan.tell(Lie::Fees(TOO_DEAR)),
            Self::OneVoiceCounts => plan.tell(Lie::PendingCounts(100_000)),
            Self::OneVoiceHeads => plan.tell(Lie::HeadAhead(500)),
            Self::OneVoiceBlocks => plan.tell(Lie::LacksBlocks(2)),
            Self::OneVoiceReceipts => plan.tell(Lie::LacksReceipts(2)),
            Self::ReceiptsUnsupported => plan.tell(Lie::FlipsReceipts(1)),
            Self::OneVoiceSends => plan.tell(Lie::Swallows),
            Self::WastedCalls => {
                plan.real_client = true;
                plan.steady = Steady { quota: Some(40), ..Steady::default() };
            }
            Self::GivesUpOnErrors => {
                plan.real_client = false;
                plan.steady = Steady { errors: 0.15, ..Steady::default() };
            }
            Self::AbsenceIsProof => {
                plan.real_client = false;
                plan.steady.receipts_kept = Some(1);
                plan.faults.blackout = 0.1;
            }
            Self::FirstDoubted => {
                plan.real_client = false;
                plan.rejected_slot = RejectedSlot::Recycle;
                plan.steady.lie = Some(Lie::TakesSmallOnesOnly);
                // Several are sent together only where one account has much to do.
                (plan.mode, plan.submitters, plan.intents, plan.window) =
                    (Mode::Pipelined, 1, 40, 8);
                plan.faults.lose_send = 0.4;
            }
            Self::ChainsMixed | Self::ChainLeftOut => plan.second_chain = true,
            Self::FirstPageOnly => {
                plan.pile_up();
                plan.faults.restart = 0.3;
            }
            Self::KeysPretended => plan.keys_missing = true,
            Self::OrphansCutOff => plan.orphans = 40,
            Self::UsedForgotten => {
                (plan.mode, plan.faults.reserve) = (Mode::Pipelined, 1.5);
            }
            Self::LateCountsBelieved => {
                // A settled block that the endpoint does not have yet.
                (plan.confirmations, plan.finality) = (2, FinalityRule::Confirmations(2));
                (plan.mode, plan.real_client) = (Mode::Strict, false);
                plan.steady = Steady { lie: Some(Lie::Lags(2)), ..Steady::default() };
            }
            Self::SilenceAwaited => plan.tell(Lie::IsSilent),
            Self::BalancerTrusted => plan.tell(Lie::Balancer(4)),
            Self::OneVoiceEstimates => plan.tell(Lie::Estimates(1 << 40)),
            Self::ResumeForgotten => plan.faults.operator = 0.8,
            Self::OneVoiceTags => {
                plan.tell(Lie::TagsAtHead);
                plan.finality = FinalityRule::Finalized;
            }
            Self::OneVoiceInAll => plan.tell(Lie::Together),
            Self::RouteIgnored => plan.private = true,
            Self::ScheduleForgotten => {
                (plan.faults.restart, plan.faults.clock_jump) = (0.3, 0.0);
            }
            Self::OccupantsIgnored => {
                plan.tell(Lie::Counts(-1_000));
                (plan.mode, plan.endpoints, plan.faults.foreign) = (Mode::Pipelined, 2, 0.3);
            }
            // The others show in any plan.
            _ => {}
        }
    }
}

/// A batch whose sections are changed if this mistake is planted.
fn edited(
    (world, bug): (&World, Bug),
    batch: FencedBatch,
    change: impl FnMut(&mut Section),
) -> FencedBatch {
    if !world.has(bug) {
        return batch;
    }
    let mut sections = batch.sections().to_vec();
    sections.iter_mut().for_each(change);
    FencedBatch::new(batch.node().clone(), sections).unwrap_or(batch)
}

/// [`Bug::OwnNames`]: a node adds its own name to the request ids of its callers.
pub(crate) fn renamed(world: &World, node: &str, batch: FencedBatch) -> FencedBatch {
    let own = |id: &RequestId| RequestId::new(format!("{}-{node}", id.shown())).ok();
    edited((world, Bug::OwnNames), batch, |section| {
        for create in &mut section.creates {
            create.request_id = create.request_id.as_ref().and_then(own);
        }
    })
}

/// [`Bug::WaitingLeftOut`]: work without a slot is left out. [`Bug::FirstPageOnly`]: the first page
/// is short, and there is no page after it. [`Bug::ScheduleForgotten`]: no intent has a `notBefore`.
pub(crate) fn left_out(world: &World, after: Option<TxId>, mut work: Vec<OpenTx>) -> Vec<OpenTx> {
    if world.has(Bug::WaitingLeftOut) {
        work.retain(|tx| tx.record.nonce.is_some());
    }
    if world.has(Bug::FirstPageOnly) {
        work.truncate(if after.is_none() { SHORT_PAGE } else { 0 });
    }
    if world.has(Bug::ScheduleForgotten) {
        for record in work.iter_mut().map(|tx| &mut tx.record) {
            let Ok(mut intent) = Intent::from_payload(&record.payload) else { continue };
            intent.not_before = None;
            record.payload = intent
                .to_payload()
                .map_or_else(|_| record.payload.clone(), |it| it.bytes().clone());
        }
    }
    work
}

/// [`Bug::EventSkips`]: one of several events of a page is not seen.
pub(crate) fn events_skipped(world: &World, mut page: Vec<NumberedEvent>) -> Vec<NumberedEvent> {
    if world.has(Bug::EventSkips) && page.len() > 1 {
        page.remove(0);
    }
    page
}

/// [`Bug::FeedSkips`]: one of several completions of a page is not seen.
pub(crate) fn skipped(world: &World, mut page: Vec<Completion>) -> Vec<Completion> {
    if world.has(Bug::FeedSkips) && page.len() > 1 {
        page.swap_remove(0);
    }
    page
}

/// [`Bug::RepeatsForgotten`]: a transaction that has ended is not found by its request id.
pub(crate) fn forgotten(
    world: &World,
    mut known: Vec<Option<KnownRequest>>,
) -> Vec<Option<KnownRequest>> {
    if world.has(Bug::RepeatsForgotten) {
        let has_ended = |known: &KnownRequest| world.has_ended(known.tx_id);
        known.iter_mut().for_each(|one| *one = one.take().filter(|one| !has_ended(one)));
    }
    known
}

/// [`Bug::RepeatsForgotten`]: its creates go under another name.
pub(crate) async fn under_new_names(world: &World, batch: FencedBatch) -> FencedBatch {
    if !world.has(Bug::RepeatsForgotten) {
        return batch;
    }
    let mut sections = batch.sections().to_vec();
    for section in &mut sections {
        let of = section.lease.submitter;
        for create in &mut section.creates {
            let Some(name) = create.request_id.clone() else { continue };
            let known = world.store.known_requests(&[(of, name.clone())]).await;
            let known = known.ok().and_then(|mut known| known.pop().flatten());
            if known.is_some_and(|known| world.has_ended(known.tx_id)) {
                create.request_id = RequestId::new(format!("{}-again", name.shown())).ok();
            }
        }
    }
    FencedBatch::new(batch.node().clone(), sections).unwrap_or(batch)
}

/// [`Bug::ChainsMixed`]: the same accounts on the other chain.
pub(crate) fn on_another_chain(
    world: &World,
    requests: &[(Submitter, RequestId)],
) -> Vec<(Submitter, RequestId)> {
    let other = |of: &Submitter| {
        let id = if of.chain_id.get() == CHAIN_ID { CHAIN_ID + 1 } else { CHAIN_ID };
        let chain_id = ChainId::new(id).unwrap_or(of.chain_id);
        Submitter::new(chain_id, of.address)
    };
    let mixes = world.has(Bug::ChainsMixed);
    let ask = |(of, id): &(Submitter, RequestId)| (if mixes { other(of) } else { *of }, id.clone());
    requests.iter().map(ask).collect()
}

/// The node and the account that a create reaches. [`Bug::ChainLeftOut`]: every other one reaches a node of
/// the other chain, which takes its account there for the one that is meant.
pub(crate) fn dispatched(world: &World, node: Node, submitter: Submitter) -> (Node, Submitter) {
    if !world.has(Bug::ChainLeftOut) || world.below(2) == 0 {
        return (node, submitter);
    }
    let receiver = world.other().and_then(|other| Some((other.any_node()?, other.chain_id())));
    match receiver {
        Some((receiver, chain_id)) => (receiver, Submitter::new(chain_id, submitter.address)),
        None => (node, submitter),
    }
}

/// [`Bug::ResumeForgotten`]: no resume is written.
pub(crate) fn unresumed(world: &World, batch: FencedBatch) -> FencedBatch {
    edited((world, Bug::ResumeForgotten), batch, |section| {
        section.status.take_if(|change| change.to == SubmitterStatus::Active);
    })
}

/// [`Bug::GasGuessed`]: the gas of a transfer for every call.
pub(crate) fn guessed_gas(world: &World) -> Option<CallEstimate> {
    world.has(Bug::GasGuessed).then_some(CallEstimate::Gas(TRANSFER_GAS))
}

/// [`Bug::BalancerTrusted`]: a transaction of nobody, in the first block, in each slot in which none
/// is shown.
pub(crate) fn made_up(world: &World, slots: &[Nonce], seen: &mut Vec<Occupant>) {
    let first = world.chain.first_block();
    let is_seen = |slot: &Nonce| seen.iter().any(|one| one.nonce == *slot);
    let unseen: Vec<_> = slots.iter().filter(|slot| !is_seen(slot)).copied().collect();
    seen.extend(unseen.into_iter().map(|nonce| Occupant {
        nonce,
        tx_hash: TxHash::ZERO,
        block_number: first.number,
        block_hash: first.hash,
        support: OccupantSupport::Single,
    }));
}
