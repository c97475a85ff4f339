//! The burn rate of an account: what it spends, by readings of its balance.

use std::collections::VecDeque;
use std::time::Duration;

use alloy_primitives::U256;

use crate::time::Timestamp;

/// Spending before that does not count.
const WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Readings that are closer together than this are kept as one, but for the newest (I13: 97 in all).
const STEP: Duration = Duration::from_secs(15 * 60);

/// The readings of one account's balance over the last 24 hours.
///
/// Income between two readings hides spending between them, so the rate is a lower bound.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BurnWatch {
    last: Option<U256>,
    /// Time and everything that was spent until then, oldest first.
    spent: VecDeque<(Timestamp, f64)>,
}

impl BurnWatch {
    /// Notes a balance that was read.
    pub fn note(&mut self, at: Timestamp, balance: U256) {
        let before = self.last.replace(balance).unwrap_or(balance);
        let spent = self.spent.back().map_or(0.0, |(_, spent)| *spent);
        let spent = spent + as_float(before.saturating_sub(balance));
        // The newest reading replaces the one before, unless that is a step after the one before it.
        if let [.., (earlier, _), (newest, _)] = *self.spent.make_contiguous()
            && newest.since(earlier) < STEP
        {
            self.spent.pop_back();
        }
        self.spent.push_back((at, spent));
        while self.spent.front().is_some_and(|(oldest, _)| at.since(*oldest) > WINDOW) {
            self.spent.pop_front();
        }
    }

    /// The time that the readings cover: a rate of a few seconds says little.
    pub fn span(&self) -> Duration {
        let ends = self.spent.front().zip(self.spent.back());
        ends.map(|(first, last)| last.0.since(first.0)).unwrap_or_default()
    }

    /// The time until the balance is used up at the rate of the readings; `None` if nothing was spent.
    pub fn time_left(&self) -> Option<Duration> {
        let (first, last) = (self.spent.front()?, self.spent.back()?);
        let (seconds, spent) = (last.0.since(first.0).as_secs_f64(), last.1 - first.1);
        if spent <= 0.0 || seconds <= 0.0 {
            return None;
        }
        let left = as_float(self.last?) * seconds / spent;
        Some(Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX))
    }
}

/// An amount as a floating-point number, for rates and displays; exact to 15 digits.
fn as_float(wei: U256) -> f64 {
    f64::from(wei)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(minutes * 60))
    }

    fn watch(readings: &[(u64, u64)]) -> BurnWatch {
        let mut watch = BurnWatch::default();
        for (minutes, balance) in readings {
            watch.note(at(*minutes), U256::from(*balance));
        }
        watch
    }

    #[test]
    fn balance_that_falls_steadily_lasts_as_long_as_it_took_for_its_part() {
        let left = watch(&[(0, 1_000), (10, 900), (20, 800)]).time_left().unwrap();
        assert_eq!(left.as_secs() / 60, 80);
        assert_eq!(watch(&[(0, 1_000), (10, 900), (20, 800)]).span().as_secs() / 60, 20);
        assert_eq!(watch(&[]).span(), Duration::ZERO);
    }

    #[test]
    fn top_up_does_not_count_as_negative_spending() {
        let left = watch(&[(0, 100), (10, 90), (20, 1_090), (30, 1_080)]).time_left().unwrap();
        assert_eq!(left.as_secs() / 60, 1_080 * 30 / 20);
    }

    #[test]
    fn account_that_spends_nothing_has_no_end() {
        assert_eq!(watch(&[]).time_left(), None);
        assert_eq!(watch(&[(0, 5)]).time_left(), None);
        assert_eq!(watch(&[(0, 5), (10, 5), (20, 7)]).time_left(), None);
    }

    #[test]
    fn spending_of_more_than_a_day_ago_does_not_count() {
        let mut readings = vec![(0, 1_000_000), (1, 1_000)];
        readings.extend((1..=60).map(|hour| (hour * 60, 1_000)));
        assert_eq!(watch(&readings).time_left(), None);
    }

    #[test]
    fn readings_that_are_kept_are_bounded() {
        let mut watch = BurnWatch::default();
        for second in 0..200_000 {
            let balance = U256::from(1_000_000 - second);
            watch.note(Timestamp::EPOCH.after(Duration::from_secs(second)), balance);
            assert!(watch.spent.len() <= 98, "I13: {}", watch.spent.len());
        }
        let left = watch.time_left().unwrap().as_secs();
        assert!((799_000..802_000).contains(&left), "one a second: {left}");
    }
}
