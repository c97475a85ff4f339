//! The time for which an account's balance lasts, and the rule on when it is low.

use std::collections::VecDeque;
use std::time::Duration;

use crate::amount::Wei;
use crate::time::Timestamp;
use alloy_primitives::U256;

/// The time over which the burn is measured at most.
const WINDOW: Duration = Duration::from_secs(7 * 86_400);
/// A burn is told from this time on: less says nothing about days.
const WINDOW_MIN: Duration = Duration::from_secs(3_600);
/// Samples that are kept (I13): one in an hour of the window.
const SAMPLES_MAX: usize = 7 * 24 + 1;
const DAY_SECONDS: u64 = 86_400;

/// A balance at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BalanceSample {
    pub at: Timestamp,
    pub balance: Wei,
    /// All decreases up to here, from the first sample on: what came in does not lower the burn.
    spent: U256,
}

/// The balances of an account in the past days.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BalanceHistory {
    samples: VecDeque<BalanceSample>,
    last: Option<BalanceSample>,
}

impl BalanceHistory {
    /// Notes a balance. Samples are kept an hour apart; the last one is always known.
    pub fn note(&mut self, balance: Wei, at: Timestamp) {
        let spent = self.last.map_or(U256::ZERO, |last| {
            last.spent.saturating_add(last.balance.0.saturating_sub(balance.0))
        });
        let sample = BalanceSample { at, balance, spent };
        self.last = Some(sample);
        if self.samples.back().is_none_or(|kept| at.since(kept.at) >= WINDOW_MIN) {
            self.samples.push_back(sample);
        }
        while self.samples.len() > SAMPLES_MAX
            || self.samples.front().is_some_and(|first| at.since(first.at) > WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// The amount that the account spends in a day; `None` while too little is known.
    pub fn burn_per_day(&self) -> Option<U256> {
        let (first, last) = (self.samples.front()?, self.last?);
        let seconds = last.at.since(first.at).as_secs();
        if seconds < WINDOW_MIN.as_secs() {
            return None;
        }
        let spent = last.spent.saturating_sub(first.spent);
        Some(spent.saturating_mul(U256::from(DAY_SECONDS)) / U256::from(seconds))
    }
}

/// The whole days for which a balance lasts; `None` if nothing is spent.
pub fn days_left(balance: Wei, burn_per_day: U256) -> Option<u64> {
    let days = balance.0.checked_div(burn_per_day)?;
    Some(u64::try_from(days).unwrap_or(u64::MAX))
}

/// The reason why a balance is low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LowBalance {
    /// The balance is below the floor. `days`: the time for which it lasts, if that is known.
    BelowFloor { floor: Wei, days: Option<u64> },
    /// The balance lasts for fewer days than it should.
    FewDays { days: u64 },
}

/// Judges a balance by the account's floor and by the days for which it lasts (`min_days` 0: any).
pub fn judge_balance(
    balance: Wei,
    floor: Option<Wei>,
    burn_per_day: Option<U256>,
    min_days: u64,
) -> Option<LowBalance> {
    let days = burn_per_day.and_then(|burn| days_left(balance, burn));
    match floor.filter(|floor| balance.0 < floor.0) {
        Some(floor) => Some(LowBalance::BelowFloor { floor, days }),
        None => days.filter(|days| *days < min_days).map(|days| LowBalance::FewDays { days }),
    }
}
