//! One chain over several endpoints. Implements the engine's chain port.
//!
//! Owns the endpoints, the tasks that follow their heads, and the high-water marks. Reads come from a
//! healthy endpoint, and one endpoint alone never moves a mark back; sends may go to several. Never
//! decides what happens to a transaction.

mod block_proof;
mod block_search;
mod blocks;
mod config;
mod corroboration;
mod count_proofs;
mod counts;
mod disagreements;
mod estimate;
mod fees;
mod finality_tags;
mod funds;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod head_selection;
mod head_watcher;
mod identity;
mod in_turn;
mod lead;
mod logs;
mod occupants;
mod past_counts;
mod pool_member;
mod pools;
mod receipt_support;
mod receipts;
mod recent_blocks;
mod replay;
mod revert_reason;
mod router;
mod search;
mod send;
mod send_batch;
mod send_history;
mod votes;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
pub use config::{ChainConfig, ConnectError};
use futures_util::future::join_all;
use identity::Identity;
use pool_member::{ChainCheck, PoolMember};
use router::Router;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tollgate_metrics::ChainMetrics;
use tollgate_model::diagnose::EndpointReport;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainLimits, ChainUnavailable, FeeQuote, Funds, Logs, OccupantSearch, PastCount, SendAnswer,
    SlotSearch, Speed, TxLocation,
};
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::{Address, B256, Bytes, ChainId, Nonce, Route, Text, TxHash, Wei};

use crate::endpoint::{Endpoint, Health, Role};

/// One chain, accessed through its endpoints.
pub struct EvmChain {
    identity: Identity,
    router: Arc<Router>,
    marks: Arc<counts::HighWaterMarks>,
    scans: Arc<occupants::BlockScans>,
    finality_tags: finality_tags::FinalityTags,
    past_counts: corroboration::ChainSource,
    receipt_searches: corroboration::ChainSource,
    fees: fees::FeeCache,
    funds: corroboration::ChainSource,
    recent: recent_blocks::RecentBlocks,
    /// Dropping the chain stops them.
    _watchers: JoinSet<()>,
}

/// The state of an endpoint, for operators.
#[derive(Clone, Debug)]
pub struct EndpointStatus {
    /// Scheme, host and port.
    pub name: String,
    /// Its use.
    pub role: Role,
    /// `unchecked`, `good`, or why the endpoint is not used.
    pub chain_check: String,
    /// Its latency, failures and rate limits.
    pub health: Health,
    /// The endpoint gets no calls for now, because of failures or a rate limit.
    pub resting: bool,
    /// The head that it last reported.
    pub head: Option<BlockRef>,
}

