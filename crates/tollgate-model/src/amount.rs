//! Amounts of a chain's native token, and gas prices.

use std::fmt;

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use crate::ids::InvalidValue;

/// An amount of the chain's native token in its smallest unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wei(pub U256);

impl fmt::Display for Wei {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Wei {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wei({})", self.0)
    }
}

/// A gas price in wei per unit of gas.
///
/// Bounded by a signed 64-bit integer: at most 9.2 ether per unit of gas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct GasPrice(u64);

impl GasPrice {
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Takes a price in wei.
    pub fn from_wei(wei: u128) -> Result<Self, InvalidValue> {
        u64::try_from(wei).ok().filter(|wei| *wei <= Self::MAX.0).map(Self).ok_or_else(|| {
            InvalidValue::new("gasPrice", format!("{wei} wei is above {}", Self::MAX))
        })
    }

    /// Decodes a stored price.
    pub fn from_i64(wei: i64) -> Result<Self, InvalidValue> {
        u128::try_from(wei)
            .map_err(|_| InvalidValue::new("gasPrice", format!("{wei} is negative")))
            .and_then(Self::from_wei)
    }

    /// The price in wei.
    pub const fn wei(self) -> u128 {
        self.0 as u128
    }

    /// The price as stores save it; never negative.
    pub const fn as_i64(self) -> i64 {
        self.0 as i64
    }
}

impl TryFrom<u64> for GasPrice {
    type Error = InvalidValue;

    fn try_from(wei: u64) -> Result<Self, InvalidValue> {
        Self::from_wei(u128::from(wei))
    }
}

impl From<GasPrice> for u64 {
    fn from(price: GasPrice) -> Self {
        price.0
    }
}

impl fmt::Display for GasPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for GasPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GasPrice({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_beyond_the_store_is_refused() {
        assert_eq!(GasPrice::from_wei(i64::MAX as u128).unwrap(), GasPrice::MAX);
        assert_eq!(GasPrice::from_wei(1 << 63).unwrap_err().field, "gasPrice");
        assert_eq!(GasPrice::from_wei(u128::MAX).unwrap_err().field, "gasPrice");
    }
}
