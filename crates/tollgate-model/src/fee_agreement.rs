//! Which of several endpoints' prices to go by (I16).
//!
//! Pure. No single endpoint decides what is paid: with three or more prices the median counts, with
//! two the lower one, and a price that only one endpoint confirms may not be far above what was agreed
//! on a short while ago. A chain with a single endpoint has nothing to compare with: there only the
//! caps of the chain and of the caller bound the price.

use std::time::Duration;

use crate::amount::GasPrice;

/// How far a price may rise within [`RISE_EVERY`] on the word of one endpoint. A base fee rises by
/// an eighth per block at most: 1.8 times in a minute of 12 s blocks.
const RISE_MAX: u128 = 4;
/// The time in which a price may rise by [`RISE_MAX`].
const RISE_EVERY: Duration = Duration::from_secs(60);

/// A price that was agreed on before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecentPrice {
    /// What was to be paid for a unit of gas.
    pub price: GasPrice,
    /// How long ago.
    pub age: Duration,
}

impl RecentPrice {
    /// The highest price that one endpoint alone may ask for by now.
    pub fn ceiling(&self) -> GasPrice {
        let steps = self.age.as_secs() / RISE_EVERY.as_secs();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX).saturating_add(1);
        let ceiling = self.price.wei().saturating_mul(RISE_MAX.saturating_pow(steps));
        GasPrice::from_wei(ceiling).unwrap_or(GasPrice::MAX)
    }

    /// What the next price is compared with: a lower one at once, a higher one only after a while, so
    /// that many small steps are bounded like a large one.
    #[must_use]
    pub fn followed_by(self, price: GasPrice) -> Self {
        let replaced = price <= self.price || self.age >= RISE_EVERY;
        if replaced { Self { price, age: Duration::ZERO } } else { self }
    }
}

/// What a set of prices comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The place of the price to go by.
    pub voice: usize,
    /// What it must not exceed, if only one endpoint confirms it.
    pub at_most: Option<GasPrice>,
    /// The prices differ by more than a market moves: somebody lies, lags or is on another chain.
    pub disputed: bool,
}

/// Chooses one of the prices; `None` if there are none.
pub fn agree(prices: &[GasPrice], recent: Option<RecentPrice>) -> Option<Agreement> {
    let mut order: Vec<usize> = (0..prices.len()).collect();
    order.sort_by_key(|place| prices[*place]);
    let (lowest, highest) = (*order.first()?, *order.last()?);
    let disputed = is_far_below(prices[lowest], prices[highest]);
    let ceiling = recent.map(|recent| recent.ceiling());
    let (voice, at_most) = match order[..] {
        [only] => (only, ceiling),
        // A price far below both the other and the past would leave the transaction waiting: the
        // other is taken, if the past bears it out.
        [low, high] if disputed => match (recent, ceiling) {
            (Some(recent), Some(ceiling))
                if is_far_below(prices[low], recent.price) && prices[high] <= ceiling =>
            {
                (high, Some(ceiling))
            }
            _ => (low, ceiling),
        },
        // The higher price confirms the lower one; of three or more, the median has others on
        // both sides.
        _ => (order[(order.len() - 1) / 2], None),
    };
    Some(Agreement { voice, at_most, disputed })
}

fn is_far_below(price: GasPrice, other: GasPrice) -> bool {
    price.wei().saturating_mul(RISE_MAX) < other.wei()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wei(wei: u128) -> GasPrice {
        GasPrice::from_wei(wei).unwrap()
    }

    fn agreed(prices: &[u128], recent: Option<(u128, u64)>) -> (u128, Option<u128>, bool) {
        let prices: Vec<_> = prices.iter().copied().map(wei).collect();
        let recent = recent
            .map(|(price, age)| RecentPrice { price: wei(price), age: Duration::from_secs(age) });
        let Agreement { voice, at_most, disputed } = agree(&prices, recent).unwrap();
        (prices[voice].wei(), at_most.map(GasPrice::wei), disputed)
    }

    #[test]
    fn one_liar_of_three_never_decides_the_price() {
        for lie in [0, 1, 1_000_000] {
            for place in 0..3 {
                let mut prices = vec![100, 110];
                prices.insert(place, lie);
                let (price, ..) = agreed(&prices, None);
                assert!((100..=110).contains(&price), "{prices:?} gave {price}");
            }
        }
    }

    #[test]
    fn the_lower_of_two_counts_unless_the_past_says_that_it_is_the_wrong_one() {
        assert_eq!(agreed(&[110, 100], None), (100, None, false));
        assert_eq!(agreed(&[1_000_000, 100], None), (100, None, true));
        assert_eq!(agreed(&[1_000_000, 100], Some((90, 0))), (100, Some(360), true));
        assert_eq!(agreed(&[1, 100], Some((90, 0))), (100, Some(360), true), "the low one lies");
        assert_eq!(agreed(&[1, 1_000], Some((90, 0))), (1, Some(360), true), "both are off");
        assert_eq!(agreed(&[1, 100], None), (1, None, true), "too little rather than too much");
    }

    #[test]
    fn one_endpoint_alone_raises_the_price_step_by_step_only() {
        assert_eq!(agreed(&[1_000_000], None), (1_000_000, None, false), "nothing to compare with");
        assert_eq!(agreed(&[1_000_000], Some((100, 0))), (1_000_000, Some(400), false));
        assert_eq!(agreed(&[1_000_000], Some((100, 61))), (1_000_000, Some(1_600), false));
        let late = RecentPrice { price: wei(100), age: Duration::MAX };
        assert_eq!(late.ceiling(), GasPrice::MAX, "nothing wraps");
    }

    #[test]
    fn what_prices_are_compared_with_rises_slowly_and_falls_at_once() {
        let recent = RecentPrice { price: wei(100), age: Duration::from_secs(59) };
        assert_eq!(recent.followed_by(wei(400)), recent);
        assert_eq!(recent.followed_by(wei(50)).price, wei(50));
        let older = RecentPrice { age: Duration::from_secs(60), ..recent };
        assert_eq!(older.followed_by(wei(400)).price, wei(400));
    }

    #[test]
    fn no_price_is_no_agreement() {
        assert_eq!(agree(&[], None), None);
    }
}
