//! Submitters, with owner and load.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_engine::{Engine, Filled, Reconciled};
use tollgate_model::Nonce;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{LineHead, SubmitterOverview};
use utoipa::ToSchema;

use super::address;
use super::tx::BlockedBy;
use crate::http::schema;

/// An account on a chain.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Submitter {
    /// The chain.
    chain_id: u64,
    /// The account, with its checksum.
    #[schema(value_type = schema::Address)]
    address: String,
    /// How its nonces are given out.
    #[schema(value_type = schema::Mode)]
    mode: &'static str,
    /// Whether it takes new work.
    #[schema(value_type = schema::SubmitterStatus)]
    status: &'static str,
    /// The reason given with the last change of its status.
    #[schema(required)]
    status_reason: Option<String>,
    /// The node that works for it; null if none does.
    #[schema(required)]
    owner: Option<String>,
    /// Where that node is; null if none works for it, or the node is not on the list.
    #[schema(required)]
    owner_url: Option<String>,
    /// The token that the owner writes under.
    #[schema(required)]
    fencing_token: Option<u64>,
    /// The next nonce that will be given out.
    next_nonce: u64,
    /// How many of its transactions the chain has mined, as far as two endpoints confirm it where
    /// several are configured; null in lists, and if the chain can't be asked or nothing is confirmed
    /// yet.
    #[schema(required)]
    chain_nonce: Option<u64>,
    /// How many slots may be open at once.
    window: u32,
    /// How many open transactions there are in each state.
    #[schema(value_type = schema::Depth)]
    depth: BTreeMap<&'static str, u64>,
    /// The age of the oldest open transaction.
    #[schema(required)]
    oldest_pending_seconds: Option<u64>,
    /// Nonces from the chain's count on, below an open transaction, that neither an open transaction
    /// nor a caller has: the lowest 100. The same rule as that of `reconcile`. Null in lists, and if
    /// they can't be told.
    #[schema(required)]
    holes: Option<Vec<u64>>,
    /// How many such nonces there are in all; null where `holes` is.
    #[schema(required)]
    hole_count: Option<u64>,
    /// The lowest open slot, if it stands still: everything else of the account waits for it. Null in
    /// lists.
    #[schema(required)]
    blocked_by: Option<BlockedBy>,
    /// What the account has, in wei; null in lists, and if the chain can't be asked.
    #[schema(value_type = Option<schema::Amount>, required)]
    balance: Option<String>,
}

/// A page of submitters, in the order of their addresses.
#[derive(Serialize, ToSchema)]
pub(crate) struct SubmitterPage {
    /// The submitters.
    pub(crate) items: Vec<Submitter>,
    /// The `cursor` of the next page; null after the last one.
    #[schema(required)]
    pub(crate) next: Option<String>,
}

/// A submitter that was paused or resumed.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoodSubmitter {
    #[serde(flatten)]
    submitter: Submitter,
    /// What its status was before.
    #[schema(value_type = schema::SubmitterStatus)]
    was: &'static str,
}

impl StoodSubmitter {
    pub(crate) fn new(submitter: Submitter, was: SubmitterStatus) -> Self {
        Self { submitter, was: was.name() }
    }
}

/// A submitter whose mode was changed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemodedSubmitter {
    #[serde(flatten)]
    submitter: Submitter,
    /// What its mode was before.
    #[schema(value_type = schema::Mode)]
    was_mode: &'static str,
}

impl RemodedSubmitter {
    pub(crate) fn new(submitter: Submitter, was: Mode) -> Self {
        Self { submitter, was_mode: was.name() }
    }
}

/// A submitter that was compared with the chain; `chainNonce` is what the comparison saw.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReconciledSubmitter {
    #[serde(flatten)]
    submitter: Submitter,
    /// How many of its transactions the chain has mined or holds in its pools.
    pending_nonce: u64,
    /// What followed from it, in words; empty if everything agrees.
    steps: Vec<String>,
}

impl ReconciledSubmitter {
    pub(crate) fn new(submitter: Submitter, found: Reconciled) -> Self {
        let chain_nonce = found.counts.confirmed_mined().map(Nonce::get);
        Self {
            submitter: Submitter { chain_nonce, ..submitter },
            pending_nonce: found.counts.pending.get(),
            steps: found.steps,
        }
    }
}

/// A submitter with nonces that were handed back.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilledSubmitter {
    #[serde(flatten)]
    submitter: Submitter,
    /// How many nonces of the range are free now, to be filled.
    handed_back: u64,
    /// How many of the range a transaction or a caller has.
    taken: u64,
    /// How many of the range the chain or a pool counts already.
    counted: u64,
    /// How many nonces of the submitter are free in all. It falls as they are filled.
    free: u64,
}

impl FilledSubmitter {
    pub(crate) fn new(submitter: Submitter, filled: Filled) -> Self {
        let Filled { handed_back, taken, counted, free } = filled;
        Self { submitter, handed_back, taken, counted, free }
    }
}

/// A submitter whose cursor was moved forward by a person.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdvancedSubmitter {
    #[serde(flatten)]
    submitter: Submitter,
    /// What its next nonce was before.
    was_next_nonce: u64,
}

impl AdvancedSubmitter {
    pub(crate) fn new(submitter: Submitter, was: Nonce) -> Self {
        Self { submitter, was_next_nonce: was.get() }
    }
}

/// What only the chain can tell of an account.
#[derive(Default)]
pub(crate) struct ChainSide {
    pub(crate) nonce: Option<u64>,
    pub(crate) balance: Option<String>,
    pub(crate) holes: Option<Holes>,
}

/// Nonces that the chain waits for and nobody has.
pub(crate) struct Holes {
    /// The lowest of them.
    pub(crate) shown: Vec<u64>,
    /// How many there are in all.
    pub(crate) count: u64,
}

impl Submitter {
    /// With what everything of it waits for.
    pub(crate) fn behind(self, head: Option<&LineHead>) -> Self {
        Self { blocked_by: head.and_then(BlockedBy::head), ..self }
    }
}

impl Submitter {
    pub(crate) fn new(found: &SubmitterOverview, engine: &Engine, chain: ChainSide) -> Self {
        let (record, now) = (&found.record, engine.now());
        let mut depth: BTreeMap<_, _> =
            schema::open_states().into_iter().map(|state| (state, 0)).collect();
        for (state, count) in &found.depth {
            *depth.entry(state.name()).or_default() += count;
        }
        Self {
            chain_id: record.submitter.chain_id.get(),
            address: address(record.submitter.address),
            mode: record.mode.name(),
            status: record.status.name(),
            status_reason: record.status_reason.as_ref().map(|why| why.as_str().to_owned()),
            owner: found.owner.as_ref().map(|owner| owner.node.as_str().to_owned()),
            owner_url: found.owner.as_ref().and_then(|owner| owner.advertise_url.clone()),
            fencing_token: found.owner.as_ref().map(|owner| owner.token.get()),
            next_nonce: record.next_nonce.get(),
            chain_nonce: chain.nonce,
            window: engine.window(record.mode),
            depth,
            oldest_pending_seconds: found.oldest_open.map(|oldest| now.since(oldest).as_secs()),
            hole_count: chain.holes.as_ref().map(|holes| holes.count),
            holes: chain.holes.map(|holes| holes.shown),
            blocked_by: None,
            balance: chain.balance,
        }
    }
}
