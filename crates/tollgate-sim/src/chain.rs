//! The chain: the dev chain's core with several endpoints, one of which lags, has a pool of its own,
//! and may be wrong in one way or another for good.
//!
//! Nodes reach it through a model of the client (`port`), or through the real one (`client`), which
//! then talks JSON-RPC with the dev chain's own endpoints.

mod client;
mod port;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tollgate_devchain::chain::{
    BaseFee, Behaviour, Beyond, Chain, ChainConfig, DroppedTxs, FinalityDistances, GWEI, MAIN_POOL,
    Rejection, Reorg, Tx, View,
};
use tollgate_devchain::{DevAccount, LocalChain, LocalView, dev_accounts, sign};
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{Address, Bytes, TxHash, U256};
use tollgate_testkit::chain_answers::{block_ref, rejection_class};

pub(crate) use client::ClientChain;
pub(crate) use port::NodeChain;

use crate::plan::{Lie, Plan, Steady};

/// The chain's id; a second chain in the same database has the next one.
pub(crate) const CHAIN_ID: u64 = 7;
/// The recipient of the intents.
pub(crate) const PAID: Address = Address::repeat_byte(0xee);
/// The address that reverts every call.
pub(crate) const REVERTS: Address = Address::repeat_byte(0xdd);
/// Gas in a block.
pub(crate) const BLOCK_GAS: u64 = 30_000_000;
/// The endpoint that is wrong, where one is.
const SECOND: usize = 1;
/// The largest transaction that an endpoint for small ones takes, in bytes.
const SMALL_BYTES: usize = 300;
/// The time that the second endpoint's transactions take to the first, in milliseconds.
const GOSSIP_MILLIS: u64 = 300;
/// Blocks on top of what happened before the run.
const BLOCKS_ABOVE_THE_PAST: usize = 10;
/// The number of keys.
const ACCOUNTS: usize = 3;

/// The chain with its endpoints.
pub(crate) struct SimChain {
    local: LocalChain,
    views: Vec<LocalView>,
    extras: Mutex<ChainExtras>,
    steady: Steady,
    chain_id: u64,
    moves: Notify,
}

/// State that the chain itself does not have.
#[derive(Default)]
struct ChainExtras {
    /// Signed transactions, decoded once.
    decoded: HashMap<Bytes, Result<Arc<Tx>, Rejection>>,
    /// The number of blocks that the second endpoint is behind.
    lag: u64,
    /// The highest count of each account that any block ever gave.
    peaks: BTreeMap<Address, u64>,
    /// The highest honest price so far, in wei for a unit of gas.
    honest_price: u128,
}

/// The chain under its lock.
pub(crate) struct State<'a> {
    pub(crate) chain: MutexGuard<'a, Chain>,
    extras: MutexGuard<'a, ChainExtras>,
    steady: Steady,
}

/// The accounts that nodes sign for.
pub(crate) fn accounts() -> Vec<DevAccount> {
    dev_accounts().into_iter().take(ACCOUNTS).collect()
}

impl SimChain {
    /// A chain whose blocks are settled after so many confirmations, with the endpoints of a plan.
    pub(crate) fn new(seed: u64, chain_id: u64, plan: &Plan) -> Self {
        let distance = plan.confirmations.saturating_sub(1);
        let funds = U256::from(10_u64.pow(18)) * U256::from(1_000);
        let config = ChainConfig {
            chain_id,
            base_fee: BaseFee::Moving(GWEI),
            block_gas_limit: BLOCK_GAS,
            finality: FinalityDistances { safe: distance, finalized: distance },
            funded: accounts().iter().map(|account| (account.address, funds)).collect(),
            seed,
            ..ChainConfig::default()
        };
        let mut chain = Chain::new(config);
        chain.set_behaviour(REVERTS, Behaviour::Revert("no".to_owned()));
        for _ in 1..plan.endpoints {
            let pool = chain.add_pool();
            chain.pool_mut(pool).gossip_delay_ms = Some(GOSSIP_MILLIS);
        }
        match plan.steady.lie {
            Some(Lie::Swallows) => {
                chain.pool_mut(SECOND).gossip_delay_ms = None;
                chain.pool_mut(SECOND).is_mined_from = false;
            }
            Some(Lie::TakesSmallOnesOnly) => {
                chain.pool_mut(SECOND).limits.tx_bytes = SMALL_BYTES;
            }
            _ => {}
        }
        let local = LocalChain::new(chain);
        let views = client::views(&local, seed, plan);
        let extras = Mutex::default();
        Self { local, views, extras, steady: plan.steady, chain_id, moves: Notify::new() }
    }

