//! Questions that the fake chain answers with an error, and accounts that it keeps waiting.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;
use tollgate_model::port::chain::ChainUnavailable;
use tollgate_model::{Address, B256, TxHash};

use super::FakeChain;

/// What the chain can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Question {
    /// For blocks.
    Blocks,
    /// For the block of this number.
    Block(u64),
    /// For receipts, of a block or by hash.
    Receipts,
    /// For the receipt of this transaction, however it is asked for.
    Receipt(TxHash),
    /// Who is in a slot.
    Occupants,
    /// How many transactions an account has.
    Counts(Address),
    /// What a transaction has to pay.
    Fees,
    /// What an account has.
    Balances,
    /// Whether a call would succeed, and with how much gas.
    Calls,
}

/// What goes wrong. Nothing by default.
#[derive(Default)]
pub(super) struct Trouble {
    failing: Mutex<HashSet<Question>>,
    failed: AtomicUsize,
    balance_reads: AtomicUsize,
    stalled: watch::Sender<HashSet<Address>>,
    searches_hang: AtomicBool,
    hashes_hang: watch::Sender<bool>,
    hanging_block: Mutex<Option<u64>>,
    /// One in so many questions for blocks fails; none if it is 0.
    steady: AtomicUsize,
    asked: AtomicUsize,
    /// One in so many questions for fees fails; none if it is 0.
    steady_fees: AtomicUsize,
    asked_fees: AtomicUsize,
    /// How often each block was asked for by its number.
    blocks_asked: Mutex<HashMap<u64, usize>>,
    /// Pending counts that one endpoint alone tells.
    claims: Mutex<HashMap<Address, u64>>,
    /// How many more times each block is shown with another hash.
    wrong_hashes: Mutex<HashMap<u64, usize>>,
}

impl Trouble {
    pub(super) fn check(&self, question: Question) -> Result<(), ChainUnavailable> {
        if !self.failing.lock().unwrap().contains(&question) {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(ChainUnavailable(format!("{question:?} can't be answered")))
    }

    pub(super) fn note_block(&self, number: u64) {
        *self.blocks_asked.lock().unwrap().entry(number).or_default() += 1;
    }

    pub(super) fn claimed(&self, of: Address) -> Option<u64> {
        self.claims.lock().unwrap().get(&of).copied()
    }

    /// The hash that a block is shown with instead of its own, this time.
    pub(super) fn wrong_hash(&self, number: u64) -> Option<B256> {
        let mut wrong_hashes = self.wrong_hashes.lock().unwrap();
        let left = wrong_hashes.get_mut(&number).filter(|left| **left > 0)?;
        *left -= 1;
        Some(B256::repeat_byte(0xbd))
    }

    /// Fails one in so many questions for fees.
    pub(super) fn check_fees(&self) -> Result<(), ChainUnavailable> {
        self.check(Question::Fees)?;
        let one_in = self.steady_fees.load(Ordering::SeqCst);
        if one_in == 0 || !self.asked_fees.fetch_add(1, Ordering::SeqCst).is_multiple_of(one_in) {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(ChainUnavailable("a steady share of the questions for fees fails".to_owned()))
    }

    /// Fails one in so many, whoever asks and whatever for.
    pub(super) fn check_steady(&self) -> Result<(), ChainUnavailable> {
        let one_in = self.steady.load(Ordering::SeqCst);
        if one_in == 0 || !self.asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(one_in) {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(ChainUnavailable("a steady share of the questions fails".to_owned()))
    }

    pub(super) fn note_balance_read(&self) {
        self.balance_reads.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits as long as the account is kept waiting.
    pub(super) async fn pass_block(&self, number: u64) {
        if *self.hanging_block.lock().unwrap() == Some(number) {
            std::future::pending::<()>().await;
        }
    }

    pub(super) async fn pass_hash(&self) {
        let mut hang = self.hashes_hang.subscribe();
        // It lives as long as the chain does.
        let _ = hang.wait_for(|hangs| !hangs).await;
    }

    pub(super) async fn pass_search(&self) {
        if self.searches_hang.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    pub(super) async fn pass(&self, of: Address) {
        let mut stalled = self.stalled.subscribe();
        // It lives as long as the chain does.
        let _ = stalled.wait_for(|stalled| !stalled.contains(&of)).await;
    }
}

/// Trouble.
impl FakeChain {
    /// From now on the question for the block of this number is never answered.
    pub fn hang_block(&self, number: u64) {
        *self.trouble.hanging_block.lock().unwrap() = Some(number);
    }

    /// Whether questions for a transaction or a receipt by its hash hang from now on. What hung is
    /// answered when they don't any more.
    pub fn hang_hashes(&self, hangs: bool) {
        self.trouble.hashes_hang.send_replace(hangs);
    }

    /// From now on no search for what is in a slot comes to an end.
    pub fn hang_searches(&self) {
        self.trouble.searches_hang.store(true, Ordering::SeqCst);
    }

    /// Whether this is answered with an error from now on.
    pub fn fail(&self, question: Question, fails: bool) {
        let mut failing = self.trouble.failing.lock().unwrap();
        if fails {
            failing.insert(question)
        } else {
            failing.remove(&question)
        };
    }

    /// From now on one endpoint, which nobody else confirms, tells this pending count of an account; the
    /// truth again with `None`.
    pub fn claim_pending(&self, of: Address, count: Option<u64>) {
        let mut claims = self.trouble.claims.lock().unwrap();
        match count {
            Some(count) => claims.insert(of, count),
            None => claims.remove(&of),
        };
    }

    /// From now on one in so many questions for fees fails; none if it is 0.
    pub fn fail_fees_steadily(&self, one_in: usize) {
        self.trouble.steady_fees.store(one_in, Ordering::SeqCst);
    }

    /// From now on one in so many questions for blocks is answered with an error, for ever.
    pub fn fail_blocks_steadily(&self, one_in: usize) {
        self.trouble.steady.store(one_in, Ordering::SeqCst);
    }

    /// The next `times` answers show the block of this number with another hash than its own, always
    /// the same one.
    pub fn show_wrong_hash(&self, number: u64, times: usize) {
        self.trouble.wrong_hashes.lock().unwrap().insert(number, times);
    }

    /// How many of those answers have not been given yet.
    pub fn wrong_hashes_left(&self, number: u64) -> usize {
        self.trouble.wrong_hashes.lock().unwrap().get(&number).copied().unwrap_or_default()
    }

    /// How often a block was asked for by its number.
    pub fn asked_for_block(&self, number: u64) -> usize {
        self.trouble.blocks_asked.lock().unwrap().get(&number).copied().unwrap_or_default()
    }

    /// How many questions were answered with an error.
    pub fn failed(&self) -> usize {
        self.trouble.failed.load(Ordering::SeqCst)
    }

    /// How often a balance was read.
    pub fn balance_reads(&self) -> usize {
        self.trouble.balance_reads.load(Ordering::SeqCst)
    }

    /// Whether what an account sends, and questions about its count, hang from now on. What hung is
    /// carried out when they don't any more.
    pub fn stall(&self, of: Address, stalls: bool) {
        self.trouble.stalled.send_modify(|stalled| {
            if stalls {
                stalled.insert(of)
            } else {
                stalled.remove(&of)
            };
        });
    }
}
