//! The state of the fake chain: blocks, a pool, accounts, and the rules between them.

use std::collections::{BTreeMap, HashMap, HashSet};

use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::BlockRef;
use tollgate_model::port::{ReceiptDetails, TxReceipt};
use tollgate_model::{Address, B256, Bytes, GasPrice, Text, TxHash, U256, keccak256};

use super::tx::{FakeTx, GAS_USED, decode, hash_of};

/// TxMatch transactions something is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxMatch {
    /// All of them.
    Any,
    /// Those with this nonce, from any account.
    Nonce(u64),
    /// Those that pay this much.
    Value(u64),
    /// Calls of this address.
    To(Address),
    /// This very one.
    Hash(TxHash),
}

impl TxMatch {
    fn matches(self, hash: TxHash, tx: &FakeTx) -> bool {
        match self {
            Self::Any => true,
            Self::Nonce(nonce) => tx.nonce == nonce,
            Self::Value(value) => tx.value == U256::from(value),
            Self::To(to) => tx.to == Some(to),
            Self::Hash(known) => hash == known,
        }
    }
}

/// A block with its transactions.
pub(super) struct FakeBlock {
    pub(super) at: BlockRef,
    base_fee: Option<GasPrice>,
    pub(super) txs: Vec<(TxHash, FakeTx)>,
}

/// An answer that is given instead of the true one.
pub(super) struct ScriptedAnswer {
    pub(super) matching: TxMatch,
    pub(super) class: AnswerClass,
    pub(super) left: usize,
}

/// One of several endpoints.
#[derive(Clone, Copy, Default)]
pub(super) struct Endpoint {
    pub(super) lags_by: usize,
    pub(super) is_silent: bool,
}

pub(super) struct State {
    pub(super) blocks: Vec<FakeBlock>,
    pub(super) pool: BTreeMap<(Address, u64), (TxHash, FakeTx)>,
    pub(super) forks: u64,
    pub(super) lose_answers: usize,
    pub(super) lose_batches: usize,
    pub(super) refuses_gaps: bool,
    pub(super) reverting: HashSet<Address>,
    pub(super) sends: HashMap<TxHash, usize>,
    pub(super) base_fee: Option<GasPrice>,
    /// The gas of a block, if there is a limit.
    pub(super) block_gas: Option<u64>,
    pub(super) tip: GasPrice,
    pub(super) scripts: Vec<ScriptedAnswer>,
    pub(super) held: Vec<TxMatch>,
    /// The balance of an account, and the number of blocks when it was set.
    pub(super) balances: HashMap<Address, (U256, usize)>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) hides_pools: bool,
    pub(super) loses_receipts: bool,
    pub(super) hangs_reasons: bool,
    pub(super) outsiders: u64,
    /// The gas that every call is estimated to use.
    pub(super) estimate: u64,
    /// Where each mined transaction is: its block, and its place there.
    pub(super) places: HashMap<TxHash, (usize, usize)>,
    /// The slot of everything that the pool ever took.
    slots: HashMap<TxHash, (Address, u64)>,
    /// How far above the true head the one is that is announced.
    pub(super) announced_ahead: u64,
    /// Newest blocks that are neither announced nor shown.
    pub(super) hidden: usize,
    /// Newest blocks that counts do not know yet.
    pub(super) counts_lag: usize,
    /// There is no safe and no finalized block.
    pub(super) lacks_tags: bool,
    /// The block that is safe and finalized, where it is not the head.
    pub(super) tag: Option<u64>,
    /// Receipts in blocks that were replaced, matching the first endpoint still shows in searches.
    pub(super) orphaned_receipts: HashMap<TxHash, TxReceipt>,
}

/// The first block.
pub(super) fn genesis() -> BlockRef {
    BlockRef { number: 0, hash: block_hash(0, 0), parent: B256::ZERO }
}

fn block_hash(number: u64, fork: u64) -> B256 {
    keccak256([number.to_be_bytes(), fork.to_be_bytes()].concat())
}

impl State {
    pub(super) fn new(tip: GasPrice) -> Self {
        Self {
            blocks: vec![FakeBlock { at: genesis(), base_fee: None, txs: Vec::new() }],
            pool: BTreeMap::new(),
            forks: 0,
            lose_answers: 0,
            lose_batches: 0,
            refuses_gaps: false,
            reverting: HashSet::new(),
            sends: HashMap::new(),
            base_fee: None,
            block_gas: None,
            tip,
            scripts: Vec::new(),
            held: Vec::new(),
            balances: HashMap::new(),
            endpoints: vec![Endpoint::default()],
            hides_pools: false,
            loses_receipts: false,
            hangs_reasons: false,
            outsiders: 0,
            estimate: GAS_USED,
            places: HashMap::new(),
            slots: HashMap::new(),
            announced_ahead: 0,
            hidden: 0,
            counts_lag: 0,
            lacks_tags: false,
            tag: None,
            orphaned_receipts: HashMap::new(),
        }
    }

    pub(super) fn head(&self) -> BlockRef {
        self.blocks.last().unwrap().at
    }

    /// The blocks that an endpoint has; the first one always.
    pub(super) fn seen_by(&self, endpoint: Endpoint) -> &[FakeBlock] {
        &self.blocks[..self.blocks.len().saturating_sub(endpoint.lags_by).max(1)]
    }

    /// The blocks that are shown; the first one always.
    pub(super) fn shown(&self) -> &[FakeBlock] {
        &self.blocks[..self.blocks.len().saturating_sub(self.hidden).max(1)]
    }

    pub(super) fn count(&self, from: Address) -> u64 {
        count_in(&self.blocks, from)
    }

