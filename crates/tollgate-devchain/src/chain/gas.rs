//! Gas arithmetic: what a transaction costs before it runs, and where the base fee goes next.
//! Pure functions of their arguments.

use alloy_eips::eip2930::AccessList;

use super::tx::Tx;
use alloy_consensus::Transaction as _;

/// Every transaction.
pub const TRANSFER_GAS: u64 = 21_000;
const CREATE_GAS: u64 = 32_000;
const INITCODE_WORD_GAS: u64 = 2;
const ZERO_BYTE_GAS: u64 = 4;
const NONZERO_BYTE_GAS: u64 = 16;
const ACCESS_ADDRESS_GAS: u64 = 2_400;
const ACCESS_KEY_GAS: u64 = 1_900;
/// EIP-7702. The part that is returned for authorities that exist is not modelled.
const AUTHORIZATION_GAS: u64 = 25_000;
/// EIP-7623: a token is a zero byte; a non-zero byte is four.
const FLOOR_GAS_PER_TOKEN: u64 = 10;
const BASE_FEE_CHANGE_DENOMINATOR: u128 = 8;
const ELASTICITY: u64 = 2;

/// The intrinsic gas of a transaction.
pub fn intrinsic(data: &[u8], is_create: bool, access: Option<&AccessList>) -> u64 {
    let (zeros, others) = bytes(data);
    let mut gas = TRANSFER_GAS + zeros * ZERO_BYTE_GAS + others * NONZERO_BYTE_GAS;
    if is_create {
        gas += CREATE_GAS + (data.len() as u64).div_ceil(32) * INITCODE_WORD_GAS;
    }
    for item in access.into_iter().flat_map(|list| list.iter()) {
        gas += ACCESS_ADDRESS_GAS + item.storage_keys.len() as u64 * ACCESS_KEY_GAS;
    }
    gas
}

/// The floor price of the data (EIP-7623).
pub fn floor(data: &[u8]) -> u64 {
    let (zeros, others) = bytes(data);
    TRANSFER_GAS + (zeros + others * 4) * FLOOR_GAS_PER_TOKEN
}

/// [`intrinsic`] of a transaction.
pub fn intrinsic_of(tx: &Tx) -> u64 {
    let authorizations = tx.authorities.len() as u64 * AUTHORIZATION_GAS;
    authorizations
        + intrinsic(tx.envelope.input(), tx.envelope.is_create(), tx.envelope.access_list())
}

/// The next block's base fee, by EIP-1559.
pub fn next_base_fee(base_fee: u64, gas_used: u64, gas_limit: u64) -> u64 {
    let target = gas_limit / ELASTICITY;
    if target == 0 || gas_used == target {
        return base_fee;
    }
    let change = |gas: u64| {
        u128::from(base_fee) * u128::from(gas) / u128::from(target) / BASE_FEE_CHANGE_DENOMINATOR
    };
    if gas_used > target {
        let up = change(gas_used - target).max(1);
        u64::try_from(u128::from(base_fee) + up).unwrap_or(u64::MAX)
    } else {
        // The change is at most an eighth of the base fee: it fits and never goes below zero.
        base_fee - u64::try_from(change(target - gas_used)).unwrap_or(base_fee)
    }
}

fn bytes(data: &[u8]) -> (u64, u64) {
    let zeros = data.iter().filter(|byte| **byte == 0).count() as u64;
    (zeros, data.len() as u64 - zeros)
}
