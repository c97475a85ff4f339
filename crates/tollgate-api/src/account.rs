//! Accounts that are opened and changed while nodes run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::number::Number;
use crate::schema;

/// An account to open.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewAccount {
    /// The chain. Needed where the node serves several.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<Number>,
    /// The reference to its key: `env:TOLLGATE_KEY_…`, `file:NAME`, `keystore:ADDRESS`, `hd:N`; or
    /// `caller` for an account whose transactions come signed. Never a key itself.
    #[schema(required, example = "hd:7")]
    pub key: Option<String>,
    /// The account. Needed with `caller`; otherwise it must be that of the key.
    #[schema(value_type = Option<schema::Address>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `pipelined` or `strict`; that of new accounts of the node if left out.
    #[schema(value_type = Option<schema::Mode>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// A name for people: up to 100 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Slots that may be in flight at once; the chain's if left out.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Number>,
    /// The highest price for a unit of gas, in wei; the chain's if left out.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fee_per_gas: Option<Number>,
    /// The highest fee of one transaction, in wei; the chain's if left out.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tx_fee: Option<Number>,
    /// The highest value of one transaction, in wei; any if left out. Tokens that call data move are not
    /// counted.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_value: Option<Number>,
    /// The calls that it may make: `ADDRESS`, `ADDRESS:0xSELECTOR`, `ADDRESS:value` (no call data), `create`,
    /// `set-code`. All if left out.
    #[schema(min_items = 1, max_items = 200)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_calls: Option<Vec<String>>,
    /// For the audit log: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A change of an account's own settings. What is left out stays; null takes a setting back to the chain's.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccountChange {
    /// A name for people: up to 100 bytes.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none", with = "change")]
    pub label: Option<Option<String>>,
    /// Slots that may be in flight at once.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(default, skip_serializing_if = "Option::is_none", with = "change")]
    pub window: Option<Option<Number>>,
    /// The highest price for a unit of gas, in wei.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(default, skip_serializing_if = "Option::is_none", with = "change")]
    pub max_fee_per_gas: Option<Option<Number>>,
    /// The highest fee of one transaction, in wei.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(default, skip_serializing_if = "Option::is_none", with = "change")]
    pub max_tx_fee: Option<Option<Number>>,
    /// The highest value of one transaction, in wei; null allows any.
    #[schema(value_type = Option<schema::Number>)]
    #[serde(default, skip_serializing_if = "Option::is_none", with = "change")]
    pub max_value: Option<Option<Number>>,
    /// The calls that it may make, all of them anew; null allows all.
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 200)]
    #[serde(default, skip_serializing_if = "Option::is_none", with = "change")]
    pub allowed_calls: Option<Option<Vec<String>>>,
    /// `false`: new transactions are refused; open ones go on to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// For the audit log: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Tells null from a missing field.
mod change {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Option::<T>::deserialize(deserializer).map(Some)
    }
}

/// A setting that holds for an account, and where it comes from.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct EffectiveSetting {
    /// The value, as text; null if there is none.
    #[schema(required)]
    pub value: Option<String>,
    /// `account`: its own; `chain`: of the chain's entry in the node's settings; `node`: of the node's
    /// settings for all chains, or a default.
    pub from: Cow<'static, str>,
}

/// The settings that hold for an account: its own win over the chain's, and the chain's over the node's.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSettings {
    /// Slots of a pipelined account that may be in flight at once.
    pub window: EffectiveSetting,
    /// The highest price for a unit of gas, in wei.
    pub max_fee_per_gas: EffectiveSetting,
    /// The highest fee of one transaction, in wei.
    pub max_tx_fee: EffectiveSetting,
    /// The highest value of one transaction, in wei; null if there is no cap.
    #[schema(required)]
    pub max_value: Option<String>,
    /// The calls that it may make; null if it may make all.
    #[schema(required)]
    pub allowed_calls: Option<Vec<String>>,
}
