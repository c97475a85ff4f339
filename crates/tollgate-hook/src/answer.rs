//! Reads the answer of a hook. Anything that is not a valid answer is refused with what is wrong.
//!
//! Strict where money is moved: a member of the wrong type, or one that the action does not know,
//! is refused rather than passed over. Names that this version does not know are passed over, so
//! that a receiver can serve several versions.

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_api::{ErrorCode, Invalid, NewPayload, Number, check_fees};
use tollgate_model::Text;
use tollgate_model::port::policy::{NewCall, Replacement, StuckAction, StuckDecision};

/// The longest answer that is read (I13).
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// The longest of the hook's own fields: what the audit trail keeps.
const FIELDS_BYTES_MAX: usize = 2_000;

/// Each member is read by itself, so that an error can name it without quoting its value.
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

/// Reads the body of a 200.
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

/// Reads an object and nothing after it. The library would also take an array of the members' values.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    if !text.trim_start().starts_with('{') {
        return Err("it does not start with {".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn replacement(answer: &Answer<'_>) -> Result<Replacement, String> {
    let price = |field: &str, raw: Option<&RawValue>| {
        let number = raw.map(|raw| number(field, raw)).transpose()?;
        number.map(|number| number.read_price(field)).transpose().map_err(unquoted)
    };
    let tip_field = "maxPriorityFeePerGas";
    let max_fee_per_gas = price("maxFeePerGas", answer.max_fee_per_gas)?;
    let max_priority_fee_per_gas = price(tip_field, answer.max_priority_fee_per_gas)?;
    check_fees(max_fee_per_gas, max_priority_fee_per_gas, tip_field).map_err(unquoted)?;
    let call = answer.payload.map(call).transpose()?;
    Ok(Replacement { max_fee_per_gas, max_priority_fee_per_gas, call })
}

/// A call that is signed: an unknown name in it is a slip that would change it, and is refused.
fn call(payload: &RawValue) -> Result<NewCall, String> {
    let payload: NewPayload = object(payload.get()).map_err(|why| match why {
        // The library would repeat the value.
        why if why.starts_with("invalid type") => "payload: to and data must be text".to_owned(),
        why => format!("payload: {why}"),
    })?;
    payload.read().map_err(unquoted)
}

/// The problem without the value: the audit trail keeps nothing that a hook was not meant to say.
fn unquoted(invalid: Invalid) -> String {
    let Invalid { code, field, what, .. } = invalid;
    if code == ErrorCode::InvalidAddress {
        return format!("{field} must be an address");
    }
    format!("{field} {what}")
}

/// A JSON integer, decimal text or 0x-hex, as everywhere in the API.
fn number(field: &str, raw: &RawValue) -> Result<Number, String> {
    serde_json::from_str(raw.get()).map_err(|_| format!("{field} must be a whole number"))
}

fn string(name: &str, raw: &RawValue) -> Result<String, String> {
    serde_json::from_str(raw.get()).map_err(|_| format!("{name} must be a text"))
}

/// The hook's own fields, unchanged: numbers keep all of their digits.
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