impl fmt::Debug for EvmChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmChain").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl EvmChain {
    /// Checks which chain every endpoint is on, and starts to follow their heads. Endpoints that don't
    /// answer now, or are on another chain, are checked again later; at least one for reads must
    /// answer and be on the chain.
    ///
    /// # Errors
    /// [`ConnectError`], for example if all endpoints are on another chain.
    pub async fn connect(config: ChainConfig) -> Result<Self, ConnectError> {
        let limits = [
            ("poll_interval", config.poll_interval),
            ("read_deadline", config.read_deadline),
            ("send_deadline", config.send_deadline),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, limit)| limit.is_zero()) {
            return Err(ConnectError::ZeroLimit(name));
        }
        let members = members(&config)?;
        let (identity, heard) = identity::identify(&members, &config).await?;
        // Endpoints that did not answer are checked by their watchers.
        let present = members.iter().zip(heard).filter(|(member, heard)| *heard || !member.reads());
        join_all(present.map(|(member, _)| member.check(identity))).await;
        let router = Arc::new(Router::new(identity.chain_id, members, config));
        let mut watchers = JoinSet::new();
        for member in &router.members {
            watchers.spawn(head_watcher::follow(router.clone(), member.clone(), identity));
        }
        watchers.spawn(receipt_support::learn(router.clone()));
        Ok(Self {
            identity,
            router,
            marks: Arc::default(),
            scans: Arc::default(),
            finality_tags: finality_tags::FinalityTags::default(),
            past_counts: corroboration::ChainSource::default(),
            receipt_searches: corroboration::ChainSource::default(),
            fees: fees::FeeCache::default(),
            funds: corroboration::ChainSource::default(),
            recent: recent_blocks::RecentBlocks::default(),
            _watchers: watchers,
        })
    }

    /// The hash of block 0, by which a store identifies the chain.
    pub const fn genesis(&self) -> B256 {
        self.identity.genesis
    }

    /// The counters of the configuration.
    pub fn metrics(&self) -> &Arc<ChainMetrics> {
        &self.router.config.metrics
    }

    /// The present state of the endpoints.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        let now = Instant::now();
        let status = |member: &Arc<PoolMember>| EndpointStatus {
            name: member.endpoint.name().to_owned(),
            role: member.endpoint.role(),
            chain_check: match member.chain_check() {
                ChainCheck::Pending => "unchecked".to_owned(),
                ChainCheck::Passed => "good".to_owned(),
                ChainCheck::Failed(why) => why.to_string(),
            },
            health: member.endpoint.health(),
            resting: member.endpoint.health().is_resting(now),
            head: member.head().map(|head| head.at),
        };
        self.router.members.iter().map(status).collect()
    }

    /// Waits for the first head after the start.
    async fn started(&self) -> Result<(), ChainUnavailable> {
        let mut heads = self.router.heads();
        let first = heads.wait_for(Option::is_some);
        match timeout(self.router.config.read_deadline, first).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(ChainUnavailable("no endpoint reports its head".to_owned())),
        }
    }

    /// Returns whether any endpoint has reported its head lately.
    fn is_seen(&self) -> bool {
        let (config, now) = (&self.router.config, Instant::now());
        let lately =
            config.read_deadline.max(config.poll_interval * head_watcher::SAFETY_POLL_FACTOR * 2);
        let is_new = |when: Instant| now.saturating_duration_since(when) < lately;
        self.router.members.iter().any(|member| member.head().is_some_and(|h| is_new(h.when)))
    }

    /// Adds the time of the block, if the block was read lately. Receipts have none.
    fn timed(&self, mut receipt: TxReceipt) -> TxReceipt {
        let time = self.recent.find(receipt.block_hash).and_then(|block| block.time);
        receipt.details.block_time = time.or(receipt.details.block_time);
        receipt
    }
}

/// Prepares the endpoints, each with a name of its own.
fn members(config: &ChainConfig) -> Result<Vec<Arc<PoolMember>>, ConnectError> {
    let mut members: Vec<Arc<PoolMember>> = Vec::new();
    for (endpoint, place) in config.endpoints.iter().zip(1..) {
        let endpoint = Endpoint::new(endpoint.clone())
            .map_err(|problem| ConnectError::BadEndpoint { place, problem })?;
        let taken = members.iter().any(|member| member.endpoint.name() == endpoint.name());
        let endpoint = if taken { endpoint.numbered(place) } else { endpoint };
        let endpoint = endpoint.counted(config.metrics.clone());
        members.push(PoolMember::new(endpoint, members.len()));
    }
    match members.iter().any(|member| member.reads()) {
        true => Ok(members),
        false => Err(ConnectError::NoReader),
    }
}

