//! A chain in memory that follows the rules that the engine relies on, and can be broken. Its
//! "signatures" are the transaction itself: nobody here forges any.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::watch;
use tollgate_model::answer::AnswerClass;
use tollgate_model::diagnose::EndpointWord;
use tollgate_model::port::Fees;
use tollgate_model::port::MinedIn;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockRef, BlockTag, Call, Chain, ChainUnavailable, FeeQuote, SendAnswer,
    Sighting, SlotSearch, Speed, Trial,
};
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft, TxKind};
use tollgate_model::{
    Address, B256, Bytes, ChainId, GasPrice, Nonce, Text, TxHash, U256, Wei, keccak256,
};

/// A transaction as the fake encodes it: sender, nonce, and what makes it differ from others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FakeTx {
    /// Who pays.
    pub from: Address,
    /// Its slot.
    pub nonce: u64,
    /// How much.
    pub value: U256,
    /// To whom.
    pub to: Option<Address>,
}

fn encode(tx: &FakeTx) -> Bytes {
    let mut bytes = tx.from.to_vec();
    bytes.extend(tx.nonce.to_be_bytes());
    bytes.extend(tx.value.to_be_bytes::<32>());
    bytes.extend(tx.to.unwrap_or_default());
    bytes.into()
}

fn decode(raw: &Bytes) -> FakeTx {
    FakeTx {
        from: Address::from_slice(&raw[..20]),
        nonce: u64::from_be_bytes(raw[20..28].try_into().unwrap()),
        value: U256::from_be_slice(&raw[28..60]),
        to: Some(Address::from_slice(&raw[60..80])),
    }
}

/// The hash of an encoded transaction.
pub fn hash_of(raw: &Bytes) -> TxHash {
    keccak256(raw)
}

/// Signs for anybody.
pub struct FakeSigner(
    /// The accounts that it has.
    pub Vec<Address>,
);

#[async_trait]
impl Signer for FakeSigner {
    fn accounts(&self) -> Vec<Address> {
        self.0.clone()
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        let FakeTx { from, nonce, value, to } = decode(raw);
        let nonce = Nonce::new(nonce).map_err(|error| SignError::Invalid(error.to_string()))?;
        let price = GasPrice::from_wei(1).unwrap_or_default();
        let fees = Fees { gas_limit: 21_000, max_fee: price, max_priority_fee: Some(price) };
        let (value, data, kind) = (Wei(value), Bytes::new(), TxKind::DynamicFee);
        Ok(TxDraft { chain_id, from, nonce, to, value, data, access_list: vec![], fees, kind })
    }

    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        let sign = |draft: TxDraft| {
            let TxDraft { from, nonce, value, to, .. } = draft;
            let raw = encode(&FakeTx { from, nonce: nonce.get(), value: value.0, to });
            Ok(SignedTx { tx_hash: hash_of(&raw), raw })
        };
        drafts.into_iter().map(sign).collect()
    }
}

#[derive(Default)]
struct State {
    blocks: Vec<(BlockRef, Vec<(TxHash, FakeTx)>)>,
    pool: BTreeMap<(Address, u64), (TxHash, FakeTx)>,
    forks: u64,
    lose_answers: usize,
    refuses_gaps: bool,
    reverting: HashSet<Address>,
    sends: HashMap<TxHash, usize>,
}

/// The chain.
pub struct FakeChain {
    state: Mutex<State>,
    head: watch::Sender<BlockRef>,
}

