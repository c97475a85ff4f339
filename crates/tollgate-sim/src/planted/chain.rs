//! Mistakes of the engine in its use of the chain, made at its chain port.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::diagnose::EndpointReport;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainLimits, ChainUnavailable, FeeQuote, Funds, OccupantSearch, OccupantSupport, PastCount,
    SendAnswer, SlotSearch, Speed, TxLocation,
};
use tollgate_model::port::{TxReceipt, TxStore};
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, B256, Bytes, ChainId, Nonce, Route, Text, TxHash, Wei, keccak256};

use super::Bug;
use crate::world::World;

/// The most resends of a batch without answers.
const RESENDS_MAX: usize = 4;
/// The pause before the same head is looked at again.
const SAME_HEAD: Duration = Duration::from_millis(500);

/// The memory of mistakes.
#[derive(Default)]
pub(crate) struct PlantedMemory {
    /// Attempts that others replaced.
    older: Mutex<HashSet<TxHash>>,
    /// The first block that was seen at each height, and blocks as they are, by their hashes.
    first: Mutex<(BTreeMap<u64, Block>, HashMap<B256, BlockRef>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlantedMemory {
    pub(super) fn forget(&self, hashes: impl IntoIterator<Item = TxHash>) {
        lock(&self.older).extend(hashes);
    }

    fn is_older(&self, hash: TxHash) -> bool {
        lock(&self.older).contains(&hash)
    }

    /// The first block at its height, on top of the first one below.
    fn first_at(&self, mut block: Block) -> Block {
        let (first, as_is) = &mut *lock(&self.first);
        as_is.insert(block.at.hash, block.at);
        if let Some(known) = first.get(&block.at.number) {
            return known.clone();
        }
        let below = block.at.number.checked_sub(1).and_then(|below| first.get(&below));
        block.at.parent = below.map_or(block.at.parent, |below| below.at.hash);
        first.insert(block.at.number, block.clone());
        block
    }

    fn as_is(&self, shown: BlockRef) -> BlockRef {
        lock(&self.first).1.get(&shown.hash).copied().unwrap_or(shown)
    }
}

/// The chain port of an engine with a mistake.
pub(crate) struct PlantedChain {
    world: Arc<World>,
    inner: Arc<dyn Chain>,
}

impl PlantedChain {
    /// The chain itself, unless the mistake is one that is made here.
    pub(crate) fn around(world: Arc<World>, inner: Arc<dyn Chain>) -> Arc<dyn Chain> {
        let here = [
            Bug::SlotFreedOnTimeout,
            Bug::OlderHashesForgotten,
            Bug::ForksIgnored,
            Bug::AnswerFirst,
            Bug::FirstDoubted,
            Bug::RouteIgnored,
            Bug::OccupantsIgnored,
        ];
        match here.into_iter().any(|bug| world.has(bug)) {
            true => Arc::new(Self { world, inner }),
            false => inner,
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.world.has(bug)
    }

    fn forgets(&self, hash: TxHash) -> bool {
        self.has(Bug::OlderHashesForgotten) && self.world.planted.is_older(hash)
    }

    /// [`Bug::AnswerFirst`]: how many of these are durable, from the first on. An engine that answers before its
    /// commit still sends after it (I5).
    async fn durable(&self, raws: &[Bytes]) -> usize {
        if !self.has(Bug::AnswerFirst) {
            return raws.len();
        }
        let hashes: Vec<TxHash> = raws.iter().map(keccak256).collect();
        let known = self.world.store.tx_ids_by_hash(&hashes).await.unwrap_or_default();
        let is_known = |hash: &&TxHash| known.iter().any(|(known, _)| known == *hash);
        hashes.iter().take_while(is_known).count()
    }
}

fn is_unclear(answer: &SendAnswer) -> bool {
    action_for(answer.class) == AnswerAction::ResendSame
}

#[async_trait]
impl Chain for PlantedChain {
    fn chain_id(&self) -> ChainId {
        self.inner.chain_id()
    }

    fn prove_count(&self, of: Address, lookback: u64) {
        self.inner.prove_count(of, lookback);
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        if !self.has(Bug::ForksIgnored) {
            return self.inner.head_after(known).await;
        }
        loop {
            let before = known.map(|known| self.world.planted.as_is(known));
            let head = self.inner.head_after(before).await?;
            let shown = self.inner.block(BlockTag::Number(head.number)).await?;
            let shown = shown.map_or(head, |block| self.world.planted.first_at(block).at);
            if Some(shown) != known {
                return Ok(shown);
            }
            sleep(SAME_HEAD).await;
        }
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        let block = self.inner.block(tag).await?;
        Ok(block.map(|mut block| {
            if self.has(Bug::ForksIgnored) {
                return self.world.planted.first_at(block);
            }
            block.transactions.retain(|hash| !self.forgets(*hash));
            block
        }))
    }

    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts {
        let mut read = self.inner.receipts(block, of).await;
        read.found.retain(|receipt| !self.forgets(receipt.tx_hash));
        read
    }

    fn has_several_endpoints(&self) -> bool {
        self.inner.has_several_endpoints()
    }

    async fn receipt_support(&self, receipts: &[TxReceipt]) -> Vec<ReceiptSupport> {
        self.inner.receipt_support(receipts).await
    }

    async fn revert_reason(&self, of: &TxReceipt) -> Option<Text<2000>> {
        self.inner.revert_reason(of).await
    }

    fn has_private_endpoints(&self) -> bool {
        self.inner.has_private_endpoints()
    }

    async fn receipt(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxReceipt>, ChainUnavailable> {
        Ok(self.inner.receipt(of, route).await?.filter(|_| !self.forgets(of)))
    }

    async fn sighting(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxLocation>, ChainUnavailable> {
        Ok(self.inner.sighting(of, route).await?.filter(|_| !self.forgets(of)))
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        let counts = self.inner.counts(of).await?;
        if self.has(Bug::SlotFreedOnTimeout) {
            // Whatever was sent and not answered is nowhere.
            return Ok(AccountCounts::confirmed(counts.mined, counts.mined));
        }
        Ok(counts)
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        self.inner.count_at(of, block).await
    }

    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch {
        let SlotSearch { mut looked, found } = self.inner.search(of, nonce, attempts).await;
        for (words, _) in looked.iter_mut().zip(attempts).filter(|(_, it)| self.forgets(**it)) {
            let found = words.iter_mut().filter(|lookup| **lookup == ReceiptLookup::Found);
            found.for_each(|lookup| *lookup = ReceiptLookup::NotThere);
        }
        SlotSearch { looked, found: found.filter(|found| !self.forgets(found.tx_hash)) }
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport> {
        self.inner.pools(of, attempts).await
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], lookback: u64) -> OccupantSearch {
        let mut found = self.inner.occupants(of, slots, lookback).await;
        for seen in found.seen.iter_mut().filter(|seen| self.forgets(seen.tx_hash)) {
            seen.tx_hash = TxHash::ZERO;
        }
        if self.has(Bug::OccupantsIgnored) {
            found.seen.iter_mut().for_each(|seen| seen.support = OccupantSupport::Single);
        }
        found
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.inner.balance(of).await
    }

    async fn funds(&self, of: Address) -> Result<Vec<Funds>, ChainUnavailable> {
        self.inner.funds(of).await
    }

    fn limits(&self) -> ChainLimits {
        self.inner.limits()
    }

    async fn fee_quote(&self, speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        self.inner.fee_quote(speed).await
    }

    async fn estimate_call(
        &self,
        call: &Call,
        route: Route,
    ) -> Result<CallEstimate, ChainUnavailable> {
        self.inner.estimate_call(call, route).await
    }

    async fn send(&self, raw: &Bytes, route: Route) -> SendAnswer {
        self.inner.send(raw, route).await
    }

    async fn send_in_order(&self, raws: &[Bytes], route: Route) -> Vec<SendAnswer> {
        let route = if self.has(Bug::RouteIgnored) { Route::Public } else { route };
        let durable = self.durable(raws).await;
        let mut answers = self.inner.send_in_order(&raws[..durable], route).await;
        if answers.len() == durable && durable < raws.len() {
            let said = "not durable yet".to_owned();
            answers.push(SendAnswer { class: AnswerClass::Transient, said });
        }
        if self.has(Bug::SlotFreedOnTimeout) {
            let unclear = answers.iter_mut().filter(|answer| is_unclear(answer));
            unclear.for_each(|answer| answer.class = AnswerClass::Invalid);
        }
        for _ in 0..RESENDS_MAX {
            let unclear = answers.iter().position(is_unclear);
            let Some(from) = unclear.filter(|_| self.has(Bug::FirstDoubted)) else { break };
            answers.truncate(from);
            answers.extend(self.inner.send_in_order(&raws[from..], route).await);
        }
        answers
    }
}
