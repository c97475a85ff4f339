//! The price of a further attempt in a slot: above what a pool may hold, and within every cap.

use std::fmt;

use alloy_primitives::U256;
use thiserror::Error;

use super::BumpRules;
use crate::amount::GasPrice;
use crate::fees::FeeCaps;
use crate::port::batch::Fees;
use crate::port::chain::FeeQuote;
use crate::port::signer::TxKind;

/// The caps on an attempt's price.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ceiling {
    pub chain: FeeCaps,
    /// The caller's own cap on the price (`Intent::max_fee_per_gas`).
    pub callers: Option<GasPrice>,
}

/// The rule whether an attempt that closes a slot (a cancellation or a placeholder) may exceed the caller's
/// cap (`cancel.may_exceed_cap`). The chain's caps always hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClosingPrice {
    /// The caller's cap is a promise (I16).
    #[default]
    WithinCallersCap,
    /// Closing the slot is worth more than the cap.
    MayExceedCallersCap,
}

/// A cap that limits an attempt's price.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cap {
    /// The caller's cap.
    Callers,
    /// `chain.max_fee_per_gas`.
    ChainPrice,
    /// `chain.max_tx_fee`.
    ChainTotal,
    /// The highest price that stores can save.
    Storable,
}

impl Cap {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Callers => "maxFeePerGas",
            Self::ChainPrice => "chain.max_fee_per_gas",
            Self::ChainTotal => "chain.max_tx_fee",
            Self::Storable => "storable price",
        }
    }
}

impl Ceiling {
    /// The caps for an attempt.
    pub fn of(
        chain: FeeCaps,
        callers: Option<GasPrice>,
        closes: bool,
        price: ClosingPrice,
    ) -> Self {
        let is_free = closes && price == ClosingPrice::MayExceedCallersCap;
        Self { chain, callers: callers.filter(|_| !is_free) }
    }

    /// The highest price within all caps, and the cap that sets it.
    pub fn price_for(&self, gas_limit: u64) -> (GasPrice, Cap) {
        let total = FeeCaps { max_fee_per_gas: None, ..self.chain };
        [
            (GasPrice::MAX, Cap::Storable),
            (total.price_for(gas_limit), Cap::ChainTotal),
            (self.chain.max_fee_per_gas.unwrap_or(GasPrice::MAX), Cap::ChainPrice),
            (self.callers.unwrap_or(GasPrice::MAX), Cap::Callers),
        ]
        .into_iter()
        .min_by_key(|(price, _)| *price)
        .unwrap_or((GasPrice::MAX, Cap::Storable))
    }
}

/// The result of raising an attempt's fees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raise {
    /// These fees replace the attempt.
    To(Fees),
    /// The fees that would replace it are above a cap.
    AboveCap(CapReached),
    /// The demanded fees do not replace it.
    TooLow(Minimum),
}

impl Raise {
    /// Lowers the fees to at most this price, unless more is demanded (I16); a cap that is reached stays
    /// reached.
    #[must_use]
    pub fn at_most(self, most: Option<GasPrice>, demand: &RequestedPrice) -> Self {
        let (Self::To(fees), Some(most)) = (self, most) else { return self };
        let tip = demand.max_priority_fee.filter(|_| fees.max_priority_fee.is_some());
        let least = demand.max_fee.max(tip).unwrap_or_default();
        let max_fee = fees.max_fee.min(most.max(least));
        let max_priority_fee = fees.max_priority_fee.map(|tip| tip.min(max_fee));
        Self::To(Fees { max_fee, max_priority_fee, ..fees })
    }

    /// Uses the cap's price where a replacement would need more.
    ///
    /// For the placeholder of a slot that every endpoint rejects, when the answers that prove it are lost
    /// (another node had received them). No cap is exceeded. Most likely no pool holds an earlier attempt
    /// and the placeholder is accepted; a pool that does answers that it is underpriced, and the earlier
    /// attempt stays.
    pub fn or_at_cap(self, last: &Fees) -> Self {
        let Self::AboveCap(CapReached { allows, .. }) = self else { return self };
        let max_priority_fee = last.max_priority_fee.map(|tip| tip.min(allows));
        Self::To(Fees { max_fee: allows, max_priority_fee, ..*last })
    }
}

/// A cap below the price of a replacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapReached {
    pub cap: Cap,
    /// The highest price that it allows.
    pub allows: GasPrice,
    /// The price that would be signed without the cap, in wei.
    pub needed: u128,
}

