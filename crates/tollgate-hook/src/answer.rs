//! What a hook may answer. Anything else is no answer, and is named.
//!
//! Strict where money is moved: a member of the wrong type, or one that the action does not know,
//! is refused rather than passed over. Names that this version does not know are passed over, so
//! that a receiver can serve several versions.

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_model::ids::parse_address;
use tollgate_model::port::policy::{NewCall, Replacement, StuckAction, StuckDecision};
use tollgate_model::{Bytes, GasPrice, Text, U256};

/// The longest answer that is read (I13).
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// The longest of the hook's own fields: what the audit trail keeps.
const FIELDS_BYTES_MAX: usize = 2_000;

/// Each member unread: so that what is wrong can be named, and nothing of it quoted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
    #[serde(borrow)]
    max_fee_per_gas: Option<&'a RawValue>,
    #[serde(borrow)]
    max_priority_fee_per_gas: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
}

/// A call that is signed: an unknown name here is a slip that would change it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    #[serde(borrow)]
    to: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    gas: Option<&'a RawValue>,
}

/// Understands the body of a 200.
pub(crate) fn read(body: &[u8]) -> Result<StuckDecision, String> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
    let answer: Answer<'_> =
        object(text).map_err(|why| format!("it is not one JSON object: {why}"))?;
    let names = StuckAction::ALL.map(StuckAction::name).join(", ");
    let action = answer.action.ok_or_else(|| "action is missing".to_owned())?;
    let action = string("action", action)?;
    let action =
        StuckAction::from_name(&action).ok_or_else(|| format!("action must be one of {names}"))?;
    let replacement = replacement(&answer)?;
    if action != StuckAction::Replace && replacement != Replacement::default() {
        let action = action.name();
        return Err(format!("fees and a payload go with replace, not with {action}"));
    }
    let reason = answer.reason.map(|reason| string("reason", reason)).transpose()?;
    Ok(StuckDecision {
        action,
        reason: Text::lossy(reason.as_deref().unwrap_or("the hook gave no reason")),
        replacement,
        fields: answer.fields.map(fields).transpose()?,
        failed: false,
    })
}

/// An object and nothing after it. A list of the members' values would do for the library, too.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    if !text.trim_start().starts_with('{') {
        return Err("it does not start with {".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn replacement(answer: &Answer<'_>) -> Result<Replacement, String> {
    let max_fee = answer.max_fee_per_gas.map(|fee| price("maxFeePerGas", fee)).transpose()?;
    let tip = answer.max_priority_fee_per_gas;
    let tip = tip.map(|tip| price("maxPriorityFeePerGas", tip)).transpose()?;
    if max_fee.is_some_and(|max_fee| tip.is_some_and(|tip| tip > max_fee)) {
        return Err("maxPriorityFeePerGas is above maxFeePerGas".to_owned());
    }
    Ok(Replacement {
        max_fee_per_gas: max_fee,
        max_priority_fee_per_gas: tip,
        call: answer.payload.map(call).transpose()?,
    })
}

fn call(payload: &RawValue) -> Result<NewCall, String> {
    let call: Call<'_> = object(payload.get()).map_err(|why| format!("payload: {why}"))?;
    let to = call.to.map(|to| string("payload.to", to)).transpose()?;
    let to = to.map(|to| parse_address(&to)).transpose();
    let to = to.map_err(|_| "payload.to must be an address".to_owned())?;
    let data = call.data.map(data).transpose()?.unwrap_or_default();
    if to.is_none() && data.is_empty() {
        return Err("payload: to is missing, and there is no data to create a contract from".into());
    }
    let value = call.value.map(|value| number("payload.value", value)).transpose()?;
    let gas = call.gas.map(|gas| number("payload.gas", gas)).transpose()?;
    let gas = gas.map(|gas| match i64::try_from(gas) {
        Ok(gas @ 1..) => Ok(gas.unsigned_abs()),
        _ => Err("payload.gas is out of range".to_owned()),
    });
    Ok(NewCall { to, value: value.unwrap_or_default(), data, gas: gas.transpose()? })
}

fn data(raw: &RawValue) -> Result<Bytes, String> {
    let text = string("payload.data", raw)?;
    let hex = text.starts_with("0x").then(|| text.parse().ok()).flatten();
    hex.ok_or_else(|| "payload.data must be 0x and an even number of hex digits".to_owned())
}

fn price(name: &str, raw: &RawValue) -> Result<GasPrice, String> {
    let wei = u128::try_from(number(name, raw)?).ok();
    let price = wei.and_then(|wei| GasPrice::from_wei(wei).ok());
    price.ok_or_else(|| format!("{name} is above {} wei", GasPrice::MAX))
}

/// A JSON integer, decimal text or 0x-hex, as everywhere in the API.
fn number(name: &str, raw: &RawValue) -> Result<U256, String> {
    let wrong = || format!("{name} must be a whole number, decimal or 0x-hex");
    let text = match raw.get() {
        quoted if quoted.starts_with('"') => string(name, raw)?,
        bare => bare.to_owned(),
    };
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text.as_str(), 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(wrong());
    }
    U256::from_str_radix(digits, radix.into()).map_err(|_| wrong())
}

fn string(name: &str, raw: &RawValue) -> Result<String, String> {
    serde_json::from_str(raw.get()).map_err(|_| format!("{name} must be a text"))
}

/// The hook's own words, as they are: numbers keep all of their digits.
fn fields(raw: &RawValue) -> Result<Text<FIELDS_BYTES_MAX>, String> {
    let text = raw.get();
    // Whoever reads the audit trail must be able to: not nested without end, no numbers beyond all.
    serde_json::from_str::<serde_json::Value>(text)
        .map_err(|_| "fields can't be read back".to_owned())?;
    Text::new("fields", text)
        .map_err(|_| format!("fields are longer than {FIELDS_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests;
