//! The dev chain's core behind the engine's chain port, with faults that tests script. Accounts need no
//! keys: their transactions carry the sender in the place of a signature.
//!
//! Unless a test says otherwise there is one endpoint, no base fee, everybody is rich, and a block
//! takes all that has its turn. Nothing is mined by itself.

mod faults;
mod port;
mod state;
mod tx;

use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use tollgate_devchain::chain::{BaseFee, Behaviour, Beyond, DroppedTxs, MAIN_POOL, Reorg};
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::TxReceipt;
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::{Address, TxHash, U256};

use faults::Faults;
use state::{Endpoint, Script, ScriptedAnswer, State};

pub use faults::Query;
pub use state::TxMatch;
pub use tx::{FakeSigner, FakeTx, decode, encode, hash_of};

pub struct FakeChain {
    state: Mutex<State>,
    /// Announces that the head may have changed.
    moved: watch::Sender<()>,
    faults: Faults,
}

impl Default for FakeChain {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of the transactions of replaced blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reorged {
    /// They are mined again, in another block.
    Remined,
    /// They are in the pool.
    Pooled,
    /// No pool and no block has them.
    Dropped,
}

/// Blocks and their transactions.
impl FakeChain {
    /// A chain with nothing but its first block.
    pub fn new() -> Self {
        let state = Mutex::new(State::new());
        Self { state, moved: watch::Sender::new(()), faults: Faults::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.lock().script);
    }

    /// Mines a block with everything that can go in.
    pub fn mine(&self) {
        self.lock().mine();
        self.moved.send_replace(());
    }

    /// Replaces the last `depth` blocks by as many and one more; their transactions come back in
    /// the last of them, go back to the pool, or are lost.
    pub fn reorg(&self, depth: usize, txs: Reorged) {
        let depth = depth as u64;
        let (dropped_txs, replacements) = match txs {
            Reorged::Remined => (DroppedTxs::Returned, depth),
            Reorged::Pooled => (DroppedTxs::Returned, depth + 1),
            Reorged::Dropped => (DroppedTxs::Dropped, depth + 1),
        };
        let mut state = self.lock();
        let reorg = Reorg { depth, replacements, dropped_txs, beyond: Beyond::Finalized };
        state.core.reorg(reorg, 0).unwrap();
        if txs == Reorged::Remined {
            state.mine();
        }
        self.moved.send_replace(());
    }

    /// The number of blocks on top of the first one.
    pub fn height(&self) -> usize {
        self.lock().core.head().number() as usize
    }

    /// All mined transactions of an account, in order.
    pub fn mined(&self, from: Address) -> Vec<FakeTx> {
        let state = self.lock();
        let all = state.core.blocks().flat_map(|block| &block.txs);
        all.filter(|tx| tx.sender == from).map(|tx| FakeTx::of(tx)).collect()
    }

    /// Calls to an address are mined, and fail; no estimate of them succeeds.
    pub fn revert_calls_to(&self, to: Address) {
        self.lock().core.set_behaviour(to, Behaviour::Revert("no".to_owned()));
    }

    /// These are not mined, and so nothing of the same account behind them.
    pub fn hold(&self, matching: TxMatch) {
        self.script(|script| script.held.push(matching));
    }

    /// Ends a [`Self::hold`].
    pub fn release(&self, matching: TxMatch) {
        self.script(|script| script.held.retain(|held| *held != matching));
    }
}

/// The pool, and the answers to sends.
impl FakeChain {
    /// The number of transactions that wait to be mined.
    pub fn pooled(&self) -> usize {
        self.lock().core.pool(MAIN_POOL).len()
    }

    /// The pooled transactions of an account, by nonce.
    pub fn pooled_from(&self, from: Address) -> Vec<FakeTx> {
        let state = self.lock();
        state.core.pool(MAIN_POOL).of(from).map(|pooled| FakeTx::of(&pooled.tx)).collect()
    }

