//! A chain in memory that follows the rules that the engine relies on, and can be broken. Its
//! "signatures" are the transaction itself: nobody here forges any.
//!
//! Unless a test says otherwise there is one endpoint, no base fee, everybody is rich, and a block
//! takes all that has its turn. Nothing is mined by itself.

mod faults;
mod port;
mod state;
mod tx;

use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{Address, Bytes, GasPrice, TxHash, U256};

use faults::Faults;
use state::{Endpoint, ScriptedAnswer, State, genesis};

pub use faults::Query;
pub use state::TxMatch;
pub use tx::{FakeSigner, FakeTx, decode, encode, hash_of};

/// The tip that is asked where there is a base fee.
const TIP_WEI: u128 = 1_000_000_000;
/// Where what outsiders send goes.
const OUTSIDERS_FRIEND: Address = Address::repeat_byte(0xf0);

pub struct FakeChain {
    state: Mutex<State>,
    head: watch::Sender<BlockRef>,
    faults: Faults,
}

impl Default for FakeChain {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the transactions of replaced blocks go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reorged {
    /// They are mined again, in another block.
    Remined,
    /// They are in the pool.
    Pooled,
    /// No pool and no block has them.
    Dropped,
}

fn price(wei: u128) -> GasPrice {
    GasPrice::from_wei(wei).unwrap()
}

/// Blocks, and what is in them.
impl FakeChain {
    /// A chain with nothing but its first block.
    pub fn new() -> Self {
        let state = State::new(price(TIP_WEI));
        let head = watch::Sender::new(genesis());
        Self { state: Mutex::new(state), head, faults: Faults::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Mines a block with everything that can go in.
    pub fn mine(&self) {
        let mut state = self.lock();
        state.mine(true);
        self.head.send_replace(state.head());
    }

    /// Replaces the last `depth` blocks by as many and one more; their transactions come back in
    /// the last of them, go back to the pool, or are lost.
    pub fn reorg(&self, depth: usize, txs: Reorged) {
        let mut state = self.lock();
        let at = state.blocks.len() - depth;
        let undone = state.blocks.split_off(at);
        state.forks += 1;
        for (hash, tx) in undone.into_iter().flat_map(|block| block.txs) {
            state.places.remove(&hash);
            if txs != Reorged::Dropped {
                state.pool.insert((tx.from, tx.nonce), (hash, tx));
            }
        }
        for n in 0..=depth {
            state.mine(txs == Reorged::Remined && n == depth);
        }
        self.head.send_replace(state.head());
    }

    /// How many blocks stand on the first one.
    pub fn height(&self) -> usize {
        self.lock().blocks.len() - 1
    }

    /// All mined transactions of an account, in order.
    pub fn mined(&self, from: Address) -> Vec<FakeTx> {
        let state = self.lock();
        let all = state.blocks.iter().flat_map(|block| &block.txs);
        all.map(|(_, tx)| tx.clone()).filter(|tx| tx.from == from).collect()
    }

    /// Calls to an address are mined, and fail; no estimate of them succeeds.
    pub fn revert_calls_to(&self, to: Address) {
        self.lock().reverting.insert(to);
    }

    /// These are not mined, and so nothing of the same account behind them.
    pub fn hold(&self, matching: TxMatch) {
        self.lock().held.push(matching);
    }

    /// Ends a [`Self::hold`].
    pub fn release(&self, matching: TxMatch) {
        self.lock().held.retain(|held| *held != matching);
    }
}

/// The pool, and what sends are answered.
impl FakeChain {
    /// How many transactions wait to be mined.
    pub fn pooled(&self) -> usize {
        self.lock().pool.len()
    }

    /// The pooled transactions of an account, by nonce.
    pub fn pooled_from(&self, from: Address) -> Vec<FakeTx> {
        let state = self.lock();
        let all = state.pool.range((from, 0)..=(from, u64::MAX));
        all.map(|(_, (_, tx))| tx.clone()).collect()
    }

    /// Drops everything that waits to be mined.
    pub fn forget_pool(&self) {
        self.lock().pool.clear();
    }

    /// Drops one that waits to be mined; whether it was there.
    pub fn evict(&self, hash: TxHash) -> bool {
        let mut state = self.lock();
        let before = state.pool.len();
        state.pool.retain(|_, (held, _)| *held != hash);
        state.pool.len() < before
    }

    /// How often a transaction was handed over.
    pub fn sends(&self, hash: TxHash) -> usize {
        self.lock().sends.get(&hash).copied().unwrap_or_default()
    }

    /// How often anything was handed over.
    pub fn all_sends(&self) -> usize {
        self.lock().sends.values().sum()
    }

    /// The next sends are accepted, and their answers lost.
    pub fn lose_answers(&self, count: usize) {
        self.lock().lose_answers = count;
    }

    /// The next batches of sends are taken as they would be, and their answers lost.
    pub fn lose_batches(&self, count: usize) {
        self.lock().lose_batches = count;
    }

    /// The next send is answered so, and is not taken, whatever the answer says.
    pub fn answer_next(&self, class: AnswerClass) {
        self.answer(TxMatch::Any, class, 1);
    }

    /// The next `times` sends of these are answered so, and are not taken. Earlier scripts
    /// come first.
    pub fn answer(&self, matching: TxMatch, class: AnswerClass, times: usize) {
        self.lock().scripts.push(ScriptedAnswer { matching, class, left: times });
    }

    /// Calls of an address are answered as if no node could take them.
    pub fn reject_calls_to(&self, to: Address) {
        self.answer(TxMatch::To(to), AnswerClass::Invalid, usize::MAX);
    }

    /// Ends all answers that are given in the place of the true ones.
    pub fn answer_truly(&self) {
        self.lock().scripts.clear();
    }

    /// A transaction whose predecessor is missing is refused.
    pub fn refuse_gaps(&self) {
        self.lock().refuses_gaps = true;
    }
}

/// Money.
impl FakeChain {
    /// There is a base fee, of so much; what offers less stays in the pool.
    pub fn set_base_fee(&self, wei: u128) {
        self.lock().base_fee = Some(price(wei));
    }

    /// A block has so much gas, and everybody knows it.
    pub fn set_block_gas(&self, gas: u64) {
        self.lock().block_gas = Some(gas);
    }

    /// Every call is estimated to use so much gas.
    pub fn set_estimate(&self, gas: u64) {
        self.lock().estimate = gas;
    }

    /// The tip that is quoted is so much. Blocks take less, too.
    pub fn set_tip(&self, wei: u128) {
        self.lock().tip = price(wei);
    }

    /// An account has so much, less what it pays; what it is paid is not counted. What
    /// it can't pay for is refused, alone or with what it has in the pool, and is not mined. A call
    /// that pays more than that is not estimated either.
    pub fn set_balance(&self, of: Address, wei: U256) {
        let mut state = self.lock();
        let blocks = state.blocks.len();
        state.balances.insert(of, (wei, blocks));
    }
}

/// Outsiders with the same key, and endpoints that see another part of the chain.
impl FakeChain {
    /// An outsider with the same key sends a transaction with this price, which is its tip, too.
    /// The pool's rules hold.
    pub fn outsider_sends(
        &self,
        from: Address,
        nonce: u64,
        max_fee_wei: u128,
    ) -> (TxHash, AnswerClass) {
        let mut state = self.lock();
        let (hash, tx) = state.outsiders_tx(from, nonce, price(max_fee_wei));
        (hash, state.admit(hash, tx))
    }

    /// An outsider with the same key has a transaction mined in the account's next slot, in a
    /// block of its own, whatever the pool holds there.
    pub fn outsider_mines(&self, from: Address) -> TxHash {
        let mut state = self.lock();
        let nonce = state.count(from);
        let (hash, tx) = state.outsiders_tx(from, nonce, price(TIP_WEI));
        state.seal(vec![(hash, tx)]);
        self.head.send_replace(state.head());
        hash
    }

    /// So many endpoints are asked when all are; none of them lags or is silent.
    pub fn set_endpoints(&self, count: usize) {
        self.lock().endpoints = vec![Endpoint::default(); count];
    }

    /// One of the endpoints has not seen the last blocks when all are asked.
    pub fn lag_endpoint(&self, index: usize, blocks: usize) {
        self.lock().endpoints[index].lags_by = blocks;
    }

    /// One of the endpoints gives no answer when all are asked, or gives them again.
    pub fn silence_endpoint(&self, index: usize, is_silent: bool) {
        self.lock().endpoints[index].is_silent = is_silent;
    }

    /// Whether endpoints find no receipt by its hash, as if their index lagged. Receipts
    /// of a block are not affected.
    pub fn lose_receipts(&self, loses: bool) {
        self.lock().loses_receipts = loses;
    }

    /// Whether receipts of failures in a block come without a reason, and who asks for one waits for
    /// ever.
    pub fn hang_reasons(&self, hangs: bool) {
        self.lock().hangs_reasons = hangs;
    }

    /// Heads are announced so many blocks above the true ones; no such block is there.
    pub fn announce_ahead(&self, blocks: u64) {
        self.lock().announced_ahead = blocks;
        self.head.send_modify(|_| {});
    }

    /// The newest blocks are neither announced nor shown, as by endpoints that lag. Counts
    /// and receipts by hash know them all the same.
    pub fn hide_newest(&self, blocks: usize) {
        self.lock().hidden = blocks;
        self.head.send_modify(|_| {});
    }

    /// Counts in the head do not know the newest blocks.
    pub fn lag_counts(&self, blocks: usize) {
        self.lock().counts_lag = blocks;
    }

    /// There is no safe and no finalized block.
    pub fn lack_tags(&self) {
        self.lock().lacks_tags = true;
    }

    /// This block is the safe and the finalized one, wherever the head is.
    pub fn set_tag(&self, number: u64) {
        self.lock().tag = Some(number);
    }

    /// The first endpoint shows the receipt of this transaction in searches, although its
    /// block was replaced.
    pub fn show_orphaned(&self, receipt: TxReceipt) {
        self.lock().orphaned_receipts.insert(receipt.tx_hash, receipt);
    }

    /// No endpoint shows its pool.
    pub fn hide_pools(&self) {
        self.lock().hides_pools = true;
    }
}

impl State {
    /// Another one each time.
    fn outsiders_tx(&mut self, from: Address, nonce: u64, max_fee: GasPrice) -> (TxHash, FakeTx) {
        self.outsiders += 1;
        let fees = Fees { gas_limit: 21_000, max_fee, max_priority_fee: None };
        let (to, data) = (Some(OUTSIDERS_FRIEND), Bytes::from(self.outsiders.to_be_bytes()));
        let tx = FakeTx { from, nonce, value: U256::ZERO, to, data, fees };
        (hash_of(&encode(&tx)), tx)
    }
}