#[async_trait]
impl Chain for EvmChain {
    fn chain_id(&self) -> ChainId {
        self.identity.chain_id
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        let mut heads = self.router.heads();
        loop {
            let another = heads.wait_for(|head| head.is_some() && *head != known);
            match timeout(self.router.config.read_deadline, another).await {
                Ok(Ok(head)) => {
                    if let Some(head) = *head {
                        return Ok(head);
                    }
                }
                Ok(Err(_)) => return Err(ChainUnavailable("no longer followed".to_owned())),
                // A chain without new blocks is no outage while an endpoint reports its head.
                Err(_) if self.is_seen() => {}
                Err(_) => return Err(ChainUnavailable("no endpoint reports its head".to_owned())),
            }
        }
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        self.started().await?;
        let block = match tag {
            BlockTag::Latest => blocks::latest(&self.router).await?,
            BlockTag::Number(number) => blocks::by_number(&self.router, number).await?,
            BlockTag::Safe | BlockTag::Finalized => {
                finality_tags::settled(&self.router, &self.finality_tags, tag).await?
            }
        };
        block.iter().for_each(|block| self.recent.note(block));
        Ok(block)
    }

    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts {
        let size = self.recent.find(block.hash).map(|block| block.size);
        let mut receipts = receipts::receipts(&self.router, block, size, of).await;
        receipts.found = receipts.found.into_iter().map(|receipt| self.timed(receipt)).collect();
        receipts
    }

    fn has_several_endpoints(&self) -> bool {
        self.router.readers_configured() > 1
    }

    async fn receipt_support(&self, receipts: &[TxReceipt]) -> Vec<ReceiptSupport> {
        let block = receipts.first().and_then(|receipt| self.recent.find(receipt.block_hash));
        let size = block.map(|block| block.size);
        let mut support = receipt_support::receipt_support(&self.router, size, receipts).await;
        for support in &mut support {
            if let ReceiptSupport::Corrected(receipt) = support {
                **receipt = self.timed((**receipt).clone());
            }
        }
        support
    }

    async fn revert_reason(&self, of: &TxReceipt) -> Option<Text<2000>> {
        replay::revert_reason(&self.router, of).await
    }

    async fn logs(&self, of: &TxReceipt) -> Result<Option<Logs>, ChainUnavailable> {
        logs::logs(&self.router, of).await
    }

    fn has_private_endpoints(&self) -> bool {
        self.router.has_private()
    }

    async fn receipt(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxReceipt>, ChainUnavailable> {
        let receipt = receipts::receipt(&self.router, of, route).await?;
        Ok(receipt.map(|receipt| self.timed(receipt)))
    }

    async fn sighting(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxLocation>, ChainUnavailable> {
        search::sighting(&self.router, of, route).await
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        self.started().await?;
        counts::counts(&self.router, &self.marks, of).await
    }

    fn prove_count(&self, of: Address, lookback: u64) {
        counts::prove(&self.router, &self.marks, &self.scans, of, lookback);
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        self.started().await?;
        past_counts::count_at(&self.router, &self.past_counts, of, block).await
    }

    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch {
        search::search(&self.router, &self.receipt_searches, of, nonce, attempts).await
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport> {
        pools::pools(&self.router, of, attempts).await
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], lookback: u64) -> OccupantSearch {
        occupants::occupants(&self.router, &self.scans, of, slots, lookback).await
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        funds::balance(&self.router, of).await
    }

    async fn funds(&self, of: Address) -> Result<Vec<Funds>, ChainUnavailable> {
        funds::funds(&self.router, &self.funds, of).await
    }

    fn limits(&self) -> ChainLimits {
        funds::limits(&self.router)
    }

    async fn fee_quote(&self, speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        self.started().await?;
        fees::quote(&self.router, &self.fees, speed).await
    }

    async fn estimate_call(
        &self,
        call: &Call,
        route: Route,
    ) -> Result<CallEstimate, ChainUnavailable> {
        estimate::estimate_call(&self.router, call, route).await
    }

    async fn send(&self, raw: &Bytes, route: Route) -> SendAnswer {
        send::send(&self.router, raw, route).await
    }

    async fn send_in_order(&self, raws: &[Bytes], route: Route) -> Vec<SendAnswer> {
        send_batch::send_in_order(&self.router, raws, route).await
    }
}
