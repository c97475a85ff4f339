//! Queries that the fake chain answers with an error, answers wrongly, or does not answer.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::{Notify, watch};
use tollgate_model::port::chain::{AccountCounts, Call, ChainUnavailable};
use tollgate_model::{Address, B256, TxHash, U256, Wei};

use super::FakeChain;

/// A group of queries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Query {
    Blocks,
    /// The block of this number.
    Block(u64),
    /// All receipts, of a block or by hash.
    Receipts,
    /// The receipt of this transaction, of a block or by hash.
    Receipt(TxHash),
    /// The transaction in a slot.
    Occupants,
    /// The transaction counts of an account.
    Counts(Address),
    Fees,
    Balances,
    /// Gas estimates.
    Calls,
    /// Everything about accounts, fees and calls.
    AccountsFeesAndCalls,
}

/// The faults; none by default.
#[derive(Default)]
pub(super) struct Faults {
    set: Mutex<Set>,
    stalled: watch::Sender<HashSet<Address>>,
    hashes_hang: watch::Sender<bool>,
    other_call_tried: Notify,
}

#[derive(Default)]
pub(super) struct Set {
    failing: HashSet<Query>,
    failed: usize,
    pub(super) heads_asked: usize,
    pub(super) counts_asked: usize,
    pub(super) proofs_wanted: usize,
    pub(super) balance_reads: usize,
    searches_hang: bool,
    hanging_block: Option<u64>,
    failing_blocks: FailingShare,
    failing_fees: FailingShare,
    /// The number of queries for each block by its number.
    blocks_asked: HashMap<u64, usize>,
    /// Counts that endpoints report, whatever is true.
    scripted_counts: HashMap<Address, AccountCounts>,
    /// Pending counts that only one endpoint reports.
    claimed_counts: HashMap<Address, u64>,
    /// The number of answers left in which each block has another hash.
    wrong_hashes: HashMap<u64, usize>,
    pub(super) reverts_all_calls: bool,
    delays_one_wei_calls: bool,
}

/// One in so many queries fails; none if it is 0.
#[derive(Clone, Copy, Default)]
struct FailingShare {
    one_in: usize,
    asked: usize,
}

impl FailingShare {
    fn next_fails(&mut self) -> bool {
        self.asked += usize::from(self.one_in > 0);
        self.one_in > 0 && (self.asked - 1).is_multiple_of(self.one_in)
    }
}

impl Set {
    fn fail_if(&mut self, fails: bool, query: Query) -> Result<(), ChainUnavailable> {
        self.failed += usize::from(fails);
        if fails { Err(ChainUnavailable(format!("{query:?} can't be answered"))) } else { Ok(()) }
    }
}

impl Faults {
    pub(super) fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap()
    }

    pub(super) fn check(&self, query: Query) -> Result<(), ChainUnavailable> {
        let mut set = self.set();
        let is_of_all = matches!(
            query,
            Query::Counts(_) | Query::Occupants | Query::Fees | Query::Balances | Query::Calls
        );
        let fails = set.failing.contains(&query)
            || is_of_all && set.failing.contains(&Query::AccountsFeesAndCalls);
        let fails = fails || query == Query::Fees && set.failing_fees.next_fails();
        set.fail_if(fails, query)
    }

    /// Checks the query for a block by its number; waits for ever if it hangs.
    pub(super) async fn check_block(&self, number: u64) -> Result<(), ChainUnavailable> {
        let hangs = {
            let mut set = self.set();
            *set.blocks_asked.entry(number).or_default() += 1;
            set.hanging_block == Some(number)
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        self.check(Query::Block(number))
    }

    /// Fails a share of the queries for blocks.
    pub(super) fn check_block_share(&self) -> Result<(), ChainUnavailable> {
        let mut set = self.set();
        let fails = set.failing_blocks.next_fails();
        set.fail_if(fails, Query::Blocks)
    }

    pub(super) fn scripted(&self, of: Address) -> Option<AccountCounts> {
        self.set().scripted_counts.get(&of).copied()
    }

    pub(super) fn claimed(&self, of: Address) -> Option<u64> {
        self.set().claimed_counts.get(&of).copied()
    }

    /// The hash that a block is shown with instead of its own, this time.
    pub(super) fn wrong_hash(&self, number: u64) -> Option<B256> {
        let mut set = self.set();
        let left = set.wrong_hashes.get_mut(&number).filter(|left| **left > 0)?;
        *left -= 1;
        Some(B256::repeat_byte(0xbd))
    }

    /// Waits while queries by hash hang. Errors would mean that the chain was dropped.
    pub(super) async fn pass_hash(&self) {
        let _ = self.hashes_hang.subscribe().wait_for(|hangs| !hangs).await;
    }

    pub(super) async fn pass_search(&self) {
        if self.set().searches_hang {
            std::future::pending::<()>().await;
        }
    }

    /// Waits while the account is stalled.
    pub(super) async fn pass(&self, of: Address) {
        let _ = self.stalled.subscribe().wait_for(|stalled| !stalled.contains(&of)).await;
    }

    /// Waits with a call of one wei until another one was tried, if that is demanded.
    pub(super) async fn pass_call(&self, call: &Call) {
        if self.set().delays_one_wei_calls {
            match call.value == Wei(U256::from(1)) {
                true => self.other_call_tried.notified().await,
                false => self.other_call_tried.notify_one(),
            }
        }
    }
}

