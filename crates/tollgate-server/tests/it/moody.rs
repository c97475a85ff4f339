//! A chain that can refuse to answer questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tollgate_model::diagnose::EndpointWord;
use tollgate_model::port::MinedIn;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, Chain, ChainLimits,
    ChainUnavailable, FeeQuote, OccupantSearch, PastCount, SendAnswer, Sighting, SlotSearch, Speed,
    Trial,
};
use tollgate_model::{Address, Bytes, ChainId, Nonce, Text, TxHash, U256, Wei};
use tollgate_testkit::fake_chain::FakeChain;

/// A fake chain with moods.
pub(crate) struct Moody {
    chain: Arc<FakeChain>,
    is_silent: AtomicBool,
    says_no: AtomicBool,
    tries_one_wei_last: AtomicBool,
    tried_another: Notify,
}

impl Moody {
    pub(crate) fn new(chain: Arc<FakeChain>) -> Self {
        Self {
            chain,
            is_silent: AtomicBool::new(false),
            says_no: AtomicBool::new(false),
            tries_one_wei_last: AtomicBool::new(false),
            tried_another: Notify::new(),
        }
    }

    /// From now on no question about accounts, fees and calls is answered.
    pub(crate) fn fall_silent(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    /// From now on every call that is tried reverts.
    pub(crate) fn say_no(&self) {
        self.says_no.store(true, Ordering::SeqCst);
    }

    /// From now on a call with a value of one wei is tried after a call with another value.
    pub(crate) fn try_one_wei_last(&self) {
        self.tries_one_wei_last.store(true, Ordering::SeqCst);
    }

    fn mood(&self) -> Result<(), ChainUnavailable> {
        if self.is_silent.load(Ordering::SeqCst) {
            return Err(ChainUnavailable("not in the mood".to_owned()));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Chain for Moody {
    fn chain_id(&self) -> ChainId {
        self.chain.chain_id()
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        self.chain.head_after(known).await
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        self.chain.block(tag).await
    }

    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts {
        self.chain.receipts(block, of).await
    }

    async fn receipt(&self, of: TxHash) -> Result<Option<MinedIn>, ChainUnavailable> {
        self.chain.receipt(of).await
    }

    async fn sighting(&self, of: TxHash) -> Result<Option<Sighting>, ChainUnavailable> {
        self.chain.sighting(of).await
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        self.mood()?;
        self.chain.counts(of).await
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        self.mood()?;
        self.chain.count_at(of, block).await
    }

    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch {
        self.chain.search(of, nonce, attempts).await
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointWord> {
        self.chain.pools(of, attempts).await
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], lookback: u64) -> OccupantSearch {
        match self.mood() {
            Ok(()) => self.chain.occupants(of, slots, lookback).await,
            Err(error) => OccupantSearch { seen: Vec::new(), problem: Some(error.to_string()) },
        }
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.mood()?;
        self.chain.balance(of).await
    }

    fn limits(&self) -> ChainLimits {
        self.chain.limits()
    }

    async fn fee_quote(&self, speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        self.mood()?;
        self.chain.fee_quote(speed).await
    }

    async fn try_call(&self, call: &Call) -> Result<Trial, ChainUnavailable> {
        self.mood()?;
        if self.says_no.load(Ordering::SeqCst) {
            return Ok(Trial::Reverts(Text::lossy("no")));
        }
        if self.tries_one_wei_last.load(Ordering::SeqCst) {
            match call.value == Wei(U256::from(1)) {
                true => self.tried_another.notified().await,
                false => self.tried_another.notify_one(),
            }
        }
        self.chain.try_call(call).await
    }

    async fn send(&self, raw: &Bytes) -> SendAnswer {
        self.chain.send(raw).await
    }
}