    /// Drops everything that waits to be mined.
    pub fn forget_pool(&self) {
        self.lock().core.evict(MAIN_POOL, 1.0);
    }

    /// Drops one that waits to be mined; whether it was there.
    pub fn evict(&self, hash: TxHash) -> bool {
        self.lock().core.drop_pooled(MAIN_POOL, &hash)
    }

    /// The number of times that a transaction was sent.
    pub fn sends(&self, hash: TxHash) -> usize {
        self.lock().script.sends.get(&hash).copied().unwrap_or_default()
    }

    /// The number of sends of all transactions.
    pub fn all_sends(&self) -> usize {
        self.lock().script.sends.values().sum()
    }

    /// The next sends are accepted, and their answers lost.
    pub fn lose_answers(&self, count: usize) {
        self.script(|script| script.lose_answers = count);
    }

    /// The next batches of sends are taken as they would be, and their answers lost.
    pub fn lose_batches(&self, count: usize) {
        self.script(|script| script.lose_batches = count);
    }

    /// The next send is answered so, and is not taken, whatever the answer says.
    pub fn answer_next(&self, class: AnswerClass) {
        self.answer(TxMatch::Any, class, 1);
    }

    /// The next `times` sends of these are answered so, and are not taken. Earlier scripts
    /// come first.
    pub fn answer(&self, matching: TxMatch, class: AnswerClass, times: usize) {
        let scripted = ScriptedAnswer { matching, class, left: times };
        self.script(|script| script.answers.push(scripted));
    }

    /// Calls of an address are answered as if no node could take them.
    pub fn reject_calls_to(&self, to: Address) {
        self.answer(TxMatch::To(to), AnswerClass::Invalid, usize::MAX);
    }

    /// Ends all scripted answers.
    pub fn answer_truly(&self) {
        self.script(|script| script.answers.clear());
    }

    /// A transaction whose predecessor is missing is refused.
    pub fn refuse_gaps(&self) {
        self.lock().core.pool_mut(MAIN_POOL).limits.nonce_gap = Some(0);
    }
}

/// Routes.
impl FakeChain {
    /// The chain has private endpoints.
    pub fn add_private_endpoint(&self) {
        self.script(|script| script.has_private = true);
    }

    /// Private endpoints accept transactions and do nothing with them, or cease to.
    pub fn swallow_private(&self, swallows: bool) {
        self.script(|script| script.swallows_private = swallows);
    }

    /// Private endpoints can't be reached, or can again.
    pub fn set_private_down(&self, is_down: bool) {
        self.script(|script| script.private_down = is_down);
    }

    /// The number of sends to private endpoints.
    pub fn private_sends(&self) -> usize {
        self.lock().script.private_sends
    }

    /// True if public endpoints were sent a transaction, or asked about it, before a block had it.
    pub fn is_disclosed(&self, hash: TxHash) -> bool {
        self.lock().script.public_hashes.contains(&hash)
    }

    /// True if public endpoints estimated a call with this data.
    pub fn is_call_disclosed(&self, data: &[u8]) -> bool {
        self.lock().script.public_calls.iter().any(|call| call.data.as_ref() == data)
    }
}

/// Money.
impl FakeChain {
    /// There is a base fee, of so much; what offers less stays in the pool.
    pub fn set_base_fee(&self, wei: u128) {
        self.lock().core.set_base_fee(BaseFee::Fixed(u64::try_from(wei).unwrap()));
    }

    /// A block has so much gas, and every endpoint reports it.
    pub fn set_block_gas(&self, gas: u64) {
        let mut state = self.lock();
        state.core.set_block_gas_limit(gas);
        state.script.block_gas = Some(gas);
    }

    /// Every call is estimated to use so much gas.
    pub fn set_estimate(&self, gas: u64) {
        self.script(|script| script.estimate = Some(gas));
    }

    /// The quoted tip. Blocks take less, too.
    pub fn set_tip(&self, wei: u128) {
        self.script(|script| script.tip = Some(wei));
    }