fn set_member<T: Eq + Hash>(set: &mut HashSet<T>, item: T, is_in: bool) {
    if is_in {
        set.insert(item)
    } else {
        set.remove(&item)
    };
}

/// Faults.
impl FakeChain {
    /// The query for the block of this number is never answered.
    pub fn hang_block(&self, number: u64) {
        self.faults.set().hanging_block = Some(number);
    }

    /// Queries for a transaction or a receipt by its hash hang, until they no longer do.
    pub fn hang_hashes(&self, hangs: bool) {
        self.faults.hashes_hang.send_replace(hangs);
    }

    /// Searches for what is in a slot never end.
    pub fn hang_searches(&self) {
        self.faults.set().searches_hang = true;
    }

    /// Queries are answered with an error, or truly again.
    pub fn fail(&self, query: Query, fails: bool) {
        set_member(&mut self.faults.set().failing, query, fails);
    }

    /// The endpoints report these counts of an account; the truth again if there are none.
    pub fn script_counts(&self, of: Address, counts: Option<AccountCounts>) {
        let mut set = self.faults.set();
        match counts {
            Some(counts) => set.scripted_counts.insert(of, counts),
            None => set.scripted_counts.remove(&of),
        };
    }

    /// The number of times that a proof of a count was asked for.
    pub fn proofs_wanted(&self) -> usize {
        self.faults.set().proofs_wanted
    }

    /// One endpoint, which no other confirms, reports this pending count of an account; the truth
    /// again with `None`.
    pub fn claim_pending(&self, of: Address, count: Option<u64>) {
        let mut set = self.faults.set();
        match count {
            Some(count) => set.claimed_counts.insert(of, count),
            None => set.claimed_counts.remove(&of),
        };
    }

    /// One in so many queries for fees fails; none if it is 0.
    pub fn fail_fees_steadily(&self, one_in: usize) {
        self.faults.set().failing_fees.one_in = one_in;
    }

    /// One in so many queries for blocks fails; none if it is 0.
    pub fn fail_blocks_steadily(&self, one_in: usize) {
        self.faults.set().failing_blocks.one_in = one_in;
    }

    /// The next `times` answers show the block of this number with another hash than its own, always
    /// the same one.
    pub fn show_wrong_hash(&self, number: u64, times: usize) {
        self.faults.set().wrong_hashes.insert(number, times);
    }

    pub fn wrong_hashes_left(&self, number: u64) -> usize {
        self.faults.set().wrong_hashes.get(&number).copied().unwrap_or_default()
    }

    /// Every call reverts in an estimate.
    pub fn revert_all_calls(&self) {
        self.faults.set().reverts_all_calls = true;
    }

    /// A call with a value of one wei is estimated after a call with another value.
    pub fn delay_one_wei_calls(&self) {
        self.faults.set().delays_one_wei_calls = true;
    }

    /// The sends of an account and queries for its counts hang, until they no longer do.
    pub fn stall(&self, of: Address, stalls: bool) {
        self.faults.stalled.send_modify(|stalled| set_member(stalled, of, stalls));
    }

    pub fn asked_for_block(&self, number: u64) -> usize {
        self.faults.set().blocks_asked.get(&number).copied().unwrap_or_default()
    }

    /// The number of queries that were answered with an error.
    pub fn failed(&self) -> usize {
        self.faults.set().failed
    }

    pub fn balance_reads(&self) -> usize {
        self.faults.set().balance_reads
    }

    pub fn heads_asked(&self) -> usize {
        self.faults.set().heads_asked
    }

    pub fn counts_asked(&self) -> usize {
        self.faults.set().counts_asked
    }
}
