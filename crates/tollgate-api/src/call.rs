//! Reads `{to, value, data, gas}`, in creates, in replacements and in answers of stuck hooks.

use tollgate_model::ids::parse_address;
use tollgate_model::port::policy::NewCall;
use tollgate_model::{Address, B256, Bytes, GasPrice};

use crate::action::NewPayload;
use crate::code::ErrorCode;
use crate::invalid::Invalid;

/// Reads an address in any letter case; mixed case must be a right EIP-55 checksum.
///
/// # Errors
/// It is none.
pub fn read_address(field: &str, text: &str) -> Result<Address, Invalid> {
    parse_address(text)
        .map_err(|error| Invalid::field(ErrorCode::InvalidAddress, field, error.problem))
}

/// Reads 32 bytes as 0x-hex.
///
/// # Errors
/// It is something else.
pub fn read_hash(field: &str, text: &str) -> Result<B256, Invalid> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64);
    let hash = digits.and_then(|digits| digits.parse().ok());
    hash.ok_or_else(|| {
        Invalid::value(ErrorCode::InvalidHex, field, text, "must be 32 bytes as 0x-hex")
    })
}

/// Reads bytes as 0x-hex.
///
/// # Errors
/// It is something else.
pub fn read_hex(field: &str, text: &str) -> Result<Bytes, Invalid> {
    let bytes = text.starts_with("0x").then(|| text.parse().ok()).flatten();
    bytes.ok_or_else(|| {
        let what = "must be 0x and an even number of hex digits";
        Invalid::value(ErrorCode::InvalidHex, field, text, what)
    })
}

impl NewPayload {
    /// The call that it stands for.
    ///
    /// # Errors
    /// A field can't be used, or there is nothing to call.
    pub fn read(&self) -> Result<NewCall, Invalid> {
        let to = self.to.as_deref().map(|to| read_address("payload.to", to)).transpose()?;
        let data = self.data.as_deref().map(|data| read_hex("payload.data", data)).transpose()?;
        let data = data.unwrap_or_default();
        if to.is_none() && data.is_empty() {
            let what = "is missing, and there is no payload.data to create a contract from";
            return Err(Invalid::field(ErrorCode::MissingField, "payload.to", what));
        }
        let value = self.value.as_ref().map(|value| value.read("payload.value")).transpose()?;
        let gas = self.gas.as_ref().map(|gas| gas.read_u64("payload.gas", 1..=i64::MAX as u64));
        Ok(NewCall { to, value: value.unwrap_or_default(), data, gas: gas.transpose()? })
    }
}

/// Refuses a tip above the price that contains it.
///
/// # Errors
/// The tip is above the price.
pub fn check_fees(
    max_fee: Option<GasPrice>,
    tip: Option<GasPrice>,
    tip_field: &str,
) -> Result<(), Invalid> {
    match (max_fee, tip) {
        (Some(max_fee), Some(tip)) if tip > max_fee => {
            let what = format!("{tip} is above maxFeePerGas, {max_fee}");
            Err(Invalid::field(ErrorCode::InvalidFees, tip_field, what))
        }
        _ => Ok(()),
    }
}
