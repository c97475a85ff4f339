//! The chain itself: accounts, pools, blocks, reorgs. Pure and deterministic.
//!
//! It is **not an EVM**: no code runs. A transaction is a transfer; an address that is called does
//! the one thing it was set to do ([`Behaviour`]): succeed, revert, burn gas, run out of gas. What
//! is real is all that a transaction manager can see from outside: nonces, balances, fees, pools,
//! blocks, receipts, hashes and how they change in a reorg.
//!
//! Everything is a value: [`Chain`] can be cloned, compared and inspected. There is no clock (time
//! is an argument), no I/O, and no randomness but what follows from the seed; the same calls give
//! the same hashes. The server calls it under one lock; a simulation can call it directly.

mod block;
mod config;
mod execute;
pub mod gas;
mod pool;
mod produce;
mod read;
mod rejection;
mod reorg;
mod rng;
mod state;
mod tx;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};

pub use block::{Block, PRODUCER, Receipt};
pub use config::{BaseFee, ChainConfig, FinalityDistances, GWEI, PoolLimits, Retention};
pub use execute::{Behaviour, Outcome, encode_revert};
pub use pool::{Admission, Pool, Pooled, Rules};
pub use read::{BlockId, Call, CallRefused, FeeHistory, Found, View};
pub use rejection::Rejection;
pub use reorg::{Beyond, DroppedTxs, Reorg, ReorgOutcome, ReorgRefused};
pub use rng::Rng;
pub use state::{Account, Accounts};
pub use tx::Tx;

/// The pool of the view that every chain has.
pub const MAIN_POOL: usize = 0;

/// Transactions on their way between pools, at most; what comes on top gets lost on the way.
const IN_FLIGHT_MAX: usize = 100_000;

/// A transaction on its way to the other pools.
#[derive(Clone, PartialEq, Eq, Debug)]
struct InFlight {
    due_ms: u64,
    from: usize,
    hash: B256,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    config: ChainConfig,
    accounts: Accounts,
    behaviours: BTreeMap<Address, Behaviour>,
    /// From the oldest that is kept to the head; never empty.
    blocks: VecDeque<Arc<Block>>,
    kept_txs: usize,
    orphans: VecDeque<Arc<Block>>,
    /// By hash, the number of the canonical block.
    by_hash: HashMap<B256, u64>,
    /// By transaction hash, where it is in the canonical chain.
    places: HashMap<B256, (u64, usize)>,
    pools: Vec<Pool>,
    in_flight: VecDeque<InFlight>,
    /// The highest `safe` and `finalized` so far: they go back only on request.
    safe_mark: u64,
    finalized_mark: u64,
    forks: u64,
    next_base_fee_override: Option<u64>,
    rng: Rng,
}

impl Chain {
    /// A chain with its block 0 and one pool.
    pub fn new(config: ChainConfig) -> Self {
        let mut accounts = Accounts::new(config.default_balance);
        for (address, balance) in &config.funded {
            accounts.set(0, *address, Account { balance: *balance, ..Account::default() });
        }
        let base_fee = match config.base_fee {
            BaseFee::Absent => None,
            BaseFee::Moving(wei) | BaseFee::Fixed(wei) => Some(wei),
        };
        let sealing = block::Sealing {
            parent_hash: B256::ZERO,
            parent_state_root: B256::ZERO,
            number: 0,
            timestamp: config.genesis_timestamp,
            gas_limit: config.block_gas_limit,
            base_fee,
            fork: 0,
            seed: config.seed,
        };
        let genesis = Arc::new(block::seal(&sealing, Vec::new(), Vec::new()));
        Self {
            accounts,
            behaviours: BTreeMap::new(),
            by_hash: HashMap::from([(genesis.hash, 0)]),
            blocks: VecDeque::from([genesis]),
            kept_txs: 0,
            orphans: VecDeque::new(),
            places: HashMap::new(),
            pools: vec![Pool::new(config.pool.clone())],
            in_flight: VecDeque::new(),
            safe_mark: 0,
            finalized_mark: 0,
            forks: 0,
            next_base_fee_override: None,
            rng: Rng::new(config.seed),
            config,
        }
    }

    pub fn config(&self) -> &ChainConfig {
        &self.config
    }

    pub fn reorgs(&self) -> u64 {
        self.forks
    }

