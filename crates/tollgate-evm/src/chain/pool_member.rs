//! One endpoint of a chain: whether it is on this chain, and its head.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{B256, Route};

use super::block_proof::proven_base_fee;
use super::config::ConnectError;
use super::identity::Identity;
use super::lead::{Lead, LeadState};
use crate::endpoint::json::{BlockJson, Quantity, quantity};
use crate::endpoint::{Endpoint, Role, RpcError, RpcErrorKind};

/// Tries of a call that is one of many for the same question.
const TRIES_MAX: u32 = 3;

/// Heads of an endpoint that are remembered (I13).
const RECENT_HEADS_MAX: usize = 8;

/// The result of checking that an endpoint is on the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ChainCheck {
    /// The endpoint has not answered yet. Its watcher checks it again.
    Pending,
    Passed,
    /// On another chain, and asked for nothing but that. Its watcher checks it again now and then.
    Failed(ConnectError),
}

/// The head that an endpoint last reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReportedHead {
    pub(super) at: BlockRef,
    /// The highest number that it ever reported.
    pub(super) peak: u64,
    /// Its blocks have a base fee; `None` if not known.
    pub(super) has_base_fee: Option<bool>,
    pub(super) base_fee: Option<u128>,
    /// The gas limit of a block; `None` if not known.
    pub(super) gas_limit: Option<u64>,
    /// Its blocks have a hash of requests (EIP-7685). They do since the Prague fork, which also
    /// introduced the gas floor for call data.
    pub(super) has_requests: bool,
    pub(super) when: Instant,
}

/// A kind of proof that an endpoint has given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// A block whose hash covers its transactions.
    Block,
    /// All receipts of a block, as its hash covers them.
    Receipts,
}

/// A head that an endpoint reported some time ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecentHead {
    pub(super) hash: B256,
    /// Its base fee, if the hash proves it.
    pub(super) proven_base_fee: Option<u128>,
    pub(super) when: Instant,
}

#[derive(Debug)]
pub(super) struct PoolMember {
    pub(super) endpoint: Endpoint,
    /// Its place in the configuration.
    pub(super) place: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chain_check: ChainCheck,
    head: Option<ReportedHead>,
    /// The newest heads, the last one at the end.
    recent: VecDeque<RecentHead>,
    lead: LeadState,
    has_proven_block: bool,
    has_proven_receipts: bool,
}

impl PoolMember {
    pub(super) fn new(endpoint: Endpoint, place: usize) -> Arc<Self> {
        let state = State {
            chain_check: ChainCheck::Pending,
            head: None,
            recent: VecDeque::new(),
            lead: LeadState::default(),
            has_proven_block: false,
            has_proven_receipts: false,
        };
        Arc::new(Self { endpoint, place, state: Mutex::new(state) })
    }

    pub(super) fn reads(&self) -> bool {
        match self.endpoint.role() {
            Role::Full | Role::ReadOnly => true,
            Role::SendOnly | Role::Private => false,
        }
    }

