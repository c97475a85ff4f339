//! The fields of each request, and what several requests have in common.

use tollgate_api::{
    Access, AccountChange, AuthorizationItem, Create, ErrorCode, FillNonces, NewAccount, NewApiKey,
    NewCursor, NewMode, NewPayload, NewPool, Number, Payload, Reason, Replacement, RequiredReason,
    Reserve, ReturnedNonce, RotateApiKey, UsedNonce, quoted,
};
use tollgate_model::access::is_invisible;
use tollgate_model::{Nonce, Text};

use serde_json::value::RawValue;

use super::fields::{Fields, FromFields};
use crate::http::problem::Problem;

/// The reason in the audit trail if none was given.
const NO_REASON: &str = "no reason given";

/// Reads objects of these types: each field by its type and its name on the wire.
macro_rules! from_fields {
    ($($type:ident { $($field:ident: $read:ident $(? $required:ident)? $name:literal),+ $(,)? })+) => {$(
        impl FromFields for $type {
            fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
                $(let $field = fields.$read($name)?;
                $(let $field = fields.$required($name, $field)?;)?)+
                Ok(Self { $($field),+ })
            }
        }
    )+};
}

from_fields! {
    NewAccount {
        chain_id: number "chainId",
        key: text "key",
        address: text "address",
        mode: text "mode",
        label: text "label",
        window: number "window",
        max_fee_per_gas: number "maxFeePerGas",
        max_tx_fee: number "maxTxFee",
        max_value: number "maxValue",
        allowed_calls: texts "allowedCalls",
        reason: text "reason",
    }
    AccountChange {
        label: change_of_text "label",
        window: change_of_number "window",
        max_fee_per_gas: change_of_number "maxFeePerGas",
        max_tx_fee: change_of_number "maxTxFee",
        max_value: change_of_number "maxValue",
        allowed_calls: change_of_texts "allowedCalls",
        enabled: flag "enabled",
        reason: text "reason",
    }
    Create {
        chain_id: number "chainId",
        submitter: text "submitter",
        request_id: text "requestId",
        payload: object "payload",
        raw_tx: text "rawTx",
        speed: text "speed",
        max_fee_per_gas: number "maxFeePerGas",
        valid_until: text "validUntil",
        not_before: text "notBefore",
        replaceable: flag "replaceable",
        route: text "route",
        fallback_after: text "fallbackAfter",
        metadata: raw "metadata",
    }
    Payload {
        to: text "to",
        value: number "value",
        data: text "data",
        gas: number "gas",
        max_priority_fee_per_gas: number "maxPriorityFeePerGas",
        kind: text "type",
        access_list: objects "accessList",
        authorization_list: objects "authorizationList",
    }
    AuthorizationItem {
        chain_id: number ?required "chainId",
        address: text ?required "address",
        nonce: number ?required "nonce",
        authority: text "authority",
        y_parity: number "yParity",
        r: number "r",
        s: number "s",
    }
    Replacement {
        max_fee_per_gas: number "maxFeePerGas",
        max_priority_fee_per_gas: number "maxPriorityFeePerGas",
        payload: object "payload",
        reason: text "reason",
    }
    NewPayload { to: text "to", value: number "value", data: text "data", gas: number "gas" }
    Reason { reason: text "reason" }
    RequiredReason { reason: text "reason" }
    NewMode { mode: text "mode", reason: text "reason" }
    FillNonces {
        first: number "first",
        last: number "last",
        with: text "with",
        used: flag "used",
        reason: text "reason",
    }
    NewCursor { next_nonce: number "nextNonce", reason: text "reason" }
    RotateApiKey { grace: text "grace", reason: text "reason" }
    Reserve { hold_seconds: number "holdSeconds" }
    UsedNonce { owner_token: text ?required "ownerToken", tx_hash: text ?required "txHash" }
    ReturnedNonce { owner_token: text ?required "ownerToken", reason: text ?required "reason" }
}

