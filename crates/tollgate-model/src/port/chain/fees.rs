//! The price of a transaction now.

use serde::{Deserialize, Serialize};

use crate::amount::GasPrice;

/// The urgency of a transaction; selects a price level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Speed {
    /// When the price is low.
    Slow,
    /// Within a few blocks.
    #[default]
    Normal,
    /// In the next block.
    Fast,
}

/// The current price of a transaction. A chain without a base fee quotes a legacy gas price.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeeQuote {
    /// The base fee of the next block, where the chain has one.
    pub base_fee: Option<GasPrice>,
    /// `maxFeePerGas`, or the legacy gas price.
    pub max_fee: GasPrice,
    /// `maxPriorityFeePerGas`; `None` on a chain without a base fee.
    pub max_priority_fee: Option<GasPrice>,
}

impl FeeQuote {
    /// Lowers the quote to at most this price. A base fee above it is as unfounded as the rest: nothing is
    /// refused for it.
    #[must_use]
    pub fn limited_to(self, most: GasPrice) -> Self {
        Self {
            base_fee: self.base_fee.map(|fee| fee.min(most)),
            max_fee: self.max_fee.min(most),
            max_priority_fee: self.max_priority_fee.map(|tip| tip.min(most)),
        }
    }

    /// Raises the base fee to at least this one, and the price to at least twice of it: it leaves room for
    /// the base fee to double, as in any quote. A quote of a legacy price stays.
    #[must_use]
    pub fn with_base_fee_of(self, least: GasPrice) -> Self {
        let Some(base_fee) = self.base_fee else { return self };
        let twice = GasPrice::from_wei(least.wei().saturating_mul(2)).unwrap_or(GasPrice::MAX);
        Self { base_fee: Some(base_fee.max(least)), ..self.raised_to(twice) }
    }

    /// Raises the price to at least this one; the tip stays.
    #[must_use]
    pub fn raised_to(self, least: GasPrice) -> Self {
        Self { max_fee: self.max_fee.max(least), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::wei;

    #[test]
    fn quote_that_is_limited_has_no_part_above_the_limit() {
        let high = Some(wei(900));
        let quote = FeeQuote { base_fee: high, max_fee: wei(1_801), max_priority_fee: high };
        let limited = quote.limited_to(wei(40));
        let low = Some(wei(40));
        assert_eq!(limited, FeeQuote { base_fee: low, max_fee: wei(40), max_priority_fee: low });
    }
}
