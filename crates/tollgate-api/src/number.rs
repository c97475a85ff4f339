//! Whole numbers as callers write them: a JSON integer, decimal text or 0x-hex.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tollgate_model::{GasPrice, U256};

use crate::code::ErrorCode;
use crate::invalid::Invalid;

/// The allowed forms of a number, for error texts.
pub const NUMBER_FORMS: &str = "a whole number: a JSON integer, decimal text or 0x-hex";

/// Reads decimal digits, or hex digits after `0x`.
///
/// # Errors
/// What is allowed, if the text is no number below 2^256.
pub fn parse_number(text: &str) -> Result<U256, &'static str> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return Err("must be a whole number: a JSON integer, decimal text or 0x-hex");
    }
    U256::from_str_radix(digits, u64::from(radix)).map_err(|_| "must be at most 2^256 - 1")
}

/// A number as a caller wrote it. Whether it is one, and in its range, is found out when it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number(String);

impl Number {
    /// A number from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The number.
    ///
    /// # Errors
    /// It is none.
    pub fn read(&self, field: &str) -> Result<U256, Invalid> {
        parse_number(&self.0).map_err(|allowed| self.invalid(field, allowed))
    }

    /// The number, if it is in the range.
    ///
    /// # Errors
    /// It is none, or not in the range.
    pub fn read_u64(
        &self,
        field: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Invalid> {
        let number = u64::try_from(self.read(field)?).ok().filter(|number| range.contains(number));
        let (least, most) = range.into_inner();
        number.ok_or_else(|| self.invalid(field, format!("must be from {least} to {most}")))
    }

    /// The number as a price for a unit of gas, in wei.
    ///
    /// # Errors
    /// It is none, or no such price.
    pub fn read_price(&self, field: &str) -> Result<GasPrice, Invalid> {
        let wei = self.read_u64(field, 0..=i64::MAX as u64)?;
        GasPrice::try_from(wei).map_err(|error| self.invalid(field, error.problem))
    }

    fn invalid(&self, field: &str, allowed: impl Into<String>) -> Invalid {
        Invalid::value(ErrorCode::InvalidNumber, field, &self.0, allowed)
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl From<U256> for Number {
    fn from(number: U256) -> Self {
        Self(number.to_string())
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Takes integers of any length and text; what else there is becomes text that is no number.
impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_read_from_an_integer_decimal_text_or_hex() {
        for (json, expected) in [
            ("17", Ok("17")),
            ("\"17\"", Ok("17")),
            ("\"0x10\"", Ok("16")),
            (
                "340282366920938463463374607431768211456",
                Ok("340282366920938463463374607431768211456"),
            ),
            ("-1", Err(())),
            ("1.5", Err(())),
            ("1e3", Err(())),
            ("\"\"", Err(())),
            ("\"0x\"", Err(())),
            ("true", Err(())),
        ] {
            let number: Number = serde_json::from_str(json).unwrap();
            let read = number.read("value").map(|number| number.to_string()).map_err(|_| ());
            assert_eq!(read.as_deref(), expected.as_ref().map(|text| *text), "{json}");
        }
        assert!(
            Number::new("1".repeat(90)).read("value").unwrap_err().to_string().contains("2^256")
        );
    }
}