impl fmt::Display for CapReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cap, allows, needed } = self;
        write!(f, "needs {needed} wei per gas, and {} allows {allows}", cap.name())
    }
}

/// The minimum fees that replace an attempt, in wei.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Minimum {
    pub max_fee: u128,
    /// The tip; `None` for attempts without one.
    pub max_priority_fee: Option<u128>,
}

impl fmt::Display for Minimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "needs maxFeePerGas of at least {} wei", self.max_fee)?;
        match self.max_priority_fee {
            Some(tip) => write!(f, " and maxPriorityFeePerGas of at least {tip} wei"),
            None => Ok(()),
        }
    }
}

/// A price demanded by a caller, an operator or a policy. It is signed exactly or not at all; a field
/// that is `None` is filled in by [`raise`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestedPrice {
    /// `maxFeePerGas`, or the gas price of a legacy transaction.
    pub max_fee: Option<GasPrice>,
    /// `maxPriorityFeePerGas`. Only a dynamic-fee transaction can have one ([`Self::check`]).
    pub max_priority_fee: Option<GasPrice>,
}

/// A tip is demanded for a transaction whose kind has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("only a transaction of type dynamicFee has a tip: leave it out")]
pub struct NoTip {
    pub kind: TxKind,
}

impl RequestedPrice {
    /// Checks that a transaction of this kind can be signed as demanded.
    pub fn check(&self, kind: TxKind) -> Result<(), NoTip> {
        match (kind, self.max_priority_fee) {
            (TxKind::Legacy | TxKind::AccessList, Some(_)) => Err(NoTip { kind }),
            (TxKind::DynamicFee | TxKind::SetCode, _) | (_, None) => Ok(()),
        }
    }
}

/// Computes fees above `last`: by the multiplier, at least by what replacement needs, at least what
/// the market asks, and at most what the caps allow.
///
/// The rule is the same for a bump, a speed-up, a cancellation and a placeholder. With several
/// attempts, `last` is the most expensive one that a pool may hold ([`to_beat`]). A closing
/// attempt has its own gas limit, which the caller sets in `last` first; the ceiling says which caps
/// apply to it.
///
/// A demanded price is signed exactly (I16): if it does not replace `last` the result is
/// [`Raise::TooLow`], if it is above a cap [`Raise::AboveCap`].
pub fn raise(
    rules: &BumpRules,
    last: &Fees,
    quote: &FeeQuote,
    ceiling: &Ceiling,
    demand: &RequestedPrice,
) -> Raise {
    let floor_tip = last.max_priority_fee.map(|tip| rules.floor(tip));
    let demanded_tip = demand.max_priority_fee.filter(|_| floor_tip.is_some());
    // A tip above the price is invalid, so the price follows the tip.
    let least_tip = demanded_tip.map(GasPrice::wei).max(floor_tip).unwrap_or_default();
    let floor_fee = rules.floor(last.max_fee).max(least_tip);
    let is_low = |given: Option<GasPrice>, floor: u128| given.is_some_and(|at| at.wei() < floor);
    if is_low(demand.max_fee, floor_fee) || is_low(demanded_tip, floor_tip.unwrap_or_default()) {
        return Raise::TooLow(Minimum { max_fee: floor_fee, max_priority_fee: floor_tip });
    }
    let (most, cap) = ceiling.price_for(last.gas_limit);
    let needed = demand.max_fee.map_or(floor_fee, GasPrice::wei);
    if needed > most.wei() {
        return Raise::AboveCap(CapReached { cap, allows: most, needed });
    }
    let within = |wei: u128, most: GasPrice| GasPrice::from_wei(wei).unwrap_or(most).min(most);
    let wanted_fee = rules.multiplied(last.max_fee).max(quote.max_fee.wei()).max(floor_fee);
    let max_fee = demand.max_fee.unwrap_or_else(|| within(wanted_fee, most));
    let max_priority_fee = last.max_priority_fee.map(|tip| {
        let market = quote.max_priority_fee.unwrap_or_default().wei();
        let floor = floor_tip.unwrap_or_default();
        let wanted = || within(rules.multiplied(tip).max(market).max(floor), max_fee);
        demanded_tip.unwrap_or_else(wanted)
    });
    Raise::To(Fees { gas_limit: last.gas_limit, max_fee, max_priority_fee })
}

