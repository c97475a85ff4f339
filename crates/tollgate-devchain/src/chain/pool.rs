//! A mempool: who waits, in which order they can be mined, and who goes when it is full.
//!
//! Owns the waiting transactions of one node. Admission is in [`admit`]; nothing here runs or
//! mines a transaction. Whether one is *pending* or *queued* follows from the account's nonce: the
//! unbroken run of nonces from it is pending, the rest is queued.

mod admit;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};

use super::config::PoolLimits;
use super::rng::Rng;
use super::state::Accounts;
use super::tx::Tx;

pub use admit::{Admission, Rules};

/// A transaction that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pooled {
    pub tx: Arc<Tx>,
    /// Its place in the order of arrival.
    pub arrival: u64,
}

/// The cheapest first; of equals the one that came last.
type Rank = (u128, u128, Reverse<u64>, B256);

fn rank(pooled: &Pooled) -> Rank {
    (pooled.tx.tip_cap(), pooled.tx.fee_cap(), Reverse(pooled.arrival), pooled.tx.hash)
}

/// One sender's transactions by nonce.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Queue {
    txs: BTreeMap<u64, Pooled>,
    /// The most that all of them can cost.
    cost: U256,
    /// The first nonce from the account's on that is not here.
    next: u64,
}

impl Queue {
    /// Finds `next` anew, for an account with this nonce.
    fn recount(&mut self, nonce: u64) {
        self.next = self.run_end(nonce);
    }

    /// The first nonce from `nonce` on that is not here.
    fn run_end(&self, nonce: u64) -> u64 {
        let held = self.txs.range(nonce..).map(|(held, _)| *held);
        held.zip(nonce..)
            .take_while(|(held, wanted)| held == wanted)
            .last()
            .map_or(nonce, |(last, _)| last + 1)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    queues: BTreeMap<Address, Queue>,
    by_hash: HashMap<B256, (Address, u64)>,
    by_rank: BTreeSet<Rank>,
    arrivals: u64,
    pub limits: PoolLimits,
    /// Its transactions reach block producers.
    pub is_mined_from: bool,
    /// The delay until the other pools get a transaction, in milliseconds; `None`: never.
    pub gossip_delay_ms: Option<u64>,
}

impl Pool {
    /// An empty pool whose transactions reach producers and the other pools at once.
    pub fn new(limits: PoolLimits) -> Self {
        Self {
            queues: BTreeMap::new(),
            by_hash: HashMap::new(),
            by_rank: BTreeSet::new(),
            arrivals: 0,
            limits,
            is_mined_from: true,
            gossip_delay_ms: Some(0),
        }
    }

    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    pub fn get(&self, hash: &B256) -> Option<&Pooled> {
        let (sender, nonce) = self.by_hash.get(hash)?;
        self.at(*sender, *nonce)
    }

    pub fn at(&self, sender: Address, nonce: u64) -> Option<&Pooled> {
        self.queues.get(&sender)?.txs.get(&nonce)
    }

    /// Everybody with something here, in the order of addresses.
    pub fn senders(&self) -> impl Iterator<Item = Address> + '_ {
        self.queues.keys().copied()
    }

    /// A sender's transactions in the order of nonces.
    pub fn of(&self, sender: Address) -> impl Iterator<Item = &Pooled> + '_ {
        self.queues.get(&sender).into_iter().flat_map(|queue| queue.txs.values())
    }

    /// The nonce after the unbroken run from the account's own (`nonce`).
    pub fn next_nonce(&self, sender: Address, nonce: u64) -> u64 {
        self.queues.get(&sender).map_or(nonce, |queue| queue.next.max(nonce))
    }

    /// [`Self::next_nonce`] as if the account stood at `nonce`, wherever it stands now.
    pub fn next_nonce_from(&self, sender: Address, nonce: u64) -> u64 {
        self.queues.get(&sender).map_or(nonce, |queue| queue.run_end(nonce))
    }

    /// The numbers of pending and of queued transactions.
    pub fn counts(&self) -> (usize, usize) {
        let pending: usize =
            self.queues.values().map(|queue| queue.txs.range(..queue.next).count()).sum();
        (pending, self.len() - pending)
    }

    pub fn remove(&mut self, hash: &B256) -> Option<Pooled> {
        let (sender, nonce) = self.by_hash.remove(hash)?;
        let queue = self.queues.get_mut(&sender)?;
        let pooled = queue.txs.remove(&nonce)?;
        queue.cost = queue.cost.saturating_sub(pooled.tx.cost());
        if nonce < queue.next {
            queue.next = nonce;
        }
        if queue.txs.is_empty() {
            self.queues.remove(&sender);
        }
        self.by_rank.remove(&rank(&pooled));
        Some(pooled)
    }

    /// Throws out each with this probability; the victims follow from the generator.
    pub fn evict(&mut self, probability: f64, rng: &mut Rng) -> Vec<B256> {
        let all: Vec<B256> = self.queues.values().flat_map(hashes).collect();
        let victims: Vec<B256> = all.into_iter().filter(|_| rng.chance(probability)).collect();
        victims.iter().for_each(|hash| drop(self.remove(hash)));
        victims
    }

    /// Adapts to the chain as it now is: drops what is mined, superseded or can't be paid for.
    pub(super) fn follow(&mut self, accounts: &Accounts) {
        let senders: Vec<Address> = self.senders().collect();
        for sender in senders {
            let account = accounts.now(sender);
            let Some(queue) = self.queues.get_mut(&sender) else { continue };
            let is_poor = !self.limits.keep_unpayable && queue.cost > account.balance;
            let gone: Vec<B256> = queue
                .txs
                .values()
                .take_while(|pooled| is_poor || pooled.tx.nonce() < account.nonce)
                .filter(|pooled| {
                    pooled.tx.nonce() < account.nonce
                        || is_poor && pooled.tx.cost() > account.balance
                })
                .map(|pooled| pooled.tx.hash)
                .collect();
            gone.iter().for_each(|hash| drop(self.remove(hash)));
            if let Some(queue) = self.queues.get_mut(&sender) {
                // Cheap when nothing went back: the run goes on from where it was.
                if queue.next < account.nonce || !queue.txs.contains_key(&account.nonce) {
                    queue.recount(account.nonce);
                }
            }
        }
    }

    /// Counts every run anew: nonces may have gone back.
    pub(super) fn follow_reorg(&mut self, accounts: &Accounts) {
        self.follow(accounts);
        for (sender, queue) in &mut self.queues {
            queue.recount(accounts.now(*sender).nonce);
        }
    }

    /// The cheapest of all.
    fn cheapest(&self) -> Option<&Pooled> {
        self.by_rank.first().and_then(|(.., hash)| self.get(hash))
    }

    fn insert(&mut self, tx: Arc<Tx>, account_nonce: u64) {
        let pooled = Pooled { arrival: self.arrivals, tx };
        self.arrivals += 1;
        let (sender, nonce) = (pooled.tx.sender, pooled.tx.nonce());
        self.by_hash.insert(pooled.tx.hash, (sender, nonce));
        self.by_rank.insert(rank(&pooled));
        let queue = self.queues.entry(sender).or_default();
        queue.cost = queue.cost.saturating_add(pooled.tx.cost());
        queue.next = queue.next.max(account_nonce);
        queue.txs.insert(nonce, pooled);
        if nonce == queue.next {
            let from = queue.next;
            queue.recount(from);
        }
    }
}

fn hashes(queue: &Queue) -> impl Iterator<Item = B256> + '_ {
    queue.txs.values().map(|pooled| pooled.tx.hash)
}
