//! The load of each account that a node works for, and the balances of those it serves.
//!
//! A worker holds an [`AccountLoad`] while it owns its account and stores plain numbers in it; the sums are made
//! when somebody asks. So no address needs to be a label.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tollgate_model::{Address, Timestamp};

/// No transaction is open.
const NONE: i64 = i64::MIN;

/// The load of one account at the node that owns it.
#[derive(Debug)]
pub struct AccountLoad {
    queued: AtomicU64,
    pending: AtomicU64,
    stuck: AtomicU64,
    reserved: AtomicU64,
    is_protected: AtomicU64,
    /// Since when the oldest one is open, in microseconds since 1970.
    oldest_since: AtomicI64,
}

impl Default for AccountLoad {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            queued: zero(),
            pending: zero(),
            stuck: zero(),
            reserved: zero(),
            is_protected: zero(),
            oldest_since: AtomicI64::new(NONE),
        }
    }
}

impl AccountLoad {
    /// Sets the numbers that change with every write: the queue and the open slots.
    pub fn set_depth(&self, queued: usize, pending: usize) {
        self.queued.store(queued as u64, Ordering::Relaxed);
        self.pending.store(pending as u64, Ordering::Relaxed);
    }

    /// Sets the numbers that are looked at now and then: stuck transactions, reserved nonces, PROTECT, and since when the oldest
    /// transaction is open.
    pub fn set_state(
        &self,
        stuck: usize,
        reserved: usize,
        is_protected: bool,
        oldest: Option<Timestamp>,
    ) {
        self.stuck.store(stuck as u64, Ordering::Relaxed);
        self.reserved.store(reserved as u64, Ordering::Relaxed);
        self.is_protected.store(u64::from(is_protected), Ordering::Relaxed);
        self.oldest_since.store(oldest.map_or(NONE, Timestamp::unix_micros), Ordering::Relaxed);
    }

    /// The numbers at a time.
    pub fn totals(&self, now: Timestamp) -> AccountTotals {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let oldest = self.oldest_since.load(Ordering::Relaxed);
        let age = (oldest != NONE).then(|| now.since(Timestamp::from_unix_micros(oldest)));
        AccountTotals {
            queued: get(&self.queued),
            pending: get(&self.pending),
            stuck: get(&self.stuck),
            reserved: get(&self.reserved),
            protected: get(&self.is_protected),
            oldest_age_seconds: age.map_or(0.0, |age| age.as_secs_f64()),
        }
    }
}

/// The load of one account, or of all.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AccountTotals {
    /// Transactions without a slot.
    pub queued: u64,
    /// Transactions with an open slot.
    pub pending: u64,
    /// Transactions that are STUCK.
    pub stuck: u64,
    /// Nonces that callers hold.
    pub reserved: u64,
    /// Accounts in PROTECT.
    pub protected: u64,
    /// The age of the oldest transaction without a receipt.
    pub oldest_age_seconds: f64,
}

impl AccountTotals {
    fn with(self, other: Self) -> Self {
        Self {
            queued: self.queued + other.queued,
            pending: self.pending + other.pending,
            stuck: self.stuck + other.stuck,
            reserved: self.reserved + other.reserved,
            protected: self.protected + other.protected,
            oldest_age_seconds: self.oldest_age_seconds.max(other.oldest_age_seconds),
        }
    }
}

/// An account's balance as it was last read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BalanceReading {
    /// In the chain's coin.
    pub ether: f64,
    /// The time until it is used up at the present burn rate; `None` while nothing is spent.
    pub left_seconds: Option<f64>,
    /// The time over which that rate was measured.
    pub measured_seconds: f64,
}

/// All accounts of one chain at one node.
#[derive(Debug, Default)]
pub struct AccountLoads {
    loads: Mutex<BTreeMap<Address, Weak<AccountLoad>>>,
    balances: Mutex<BTreeMap<Address, BalanceReading>>,
}

impl AccountLoads {
    /// The load of an account, counted until its last holder drops it.
    pub fn begin(&self, account: Address) -> Arc<AccountLoad> {
        let load = Arc::new(AccountLoad::default());
        let mut loads = lock(&self.loads);
        loads.retain(|_, load| load.strong_count() > 0);
        loads.insert(account, Arc::downgrade(&load));
        load
    }

    /// The load of each account that is owned now.
    pub fn by_account(&self, now: Timestamp) -> Vec<(Address, AccountTotals)> {
        let loads = lock(&self.loads);
        let held = loads.iter().filter_map(|(account, load)| Some((*account, load.upgrade()?)));
        held.map(|(account, load)| (account, load.totals(now))).collect()
    }

    /// The number of accounts that are owned now, and their load together.
    pub fn totals(&self, now: Timestamp) -> (usize, AccountTotals) {
        let all = self.by_account(now);
        let sum = |sum: AccountTotals, (_, load): &(Address, AccountTotals)| sum.with(*load);
        (all.len(), all.iter().fold(AccountTotals::default(), sum))
    }

    /// Notes a balance that was read.
    pub fn set_balance(&self, account: Address, reading: BalanceReading) {
        lock(&self.balances).insert(account, reading);
    }

    /// Forgets the balances of accounts that are not served any more.
    pub fn keep_balances(&self, is_served: impl Fn(&Address) -> bool) {
        lock(&self.balances).retain(|account, _| is_served(account));
    }

    /// The balances as they were last read.
    pub fn balances(&self) -> Vec<(Address, BalanceReading)> {
        lock(&self.balances).iter().map(|(account, reading)| (*account, *reading)).collect()
    }
}

/// The newest block, and when it arrived.
#[derive(Debug, Default)]
pub struct HeadMark(Mutex<Option<(u64, Timestamp)>>);

impl HeadMark {
    /// Notes a new head.
    pub fn note(&self, number: u64, at: Timestamp) {
        *lock(&self.0) = Some((number, at));
    }

    /// The number of the head and when it arrived; `None` before the first block.
    pub fn get(&self) -> Option<(u64, Timestamp)> {
        *lock(&self.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_of_an_account_counts_while_it_is_owned_and_its_age_grows_with_time() {
        let all = AccountLoads::default();
        let (one, two) = (all.begin(Address::repeat_byte(1)), all.begin(Address::repeat_byte(2)));
        one.set_depth(3, 4);
        two.set_depth(5, 6);
        two.set_state(2, 7, true, Some(Timestamp::from_unix_micros(1_000_000)));
        let (owned, sum) = all.totals(Timestamp::from_unix_micros(3_500_000));
        assert_eq!((owned, sum.queued, sum.pending, sum.stuck), (2, 8, 10, 2));
        assert_eq!((sum.reserved, sum.protected, sum.oldest_age_seconds), (7, 1, 2.5));
        drop(two);
        let (owned, sum) = all.totals(Timestamp::EPOCH);
        assert_eq!((owned, sum.queued, sum.oldest_age_seconds), (1, 3, 0.0));
    }
}
