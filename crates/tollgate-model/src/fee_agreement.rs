//! Agreement on a price among several endpoints (I16).
//!
//! Pure functions. No single endpoint decides what is paid: with three or more prices the median counts,
//! with two the lower one. A price that only one endpoint confirms stays near the last price that two
//! agreed on: between a quarter and four times of it. While the other endpoints are away, that range
//! follows the lone price once in half an hour, so that an endpoint that is silent for ever does not
//! keep prices out of the market for ever (I15). With a single endpoint there is nothing to compare:
//! only the caps of the chain and of the caller bound the price.
//!
//! Before the first agreement (a new process has none) nothing bounds a price but the caps:
//!
//! - A **lone** price waits for a second one for [`SECOND_PRICE_PATIENCE`], then it is used, because a
//!   second endpoint may be gone for ever. Prices in the store do not stand in for a second endpoint:
//!   they hold the bumps and the offers of callers, of any age, so that they would keep an honest price
//!   out of the market or let a false one in.
//! - Of **two that are far apart** the lower one is used at once. One of them is honest, so no more is
//!   paid than an honest endpoint asks for. A price that is too low only delays, and can be bumped.
//! - **Nothing** is no price beside another one, because at zero no block would ever include the
//!   transaction. The other price then counts as a lone one.
//!
//! A price that one endpoint alone has set bounds how far later ones rise, never how far they fall.

use std::time::Duration;

use crate::amount::GasPrice;

/// The factor by which a price may move within [`MOVE_EVERY`] on one endpoint's answer.
const MOVE_MAX: u128 = 4;
/// The time in which a price may move by [`MOVE_MAX`].
const MOVE_EVERY: Duration = Duration::from_secs(30 * 60);
/// The maximum number of further moves for the time in which no price was asked for.
const MOVES_MAX: u64 = 2;
/// The wait for a second price before a lone one is used that no earlier price bounds. As long
/// as an endpoint rests at most after failures: one that has recovered is heard within this time.
pub const SECOND_PRICE_PATIENCE: Duration = Duration::from_secs(30);
/// The price that a quote of nothing comes to: the least tip.
const NOTHING: u128 = 1;

/// A price to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecentPrice {
    pub price: GasPrice,
    pub age: Duration,
    /// More than one endpoint confirmed it.
    pub confirmed: bool,
}

impl RecentPrice {
    fn factor(&self) -> u128 {
        let moves = (self.age.as_secs() / MOVE_EVERY.as_secs()).min(MOVES_MAX);
        MOVE_MAX.saturating_pow(u32::try_from(moves).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// The highest price that a single endpoint may set now.
    pub fn ceiling(&self) -> GasPrice {
        let ceiling = self.price.wei().saturating_mul(self.factor());
        GasPrice::from_wei(ceiling).unwrap_or(GasPrice::MAX)
    }

    /// The lowest price that a single endpoint may set now.
    pub fn floor(&self) -> GasPrice {
        GasPrice::from_wei(self.price.wei() / self.factor()).unwrap_or(GasPrice::MAX)
    }

    fn allows(&self, price: GasPrice) -> bool {
        (self.floor()..=self.ceiling()).contains(&price)
    }

    /// The next reference price: a confirmed price at once, a single endpoint's price only after a while, so
    /// that many small steps are bounded like a large one.
    #[must_use]
    pub fn followed_by(self, price: GasPrice, confirmed: bool) -> Self {
        let replaced = confirmed || self.age >= MOVE_EVERY;
        if replaced { Self { price, age: Duration::ZERO, confirmed } } else { self }
    }
}

/// The result of comparing prices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The index of the price to use.
    pub voice: usize,
    /// The bounds to apply to it, if only one endpoint confirms it and there is a reference price.
    pub within: Option<(GasPrice, GasPrice)>,
    /// More than one endpoint confirms it.
    pub confirmed: bool,
    /// The prices differ by more than a market moves: an endpoint lies, lags or is on another chain.
    pub disputed: bool,
    /// The price is the only one, and nothing bounds it: a second one is waited for.
    pub lone: bool,
    /// Two prices contradict each other, and no third price or earlier agreement tells which is right.
    pub undecided: bool,
}

/// Chooses one of the prices; `None` if there are none.
pub fn agree(prices: &[GasPrice], recent: Option<RecentPrice>) -> Option<Agreement> {
    let mut order: Vec<usize> = (0..prices.len()).collect();
    order.sort_by_key(|place| prices[*place]);
    let (lowest, highest) = (*order.first()?, *order.last()?);
    let disputed = is_far_below(prices[lowest], prices[highest]);
    if prices[highest].wei() > NOTHING {
        order.retain(|place| prices[*place].wei() > NOTHING);
    }
    let backed = recent.filter(|recent| recent.confirmed);
    let (voice, confirmed) = match order[..] {
        [only] => (only, false),
        // A price that is too low would leave the transaction waiting: the higher one is used if only it is
        // within the range of the confirmed reference.
        [low, high] if is_far_below(prices[low], prices[high]) => {
            let is_borne_out = |place| backed.is_some_and(|recent| recent.allows(prices[place]));
            (if is_borne_out(high) && !is_borne_out(low) { high } else { low }, false)
        }
        // With two, the higher price confirms the lower one; with three or more, the median has others
        // on both sides.
        _ => (order[(order.len() - 1) / 2], true),
    };
    let only = order.len() == 1;
    let within = match recent {
        Some(recent) if !confirmed && recent.confirmed => Some((recent.floor(), recent.ceiling())),
        Some(recent) if only => Some((GasPrice::default(), recent.ceiling())),
        _ => None,
    };
    let undecided = disputed && !confirmed && backed.is_none();
    Some(Agreement {
        voice,
        within,
        confirmed,
        disputed,
        lone: only && within.is_none(),
        undecided,
    })
}

fn is_far_below(price: GasPrice, other: GasPrice) -> bool {
    price.wei().saturating_mul(MOVE_MAX) < other.wei()
}

#[cfg(test)]
mod tests;
