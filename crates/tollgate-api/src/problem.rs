//! Problems: errors in the form of RFC 9457.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::code::ErrorCode;
use crate::removed::RemovedTx;
use crate::schema;

/// An error in the form of RFC 9457.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The path of the page about the code, on any node.
    pub r#type: String,
    /// The meaning of the code, in a few words.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    pub status: u16,
    /// The code to switch on. A code never changes its meaning.
    #[schema(value_type = ErrorCode)]
    pub code: Cow<'static, str>,
    /// The details of this error, for people.
    pub detail: String,
    /// The field, parameter or header that it is about, like `payload.value`. Left out if it is
    /// about none or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The name of this one call, as in the header `x-request-id` and in the node's log.
    pub trace_id: String,
    /// The same call can succeed later; the answer has `Retry-After` then.
    pub retryable: bool,
    /// The URL of the node that owns the submitter, if it is known. Only with `not_owner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The least that would replace the transaction. Only with `fee_too_low_to_replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<MinimumFees>,
    /// The cap in the way. Only with `fee_cap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<FeeCapReached>,
    /// The oldest number that is still in the feed. Only with `cursor_removed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
    /// The fields that are kept of the transaction. Only with `tx_removed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<RemovedTx>,
    /// The missing funds. Only with `insufficient_funds`, unless a node says so of an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub funds: Option<MissingFunds>,
}

impl Problem {
    /// A problem about nothing in particular. The trace id is added where it is answered.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: format!("/docs/errors/{}", code.name()),
            title: code.title().into(),
            status: code.status(),
            code: code.name().into(),
            detail: detail.into(),
            field: None,
            trace_id: String::new(),
            retryable: code.is_retryable(),
            owner: None,
            minimum: None,
            cap: None,
            oldest: None,
            removed: None,
            funds: None,
        }
    }

    /// The code, if this version knows it.
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::of(&self.code)
    }
}

/// The least that replaces a transaction in a pool.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct MinimumFees {
    /// In wei per gas.
    #[schema(value_type = schema::Amount)]
    pub max_fee_per_gas: String,
    /// In wei per gas; null for legacy transactions.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub max_priority_fee_per_gas: Option<String>,
}

/// A cap that is below what a replacement needs.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct FeeCapReached {
    /// `maxFeePerGas` of the create, `chain.max_fee_per_gas` or `chain.max_tx_fee`.
    pub name: Cow<'static, str>,
    /// The highest price that it allows, in wei per gas.
    #[schema(value_type = schema::Amount)]
    pub allows: String,
    /// The price that is needed, in wei per gas.
    #[schema(value_type = schema::Amount)]
    pub needed: String,
}

/// The cost of a transaction, and the funds that the account has for it.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct MissingFunds {
    /// The value, and all of the gas at the price that is offered, in wei.
    #[schema(value_type = schema::Amount)]
    pub needed: String,
    /// The balance less what the account's open transactions may cost, in wei.
    #[schema(value_type = schema::Amount)]
    pub available: String,
}