    pub(super) fn pending(&self, from: Address) -> u64 {
        let mut next = self.count(from);
        while self.pool.contains_key(&(from, next)) {
            next += 1;
        }
        next
    }

    /// An account's balance; unlimited unless a test has set it.
    pub(super) fn balance(&self, of: Address) -> U256 {
        let Some((had, blocks)) = self.balances.get(&of) else { return U256::MAX };
        let since = self.blocks.iter().skip(*blocks);
        let paid = since.flat_map(|block| block.txs.iter().map(|(_, tx)| (block.base_fee, tx)));
        paid.filter(|(_, tx)| tx.from == of)
            .fold(*had, |left, (base_fee, tx)| left.saturating_sub(tx.spent(base_fee)))
    }

    pub(super) fn mine(&mut self, with_pool: bool) {
        let accounts: HashSet<Address> = self.pool.keys().map(|(from, _)| *from).collect();
        let mut txs = Vec::new();
        for from in accounts.into_iter().filter(|_| with_pool) {
            let (mut next, mut left) = (self.count(from), self.balance(from));
            while let Some((hash, tx)) = self.pool.get(&(from, next)) {
                let is_held = self.held.iter().any(|matching| matching.matches(*hash, tx));
                let is_cheap = self.base_fee.is_some_and(|base_fee| tx.fees.max_fee < base_fee);
                if is_held || is_cheap || tx.cost() > left {
                    break;
                }
                left = left.saturating_sub(tx.spent(self.base_fee));
                txs.extend(self.pool.remove(&(from, next)));
                next += 1;
            }
        }
        self.seal(txs);
    }

    /// Adds a block with these in it, and drops what it makes impossible.
    pub(super) fn seal(&mut self, txs: Vec<(TxHash, FakeTx)>) {
        let parent = self.head();
        let number = parent.number + 1;
        let at = BlockRef { number, hash: block_hash(number, self.forks), parent: parent.hash };
        for (_, tx) in &txs {
            self.pool.remove(&(tx.from, tx.nonce));
        }
        let block = self.blocks.len();
        let placed = txs.iter().enumerate().map(|(place, (hash, _))| (*hash, (block, place)));
        self.places.extend(placed);
        self.blocks.push(FakeBlock { at, base_fee: self.base_fee, txs });
    }

    pub(super) fn send(&mut self, raw: &Bytes) -> AnswerClass {
        let hash = hash_of(raw);
        *self.sends.entry(hash).or_default() += 1;
        let Some(tx) = decode(raw) else { return AnswerClass::Invalid };
        let mut scripts = self.scripts.iter_mut();
        if let Some(script) =
            scripts.find(|script| script.left > 0 && script.matching.matches(hash, &tx))
        {
            script.left -= 1;
            return script.class;
        }
        match self.admit(hash, tx) {
            AnswerClass::Accepted if self.lose_answers > 0 => {
                self.lose_answers -= 1;
                AnswerClass::Unknown
            }
            class => class,
        }
    }

    /// The pool's answer to a transaction, which it keeps if it accepts it.
    pub(super) fn admit(&mut self, hash: TxHash, tx: FakeTx) -> AnswerClass {
        let key = (tx.from, tx.nonce);
        let stands = self.pool.get(&key);
        if stands.is_some_and(|(known, _)| *known == hash) {
            return AnswerClass::AlreadyKnown;
        }
        if tx.nonce < self.count(tx.from) {
            return AnswerClass::NonceTooLow;
        }
        if self.balances.contains_key(&tx.from) {
            // Together with what else the account has in the pool, but for what it replaces.
            let others = self.pool.iter().filter(|(at, _)| at.0 == tx.from && **at != key);
            let costs = others.map(|(_, (_, other))| other.cost());
            if costs.fold(tx.cost(), U256::saturating_add) > self.balance(tx.from) {
                return AnswerClass::InsufficientFunds;
            }
        }
        if stands.is_some_and(|(_, other)| !tx.replaces(other)) {
            return AnswerClass::ReplacementUnderpriced;
        }
        if self.refuses_gaps && tx.nonce > self.pending(tx.from) {
            return AnswerClass::NonceTooHigh;
        }
        self.pool.insert(key, (hash, tx));
        self.slots.insert(hash, key);
        AnswerClass::Accepted
    }

    /// Whether this very transaction waits to be mined.
    pub(super) fn is_pooled(&self, hash: TxHash) -> bool {
        let held = self.slots.get(&hash).and_then(|slot| self.pool.get(slot));
        held.is_some_and(|(held, _)| *held == hash)
    }

    pub(super) fn receipt(&self, hash: TxHash) -> Option<TxReceipt> {
        self.receipt_in(&self.blocks, hash)
    }

    pub(super) fn receipt_in(&self, blocks: &[FakeBlock], hash: TxHash) -> Option<TxReceipt> {
        let (block, place) = self.places.get(&hash)?;
        let FakeBlock { at, txs, .. } = blocks.get(*block)?;
        let (_, tx) = txs.get(*place)?;
        let reverts = tx.to.is_some_and(|to| self.reverting.contains(&to));
        Some(TxReceipt {
            tx_hash: hash,
            block_number: at.number,
            block_hash: at.hash,
            gas_used: GAS_USED,
            succeeded: !reverts,
            revert_reason: reverts.then(|| Text::lossy("no")),
            details: ReceiptDetails::default(),
        })
    }
}

/// How many of an account's transactions these blocks hold.
pub(super) fn count_in(blocks: &[FakeBlock], from: Address) -> u64 {
    blocks.iter().flat_map(|block| &block.txs).filter(|(_, tx)| tx.from == from).count() as u64
}