    /// The accounts, with their past.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    pub fn pool(&self, pool: usize) -> &Pool {
        &self.pools[pool]
    }

    /// A pool, to change its limits or to throw something out.
    pub fn pool_mut(&mut self, pool: usize) -> &mut Pool {
        &mut self.pools[pool]
    }

    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// One more node with a pool of its own.
    pub fn add_pool(&mut self) -> usize {
        self.pools.push(Pool::new(self.config.pool.clone()));
        self.pools.len() - 1
    }

    /// The next block's requirements for a transaction.
    pub fn rules(&self) -> Rules {
        Rules {
            chain_id: self.config.chain_id,
            block_gas_limit: self.config.block_gas_limit,
            next_base_fee: self.next_base_fee(),
        }
    }

    /// Sends a transaction to one node at time `now_ms`; the others get it as that node's
    /// gossip delay says (see [`Self::gossip`]).
    pub fn submit(
        &mut self,
        pool: usize,
        tx: &Arc<Tx>,
        now_ms: u64,
    ) -> Result<Admission, Rejection> {
        let rules = self.rules();
        let account = self.accounts.now(tx.sender);
        let admission = self.pools[pool].admit(tx, &rules, account)?;
        match self.pools[pool].gossip_delay_ms {
            Some(0) => self.share(pool, tx),
            Some(delay_ms) if self.pools.len() > 1 && self.in_flight.len() < IN_FLIGHT_MAX => {
                let due_ms = now_ms.saturating_add(delay_ms);
                self.in_flight.push_back(InFlight { due_ms, from: pool, hash: tx.hash });
            }
            _ => {}
        }
        Ok(admission)
    }

    /// Delivers what is due by `now_ms`; says when the next is due.
    pub fn gossip(&mut self, now_ms: u64) -> Option<u64> {
        let (due, later) = std::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|flight: &InFlight| flight.due_ms <= now_ms);
        self.in_flight = later;
        let due: VecDeque<InFlight> = due;
        for flight in due {
            if let Some(tx) = self.pools[flight.from].get(&flight.hash).map(|p| p.tx.clone()) {
                self.share(flight.from, &tx);
            }
        }
        self.in_flight.iter().map(|flight| flight.due_ms).min()
    }

    /// Every other pool takes it by its own rules; what it refuses, it refuses in silence.
    fn share(&mut self, from: usize, tx: &Arc<Tx>) {
        let rules = self.rules();
        let account = self.accounts.now(tx.sender);
        for (at, pool) in self.pools.iter_mut().enumerate() {
            if at != from {
                let _ = pool.admit(tx, &rules, account);
            }
        }
    }

    /// Throws a transaction out of one pool.
    pub fn drop_pooled(&mut self, pool: usize, hash: &B256) -> bool {
        self.pools[pool].remove(hash).is_some()
    }

    /// Throws out each transaction of a pool with this probability.
    pub fn evict(&mut self, pool: usize, probability: f64) -> Vec<B256> {
        self.pools[pool].evict(probability, &mut self.rng)
    }

    pub fn set_behaviour(&mut self, address: Address, behaviour: Behaviour) {
        self.behaviours.insert(address, behaviour);
    }

    /// The behaviour of an address when called, if one was set.
    pub fn behaviour(&self, address: Address) -> Option<&Behaviour> {
        self.behaviours.get(&address)
    }

    /// Sets a balance by hand. It outlives reorgs, as no block made it.
    pub fn set_balance(&mut self, address: Address, balance: U256) {
        let number = self.head().number();
        self.accounts.edit_balance(number, address, balance);
    }

    /// The base fee of the next block, by hand; the one after it moves on from there.
    pub fn set_next_base_fee(&mut self, wei: u64) {
        if self.config.base_fee != BaseFee::Absent {
            self.next_base_fee_override = Some(wei);
        }
    }

    /// Changes the behaviour of the base fee from the next block on.
    pub fn set_base_fee(&mut self, base_fee: BaseFee) {
        self.config.base_fee = base_fee;
    }

    /// Changes the gas of a block from the next one on.
    pub fn set_block_gas_limit(&mut self, gas: u64) {
        self.config.block_gas_limit = gas;
    }

    /// The next block's base fee, on a chain that has one.
    pub fn next_base_fee(&self) -> Option<u64> {
        let header = &self.head().header;
        let moved = |wei| gas::next_base_fee(wei, header.gas_used, header.gas_limit);
        match (self.config.base_fee, self.next_base_fee_override) {
            (BaseFee::Absent, _) => None,
            (_, Some(wei)) | (BaseFee::Fixed(wei), None) => Some(wei),
            (BaseFee::Moving(first), None) => Some(header.base_fee_per_gas.map_or(first, moved)),
        }
    }
}