impl Default for FakeChain {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeChain {
    /// A chain with nothing but its first block.
    pub fn new() -> Self {
        let genesis = BlockRef { number: 0, hash: block_hash(0, 0), parent: B256::ZERO };
        let state = State { blocks: vec![(genesis, vec![])], ..State::default() };
        Self { state: Mutex::new(state), head: watch::Sender::new(genesis) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Mines a block with everything that can go in.
    pub fn mine(&self) {
        let mut state = self.lock();
        state.mine(true);
        self.head.send_replace(state.blocks.last().unwrap().0);
    }

    /// Replaces the last `depth` blocks by as many and one more; their transactions come back in
    /// the last of them, go back to the pool, or are lost.
    pub fn reorg(&self, depth: usize, fate: Fate) {
        let mut state = self.lock();
        let at = state.blocks.len() - depth;
        let undone = state.blocks.split_off(at);
        state.forks += 1;
        for (hash, tx) in undone.into_iter().flat_map(|(_, txs)| txs) {
            if fate != Fate::Lost {
                state.pool.insert((tx.from, tx.nonce), (hash, tx));
            }
        }
        for n in 0..=depth {
            state.mine(fate == Fate::BackInTheChain && n == depth);
        }
        self.head.send_replace(state.blocks.last().unwrap().0);
    }

    /// The next sends are accepted, and their answers lost.
    pub fn lose_answers(&self, count: usize) {
        self.lock().lose_answers = count;
    }

    /// From now on a transaction whose predecessor is missing is refused.
    pub fn refuse_gaps(&self) {
        self.lock().refuses_gaps = true;
    }

    /// Drops everything that waits to be mined.
    pub fn forget_pool(&self) {
        self.lock().pool.clear();
    }

    /// How often a transaction was handed over.
    pub fn sends(&self, hash: TxHash) -> usize {
        self.lock().sends.get(&hash).copied().unwrap_or_default()
    }

    /// Calls to an address are mined, and fail.
    pub fn revert_calls_to(&self, to: Address) {
        self.lock().reverting.insert(to);
    }

    /// All mined transactions of an account, in order.
    pub fn mined(&self, from: Address) -> Vec<FakeTx> {
        let state = self.lock();
        let all = state.blocks.iter().flat_map(|(_, txs)| txs);
        all.map(|(_, tx)| tx.clone()).filter(|tx| tx.from == from).collect()
    }

    /// How many transactions wait to be mined.
    pub fn pooled(&self) -> usize {
        self.lock().pool.len()
    }
}

/// What becomes of the transactions of blocks that are replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// They are mined again, in another block.
    BackInTheChain,
    /// They wait to be mined again.
    BackInThePool,
    /// Nobody has them any more.
    Lost,
}

fn block_hash(number: u64, fork: u64) -> B256 {
    keccak256([number.to_be_bytes(), fork.to_be_bytes()].concat())
}

impl State {
    fn count(&self, from: Address) -> u64 {
        let all = self.blocks.iter().flat_map(|(_, txs)| txs);
        all.filter(|(_, tx)| tx.from == from).count() as u64
    }

    fn pending(&self, from: Address) -> u64 {
        let mut next = self.count(from);
        while self.pool.contains_key(&(from, next)) {
            next += 1;
        }
        next
    }

    fn mine(&mut self, with_pool: bool) {
        let parent = self.blocks.last().unwrap().0;
        let number = parent.number + 1;
        let mut txs = Vec::new();
        let accounts: HashSet<Address> = self.pool.keys().map(|(from, _)| *from).collect();
        for from in accounts.into_iter().filter(|_| with_pool) {
            let mut next = self.count(from);
            while let Some(tx) = self.pool.remove(&(from, next)) {
                txs.push(tx);
                next += 1;
            }
        }
        let at = BlockRef { number, hash: block_hash(number, self.forks), parent: parent.hash };
        self.blocks.push((at, txs));
    }

    fn send(&mut self, raw: &Bytes) -> AnswerClass {
        let (hash, tx) = (hash_of(raw), decode(raw));
        *self.sends.entry(hash).or_default() += 1;
        let key = (tx.from, tx.nonce);
        if self.pool.get(&key).is_some_and(|(known, _)| *known == hash) {
            return AnswerClass::AlreadyKnown;
        }
        if tx.nonce < self.count(tx.from) {
            return AnswerClass::NonceTooLow;
        }
        if self.pool.contains_key(&key) {
            return AnswerClass::ReplacementUnderpriced;
        }
        if self.refuses_gaps && tx.nonce > self.pending(tx.from) {
            return AnswerClass::NonceTooHigh;
        }
        self.pool.insert(key, (hash, tx));
        if self.lose_answers > 0 {
            self.lose_answers -= 1;
            return AnswerClass::Unknown;
        }
        AnswerClass::Accepted
    }