/// The fees of a further attempt when no pool can hold an earlier one: the market price within the
/// caps, as for a first attempt. Nothing has to be replaced, so the result may be lower than `last`,
/// which nodes may have refused as too high.
///
/// A demanded price is signed exactly, as by [`raise`]: the price follows a demanded tip.
pub fn offer_anew(
    last: &Fees,
    quote: &FeeQuote,
    ceiling: &Ceiling,
    demand: &RequestedPrice,
) -> Raise {
    let (most, cap) = ceiling.price_for(last.gas_limit);
    let demanded_tip = demand.max_priority_fee.filter(|_| last.max_priority_fee.is_some());
    let least = demanded_tip.unwrap_or_default();
    if demand.max_fee.is_some_and(|demanded| demanded < least) {
        let (max_fee, max_priority_fee) = (least.wei(), demanded_tip.map(GasPrice::wei));
        return Raise::TooLow(Minimum { max_fee, max_priority_fee });
    }
    let needed = demand.max_fee.unwrap_or(least);
    if needed > most {
        return Raise::AboveCap(CapReached { cap, allows: most, needed: needed.wei() });
    }
    let max_fee = demand.max_fee.unwrap_or(quote.max_fee.min(most).max(least));
    let max_priority_fee = last.max_priority_fee.map(|_| {
        let market = || quote.max_priority_fee.unwrap_or_default().min(max_fee);
        demanded_tip.unwrap_or_else(market)
    });
    Raise::To(Fees { gas_limit: last.gas_limit, max_fee, max_priority_fee })
}

impl BumpRules {
    /// The minimum that replaces a price, rounded up, and always above it, so that a tip of zero is not
    /// replaced by zero.
    fn floor(&self, price: GasPrice) -> u128 {
        let percent = u128::from(self.replacement_percent) + 100;
        (price.wei() * percent).div_ceil(100).max(price.wei() + 1)
    }

    fn multiplied(&self, price: GasPrice) -> u128 {
        (price.wei() * u128::from(self.multiplier_permille)).div_ceil(1_000)
    }
}

/// The highest price and the highest tip of all attempts: what a replacement has to exceed, whichever
/// attempt a pool holds.
pub fn dearest(attempts: impl IntoIterator<Item = Fees>) -> Option<Fees> {
    attempts.into_iter().reduce(|one, other| Fees {
        gas_limit: one.gas_limit.max(other.gas_limit),
        max_fee: one.max_fee.max(other.max_fee),
        max_priority_fee: one.max_priority_fee.max(other.max_priority_fee),
    })
}

/// The fees of one attempt, and whether they were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    pub fees: Fees,
    /// Every endpoint refused it as too high and none ever had it, so no pool holds it. It stays tracked
    /// all the same (I5).
    pub refused_as_too_high: bool,
}

/// The fees that a replacement has to exceed: those of the most expensive attempt that a pool may
/// hold. `None` if no pool can hold any.
pub fn to_beat(offers: impl IntoIterator<Item = Offer>) -> Option<Fees> {
    dearest(offers.into_iter().filter(|offer| !offer.refused_as_too_high).map(|offer| offer.fees))
}

/// The highest useful price with this gas limit after attempts were refused as too high: an eighth below
/// the lowest of them. Nodes with such a cap compare gas limit × price with it. `None` if no attempt was
/// refused so.
pub fn below_refused(offers: impl IntoIterator<Item = Offer>, gas_limit: u64) -> Option<GasPrice> {
    let refused = offers.into_iter().filter(|offer| offer.refused_as_too_high);
    let totals = refused.map(|Offer { fees, .. }| {
        U256::from(fees.max_fee.wei()).saturating_mul(U256::from(fees.gas_limit))
    });
    let total = totals.min()?.saturating_mul(U256::from(7)) / U256::from(8);
    let price = total / U256::from(gas_limit.max(1));
    Some(
        u128::try_from(price)
            .ok()
            .and_then(|wei| GasPrice::from_wei(wei).ok())
            .unwrap_or(GasPrice::MAX),
    )
}

/// Returns whether an attempt pays the current market price: it covers the next block's base fee and leaves
/// the usual tip.
pub fn pays_the_market(fees: &Fees, quote: &FeeQuote) -> bool {
    let Some(base_fee) = quote.base_fee else { return fees.max_fee >= quote.max_fee };
    let tip = quote.max_priority_fee.unwrap_or_default();
    let offered_tip = fees.max_priority_fee.unwrap_or(fees.max_fee);
    fees.max_fee.wei() >= base_fee.wei() + tip.wei() && offered_tip >= tip
}
