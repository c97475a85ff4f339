//! The effect of calling an address. There is no EVM: an address has one fixed behaviour.

use alloy_primitives::{Bytes, U256};

/// Gas of a revert beyond the intrinsic gas: some, so that it shows.
const REVERT_GAS: u64 = 500;

/// The behaviour of an address when called.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Behaviour {
    /// Takes the value and succeeds, for the intrinsic gas.
    #[default]
    Succeed,
    /// Reverts with `Error(string)`.
    Revert(String),
    /// Succeeds, but uses this much gas beyond the intrinsic gas.
    Burn(u64),
    /// Uses all the gas it is given, and fails.
    OutOfGas,
}

/// The outcome of a call, with all gas that it used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Success {
        gas_used: u64,
    },
    Reverted {
        gas_used: u64,
        reason: String,
    },
    /// The gas was not enough; all of it is used.
    OutOfGas {
        gas_used: u64,
    },
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    pub fn gas_used(&self) -> u64 {
        match self {
            Self::Success { gas_used }
            | Self::Reverted { gas_used, .. }
            | Self::OutOfGas { gas_used } => *gas_used,
        }
    }
}

impl Behaviour {
    /// Runs with this much gas, of which `intrinsic` (the larger of intrinsic and floor) is gone
    /// already.
    pub fn run(&self, gas_limit: u64, intrinsic: u64) -> Outcome {
        let needs = match self {
            Self::Succeed => intrinsic,
            Self::Revert(_) => intrinsic.saturating_add(REVERT_GAS).min(gas_limit),
            Self::Burn(gas) => intrinsic.saturating_add(*gas),
            Self::OutOfGas => u64::MAX,
        };
        match self {
            _ if needs > gas_limit => Outcome::OutOfGas { gas_used: gas_limit },
            Self::Revert(reason) => Outcome::Reverted { gas_used: needs, reason: reason.clone() },
            Self::Succeed | Self::Burn(_) | Self::OutOfGas => Outcome::Success { gas_used: needs },
        }
    }
}

/// `Error(string)` with this text, ABI-encoded.
pub fn encode_revert(reason: &str) -> Bytes {
    const ERROR_SELECTOR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    let mut data = Vec::with_capacity(4 + 64 + reason.len().next_multiple_of(32));
    data.extend(ERROR_SELECTOR);
    data.extend(U256::from(32).to_be_bytes::<32>());
    data.extend(U256::from(reason.len()).to_be_bytes::<32>());
    data.extend(reason.as_bytes());
    data.resize(4 + 64 + reason.len().next_multiple_of(32), 0);
    data.into()
}