    fn receipt(&self, hash: TxHash) -> Option<MinedIn> {
        self.blocks.iter().find_map(|(at, txs)| {
            let (_, tx) = txs.iter().find(|(known, _)| *known == hash)?;
            let reverts = tx.to.is_some_and(|to| self.reverting.contains(&to));
            Some(MinedIn {
                tx_hash: hash,
                block_number: at.number,
                block_hash: at.hash,
                gas_used: 21_000,
                succeeded: !reverts,
                revert_reason: reverts.then(|| Text::lossy("no")),
            })
        })
    }
}

#[async_trait]
impl Chain for FakeChain {
    fn chain_id(&self) -> ChainId {
        ChainId::new(7).unwrap()
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        let mut head = self.head.subscribe();
        let changed = head.wait_for(|head| Some(*head) != known).await;
        changed.map(|head| *head).map_err(|error| ChainUnavailable(error.to_string()))
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        let state = self.lock();
        let number = match tag {
            BlockTag::Number(number) => number,
            BlockTag::Latest | BlockTag::Safe | BlockTag::Finalized => {
                state.blocks.len() as u64 - 1
            }
        };
        Ok(state.blocks.get(number as usize).map(|(at, txs)| Block {
            at: *at,
            transactions: txs.iter().map(|(hash, _)| *hash).collect(),
        }))
    }

    async fn receipts(
        &self,
        block: &BlockRef,
        of: &[TxHash],
    ) -> Result<Vec<MinedIn>, ChainUnavailable> {
        let state = self.lock();
        let receipts = of.iter().filter_map(|hash| state.receipt(*hash));
        Ok(receipts.filter(|receipt| receipt.block_hash == block.hash).collect())
    }

    async fn receipt(&self, of: TxHash) -> Result<Option<MinedIn>, ChainUnavailable> {
        Ok(self.lock().receipt(of))
    }

    async fn sighting(&self, _of: TxHash) -> Result<Option<Sighting>, ChainUnavailable> {
        Ok(None)
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        let state = self.lock();
        let nonce = |count| Nonce::new(count).unwrap();
        Ok(AccountCounts { mined: nonce(state.count(of)), pending: nonce(state.pending(of)) })
    }

    async fn count_at(&self, _of: Address, _block: u64) -> Result<Nonce, ChainUnavailable> {
        Err(ChainUnavailable("not asked yet".to_owned()))
    }

    async fn search(&self, _of: Address, _nonce: Nonce, _attempts: &[TxHash]) -> SlotSearch {
        SlotSearch::default()
    }

    async fn pools(&self, _of: Address, _attempts: &[TxHash]) -> Vec<EndpointWord> {
        Vec::new()
    }

    async fn occupant(
        &self,
        _of: Address,
        _nonce: Nonce,
        _lookback: u64,
    ) -> Result<Option<TxHash>, ChainUnavailable> {
        Ok(None)
    }

    async fn balance(&self, _of: Address) -> Result<Wei, ChainUnavailable> {
        Ok(Wei(U256::MAX))
    }

    async fn fee_quote(&self, _speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        let price = GasPrice::from_wei(1_000_000_000).unwrap();
        Ok(FeeQuote { base_fee: None, max_fee: price, max_priority_fee: None })
    }

    async fn try_call(&self, _call: &Call) -> Result<Trial, ChainUnavailable> {
        Ok(Trial::Gas(21_000))
    }

    async fn send(&self, raw: &Bytes) -> SendAnswer {
        let class = self.lock().send(raw);
        SendAnswer { class, said: class.name().to_owned() }
    }
}