    pub(crate) fn lock(&self) -> State<'_> {
        State {
            chain: self.local.lock(),
            extras: self.extras.lock().unwrap_or_else(PoisonError::into_inner),
            steady: self.steady,
        }
    }

    fn moved(&self) {
        self.moves.notify_waiters();
    }

    /// Mines a block with what the pools hold.
    pub(crate) fn mine(&self, now_millis: u64) -> (u64, usize) {
        let mut state = self.lock();
        let gossip_until = self.local.now_ms();
        state.chain.gossip(gossip_until);
        let block = state.chain.mine(now_millis / 1_000);
        state.note_peaks();
        let mined = (block.number(), block.txs.len());
        drop(state);
        self.moved();
        mined
    }

    /// Mines a block with exactly this transaction.
    pub(crate) fn mine_exactly(&self, tx: Arc<Tx>, now_millis: u64) {
        let mut state = self.lock();
        state.chain.mine_exactly(vec![tx], now_millis / 1_000);
        state.note_peaks();
        drop(state);
        self.moved();
    }

    /// Mines what outsiders sent before the run, one transaction in a block, below blocks that no reorg
    /// within finality reaches.
    pub(crate) fn mine_past(&self, txs: Vec<Arc<Tx>>) {
        let mut state = self.lock();
        let now = state.chain.head().header.timestamp;
        for tx in txs {
            state.chain.mine_exactly(vec![tx], now);
        }
        for _ in 0..BLOCKS_ABOVE_THE_PAST {
            state.chain.mine_exactly(Vec::new(), now);
        }
        state.note_peaks();
    }

    /// Replaces the last blocks, as far as finality allows it, or further; false if it was refused.
    pub(crate) fn reorg(&self, depth: u64, fate: DroppedTxs, shorter: u64, beyond: Beyond) -> bool {
        let mut state = self.lock();
        let replacements = depth.saturating_sub(shorter);
        let now = state.chain.head().header.timestamp;
        let done = state
            .chain
            .reorg(Reorg { depth, replacements, dropped_txs: fate, beyond }, now)
            .is_ok();
        drop(state);
        self.moved();
        done
    }

    pub(crate) fn set_lag(&self, lag: u64) {
        self.lock().extras.lag = lag;
    }

    /// Evicts transactions from all pools.
    pub(crate) fn evict(&self, chance: f64) -> Vec<TxHash> {
        let mut state = self.lock();
        let gone = state.chain.evict(MAIN_POOL, chance);
        for pool in 1..state.chain.pools() {
            for hash in &gone {
                state.chain.drop_pooled(pool, hash);
            }
        }
        gone
    }

    pub(crate) fn head(&self) -> BlockRef {
        block_ref(self.lock().chain.head())
    }

    /// The block with which the chain began.
    pub(crate) fn first_block(&self) -> BlockRef {
        let state = self.lock();
        let first = state.chain.blocks().next().map(|block| (block.number(), block.hash));
        let (number, hash) = first.unwrap_or_default();
        BlockRef { number, hash, parent: TxHash::ZERO }
    }

    /// Hands a transaction to an endpoint.
    pub(crate) fn submit(&self, raw: &Bytes, endpoint: usize) -> AnswerClass {
        let now_ms = self.local.now_ms();
        let mut state = self.lock();
        let decoded = state.decode(raw);
        let admitted = decoded.and_then(|tx| state.chain.submit(endpoint, &tx, now_ms));
        match admitted {
            Ok(_) => AnswerClass::Accepted,
            Err(rejection) => rejection_class(&rejection),
        }
    }

    /// A transfer to self that Tollgate does not know.
    pub(crate) fn outsiders_tx(&self, from: &DevAccount, nonce: u64, mark: u64) -> Option<Arc<Tx>> {
        let mut state = self.lock();
        let base_fee = state.chain.next_base_fee();
        let to = (from.address, U256::ZERO);
        let tip = u128::from(GWEI) * 3 + u128::from(mark);
        let tx = sign::transfer(self.chain_id, nonce, to, base_fee, tip);
        let raw = sign::sign(tx, &from.private_key).ok()?;
        state.decode(&raw).ok()
    }
}

impl State<'_> {
    pub(crate) fn decode(&mut self, raw: &Bytes) -> Result<Arc<Tx>, Rejection> {
        if let Some(known) = self.extras.decoded.get(raw) {
            return known.clone();
        }
        let decoded = Tx::decode(raw.clone());
        self.extras.decoded.insert(raw.clone(), decoded.clone());
        decoded
    }

    fn view(&self, endpoint: usize) -> View<'_> {
        let steady = match self.steady.lie {
            Some(Lie::Lags(blocks)) => blocks,
            _ => 0,
        };
        let lag = if endpoint == SECOND { self.extras.lag.max(steady) } else { 0 };
        self.chain.view(endpoint, lag)
    }

    /// The highest count of an account that any block ever gave.
    pub(crate) fn peak(&self, of: Address) -> u64 {
        self.extras.peaks.get(&of).copied().unwrap_or(0)
    }

    /// The highest honest price of gas so far.
    pub(crate) fn honest_price(&self) -> u128 {
        self.extras.honest_price.max(honest(self.chain.next_base_fee()))
    }

    /// The highest nonce that any pool counts for an account.
    pub(crate) fn pending_count(&self, of: Address) -> u64 {
        let pools = 0..self.chain.pools();
        pools.map(|pool| self.chain.view(pool, 0).pending_nonce(of)).max().unwrap_or(0)
    }

    /// The highest block that is settled.
    pub(crate) fn settled(&self) -> u64 {
        let finalized = tollgate_devchain::chain::BlockId::Finalized;
        self.chain.view(MAIN_POOL, 0).number(finalized).unwrap_or(0)
    }

    /// An account's count in the highest settled block.
    pub(crate) fn settled_count(&self, of: Address) -> u64 {
        self.chain.accounts().at(of, self.settled()).nonce
    }

    pub(crate) fn count(&self, of: Address) -> u64 {
        self.chain.accounts().now(of).nonce
    }

    fn note_peaks(&mut self) {
        for account in accounts() {
            let count = self.count(account.address);
            let peak = self.extras.peaks.entry(account.address).or_default();
            *peak = count.max(*peak);
        }
        self.extras.honest_price = self.honest_price();
    }

    /// The canonical block number of a transaction, and true if it succeeded.
    pub(crate) fn place(&self, hash: &TxHash) -> Option<(u64, bool)> {
        let place = |block: &Arc<tollgate_devchain::chain::Block>| {
            let at = block.position(hash)?;
            Some((block.number(), block.receipts[at].is_success))
        };
        self.chain.blocks().find_map(place)
    }
}

/// The highest honest price: twice the base fee, and a tip.
fn honest(base_fee: Option<u64>) -> u128 {
    u128::from(base_fee.unwrap_or(GWEI)) * 2 + u128::from(GWEI)
}