    /// Returns whether transactions of a route are sent to it.
    pub(super) fn sends(&self, route: Route) -> bool {
        match self.endpoint.role() {
            Role::Full | Role::SendOnly => route == Route::Public,
            Role::ReadOnly => false,
            Role::Private => route == Route::Private,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn chain_check(&self) -> ChainCheck {
        self.with(|state| state.chain_check.clone())
    }

    pub(super) fn is_on_chain(&self) -> bool {
        self.with(|state| state.chain_check == ChainCheck::Passed)
    }

    pub(super) fn head(&self) -> Option<ReportedHead> {
        self.with(|state| state.head)
    }

    /// Notes that it has proven something.
    pub(super) fn note_proof(&self, proof: Proof) {
        self.with(|state| match proof {
            Proof::Block => state.has_proven_block = true,
            Proof::Receipts => state.has_proven_receipts = true,
        });
    }

    /// Returns whether it has given a proof of this kind.
    pub(super) fn has_given(&self, proof: Proof) -> bool {
        self.with(|state| match proof {
            Proof::Block => state.has_proven_block,
            Proof::Receipts => state.has_proven_receipts,
        })
    }

    /// The newest heads that it reported, the last one at the end.
    pub(super) fn recent_heads(&self) -> Vec<RecentHead> {
        self.with(|state| state.recent.iter().copied().collect())
    }

    /// Notes a head that it reported.
    pub(super) fn note_head(&self, at: BlockRef, base_fee: Option<Option<u128>>, when: Instant) {
        self.with(|state| {
            if state.recent.back().is_none_or(|last| last.hash != at.hash) {
                state.recent.push_back(RecentHead { hash: at.hash, proven_base_fee: None, when });
                while state.recent.len() > RECENT_HEADS_MAX {
                    state.recent.pop_front();
                }
            }
            let before = state.head;
            state.head = Some(ReportedHead {
                at,
                peak: before.map_or(at.number, |head| head.peak.max(at.number)),
                // An announcement may leave the fee out.
                has_base_fee: base_fee
                    .map(|fee| fee.is_some())
                    .or_else(|| before.and_then(|head| head.has_base_fee)),
                base_fee: base_fee.flatten().or_else(|| before.and_then(|head| head.base_fee)),
                gas_limit: before.and_then(|head| head.gas_limit),
                has_requests: before.is_some_and(|head| head.has_requests),
                when,
            });
        });
    }

    /// Compares its head with the highest one of the other endpoints, and returns its lead.
    pub(super) fn compare_head(&self, others: u64, now: Instant) -> Option<Lead> {
        self.with(|state| state.lead.compare(state.head.map(|head| head.at.number), others, now))
    }

    /// Returns whether the block by which it leads may be asked for now.
    pub(super) fn is_lead_check_due(&self, now: Instant) -> bool {
        self.with(|state| state.lead.is_check_due(now))
    }

    /// Notes whether it delivered the block by which it leads.
    pub(super) fn note_lead(&self, is_delivered: bool, now: Instant) {
        self.with(|state| match is_delivered {
            true => state.lead.note_delivered(state.head.map(|head| head.at.number), now),
            false => state.lead.note_undelivered(now),
        });
    }

    /// Returns whether it announces blocks that it does not deliver.
    pub(super) fn is_doubted(&self) -> bool {
        self.with(|state| state.lead.is_doubted)
    }

    /// Calls, and repeats the call if no node answered. For questions that take many calls: if each of
    /// them fails now and then, they would hardly ever all succeed (I15). An endpoint that rests after
    /// failures or a rate limit is not called again.
    pub(super) async fn call_with_retries<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
        deadline: Instant,
    ) -> Result<T, RpcError> {
        let mut tries = 1;
        loop {
            let answer = self.endpoint.call_until(method, params.clone(), deadline).await;
            let is_answered = answer.as_ref().err().is_none_or(|error| {
                matches!(error.kind, RpcErrorKind::Node | RpcErrorKind::Unreadable)
            });
            let rests = self.endpoint.health().is_resting(Instant::now());
            if is_answered || rests || tries >= TRIES_MAX {
                return answer;
            }
            tries += 1;
        }
    }

    /// Reads its block at a height; `None` if it has none.
    pub(super) async fn read_block_at(&self, number: u64) -> Result<Option<BlockRef>, RpcError> {
        let params = json!([quantity(number), false]);
        let block: Option<BlockJson> = self.endpoint.call("eth_getBlockByNumber", params).await?;
        Ok(block.and_then(|block| block.at()).filter(|at| at.number == number))
    }

    /// Notes the limits of blocks that its head shows, and a base fee that the head's hash proves.
    fn note_block_rules(&self, block: &BlockJson, proven_base_fee: Option<u128>) {
        self.with(|state| {
            if let Some(newest) = state.recent.back_mut() {
                newest.proven_base_fee = proven_base_fee.or(newest.proven_base_fee);
            }
            if let Some(head) = &mut state.head {
                head.gas_limit = block.gas_limit().or(head.gas_limit);
                head.has_requests = block.has_requests();
            }
        });
    }

    /// Reads its head.
    pub(super) async fn refresh_head(&self) -> Result<(), RpcError> {
        let params = json!(["latest", false]);
        let answer: Option<Value> = self.endpoint.call("eth_getBlockByNumber", params).await?;
        let Some(answer) = answer else { return Ok(()) };
        let block = BlockJson::deserialize(&answer)
            .map_err(|error| RpcError::new(RpcErrorKind::Unreadable, error.to_string()))?;
        if let Some(at) = block.at() {
            self.note_head(at, Some(block.base_fee()), Instant::now());
            self.note_block_rules(&block, proven_base_fee(&answer, at.hash));
        }
        Ok(())
    }

    pub(super) async fn read_chain_id(&self) -> Result<u64, RpcError> {
        let answer: Quantity<u64> = self.endpoint.call("eth_chainId", json!([])).await?;
        Ok(answer.0)
    }

    /// Reads the hash of its first block.
    pub(super) async fn read_genesis(&self) -> Result<Option<B256>, RpcError> {
        let params = json!(["0x0", false]);
        let block: Option<BlockJson> = self.endpoint.call("eth_getBlockByNumber", params).await?;
        Ok(block.and_then(|block| block.at()).map(|at| at.hash))
    }

    /// Checks whether it is on the chain. One that was on another chain and does not answer stays refused.
    pub(super) async fn check(&self, chain: Identity) {
        let before = self.chain_check();
        let chain_check = match self.compare(chain).await {
            Ok(chain_check) => chain_check,
            // A relay that takes only sends can't be on a wrong chain: each transaction names its
            // own.
            Err(error) if !self.reads() && error.is_method_missing() => ChainCheck::Passed,
            Err(_) => before.clone(),
        };
        let endpoint = self.endpoint.name();
        match &chain_check {
            ChainCheck::Failed(why) if chain_check != before => {
                tracing::error!(endpoint, error = %why, "endpoint refused: it is on another chain");
            }
            ChainCheck::Passed if matches!(before, ChainCheck::Failed(_)) => {
                tracing::info!(endpoint, "endpoint used: it is on the chain now");
            }
            _ => {}
        }
        self.with(|state| state.chain_check = chain_check);
    }

    async fn compare(&self, chain: Identity) -> Result<ChainCheck, RpcError> {
        let endpoint = || self.endpoint.name().to_owned();
        let found = self.read_chain_id().await?;
        if found != chain.chain_id.get() {
            let expected = chain.chain_id;
            let why = ConnectError::WrongChain { endpoint: endpoint(), expected, found };
            return Ok(ChainCheck::Failed(why));
        }
        if !self.reads() {
            return Ok(ChainCheck::Passed);
        }
        Ok(match self.read_genesis().await? {
            Some(found) if found != chain.genesis => {
                let expected = chain.genesis;
                let why = ConnectError::WrongGenesis { endpoint: endpoint(), expected, found };
                ChainCheck::Failed(why)
            }
            // A pruned node has no first block: its chain id has to do.
            Some(_) | None => ChainCheck::Passed,
        })
    }
}
