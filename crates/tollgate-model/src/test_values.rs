//! Short constructors for the values in unit tests.

use std::time::Duration;

use crate::{GasPrice, Nonce, Timestamp};

pub(crate) fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

pub(crate) fn wei(wei: u128) -> GasPrice {
    GasPrice::from_wei(wei).unwrap()
}

/// Seconds after the epoch.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(seconds))
}