    /// An account has so much from now on. What it can't pay for is refused, alone or with what it has
    /// in the pool, and is not mined. A call that pays more than that is not estimated either.
    pub fn set_balance(&self, of: Address, wei: U256) {
        self.lock().core.set_balance(of, wei);
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
        let tx = state.outsiders_tx(from, nonce, max_fee_wei);
        (tx.hash, state.admit(&tx))
    }

    /// An outsider with the same key has a transaction mined in the account's next slot, in a
    /// block of its own, whatever the pool holds there.
    pub fn outsider_mines(&self, from: Address) -> TxHash {
        let mut state = self.lock();
        let (nonce, price) = (state.core.accounts().now(from).nonce, state.outsiders_price());
        let tx = state.outsiders_tx(from, nonce, price);
        let (_, left) = state.core.mine_exactly(vec![tx.clone()], 0);
        assert!(left.is_empty(), "the account can't pay for the outsider's transaction");
        self.moved.send_replace(());
        tx.hash
    }

    /// So many endpoints are asked when all are; none of them lags or is silent.
    pub fn set_endpoints(&self, count: usize) {
        self.script(|script| script.endpoints = vec![Endpoint::default(); count]);
    }

    /// One of the endpoints has not seen the last blocks when all are asked.
    pub fn lag_endpoint(&self, index: usize, blocks: usize) {
        self.script(|script| script.endpoints[index].lags_by = blocks as u64);
    }

    /// One of the endpoints gives no answer when all are asked, or gives them again.
    pub fn silence_endpoint(&self, index: usize, is_silent: bool) {
        self.script(|script| script.endpoints[index].is_silent = is_silent);
    }

    /// One of the endpoints counts no transaction of any account for ever, and shows its blocks all the same.
    /// Searches for receipts are affected; for the counts themselves see `script_counts`.
    pub fn endpoint_counts_nothing(&self, index: usize) {
        self.script(|script| script.endpoints[index].counts_nothing = true);
    }

    /// Endpoints find no receipt by its hash, as if their index lagged, or find them again. Receipts
    /// of a block are not affected.
    pub fn lose_receipts(&self, loses: bool) {
        self.script(|script| script.loses_receipts = loses);
    }

    /// Several endpoints say this about every receipt.
    pub fn set_support(&self, support: ReceiptSupport) {
        self.lock().script.support = Some(support);
    }

    /// Receipts of failures in a block come without a reason, and a query for one waits for ever.
    pub fn hang_reasons(&self, hangs: bool) {
        self.script(|script| script.hangs_reasons = hangs);
    }

    /// Heads are announced so many blocks above the true ones; no such block is there.
    pub fn announce_ahead(&self, blocks: u64) {
        self.script(|script| script.announced_ahead = blocks);
        self.moved.send_replace(());
    }

    /// The newest blocks are neither announced nor shown, as by endpoints that lag. Counts
    /// and receipts by hash know them all the same.
    pub fn hide_newest(&self, blocks: usize) {
        self.script(|script| script.hidden = blocks as u64);
        self.moved.send_replace(());
    }

    /// Counts in the head do not know the newest blocks.
    pub fn lag_counts(&self, blocks: usize) {
        self.script(|script| script.counts_lag = blocks as u64);
    }

    /// There is no safe and no finalized block.
    pub fn lack_tags(&self) {
        self.script(|script| script.lacks_tags = true);
    }

    /// This block is the safe and the finalized one, wherever the head is.
    pub fn set_tag(&self, number: u64) {
        self.script(|script| script.tag = Some(number));
    }

    /// The first endpoint shows the receipt of this transaction in searches, although its
    /// block was replaced.
    pub fn show_orphaned(&self, receipt: TxReceipt) {
        self.lock().script.orphaned_receipts.insert(receipt.tx_hash, receipt);
    }

    /// No endpoint shows its pool.
    pub fn hide_pools(&self) {
        self.script(|script| script.hides_pools = true);
    }
}