impl FromFields for Access {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let address = fields.text("address")?;
        let address = fields.required("address", address)?;
        let storage_keys = fields.texts("storageKeys")?;
        Ok(Self { address, storage_keys: fields.required("storageKeys", storage_keys)? })
    }
}

impl FromFields for NewPool {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let members = fields.texts("members")?;
        let members = fields.required("members", members)?;
        Ok(Self { members, reason: fields.text("reason")? })
    }
}

impl FromFields for NewApiKey {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        // An empty list reads as none, and would be taken for all.
        let listed = |field: &str, list: Option<Vec<String>>| match list {
            Some(list) if list.is_empty() => {
                let what = "must not be empty; leave it out for all";
                Err(Problem::of_field(ErrorCode::InvalidField, field, what))
            }
            list => Ok(list.unwrap_or_default()),
        };
        let chains = fields.array("chains")?;
        if chains.as_ref().is_some_and(Vec::is_empty) {
            listed("chains", Some(Vec::new()))?;
        }
        let chains = chains.unwrap_or_default();
        let chain = |(place, id): (usize, &RawValue)| {
            let what = "must be the id of a chain, a whole number";
            let bad =
                || Problem::of_field(ErrorCode::InvalidField, &format!("chains[{place}]"), what);
            id.get().parse::<u64>().map_err(|_| bad())
        };
        Ok(Self {
            name: fields.text("name")?,
            roles: fields.texts("roles")?,
            tenant: fields.text("tenant")?,
            chains: chains.into_iter().enumerate().map(chain).collect::<Result<_, _>>()?,
            submitters: listed("submitters", fields.texts("submitters")?)?,
            pools: listed("pools", fields.texts("pools")?)?,
            rate: fields.text("rate")?,
            expires_at: fields.text("expiresAt")?,
            reason: fields.text("reason")?,
        })
    }
}

/// The reason of a change, for the audit log. A blank one is none.
pub(crate) fn given_reason(reason: Option<String>) -> Result<Option<Text<500>>, Problem> {
    let given = reason.filter(|reason| !reason.trim().is_empty());
    given.map(|reason| read_reason(&reason)).transpose()
}

fn read_reason(reason: &str) -> Result<Text<500>, Problem> {
    if reason.chars().any(char::is_control) {
        let what = "must not hold control characters";
        return Err(Problem::of_field(ErrorCode::InvalidField, "reason", what));
    }
    Ok(Text::new("reason", reason)?)
}

/// A name for people: a terminal must not obey it, and it must read as it is written.
pub(crate) fn read_name(field: &'static str, name: &str) -> Result<Text<100>, Problem> {
    if name.chars().any(|c| c.is_control() || is_invisible(c)) {
        let what =
            "must not hold control characters, nor invisible ones or such that turn its direction";
        return Err(Problem::of_field(ErrorCode::InvalidField, field, what));
    }
    Ok(Text::new(field, name)?)
}

/// The reason of an action as the history of its transaction has it.
pub(crate) fn reason_or_none(given: Option<&Text<500>>) -> Text<500> {
    given.cloned().unwrap_or_else(|| Text::lossy(NO_REASON))
}

/// A reason that must be given.
pub(crate) fn required_reason(reason: Option<String>) -> Result<Text<500>, Problem> {
    let given = reason.filter(|reason| !reason.trim().is_empty());
    read_reason(&given.ok_or_else(|| Problem::missing("reason"))?)
}

/// A nonce that must be given.
pub(crate) fn read_nonce(field: &str, given: Option<&Number>) -> Result<Nonce, Problem> {
    let number = given.ok_or_else(|| Problem::missing(field))?;
    Ok(Nonce::new(number.read_u64(field, 0..=Nonce::MAX.get())?)?)
}

/// The value with this name, out of a few.
pub(crate) fn one_of<T: Copy>(field: &str, name: &str, values: &[(&str, T)]) -> Result<T, Problem> {
    let found = values.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let what = format!("{} must be {}", quoted(name), names.join(" or "));
        Problem::of_field(ErrorCode::InvalidBody, field, what)
    })
}
