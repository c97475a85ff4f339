//! Creates: what is asked for, and what a simulation answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_model::port::Fees as StoredFees;
use tollgate_model::{Submitter, U256};
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{Array, Ref};

use crate::attempt::Fees;
use crate::limit::BATCH_ITEMS_MAX;
use crate::number::Number;
use crate::problem::Problem;
use crate::schema;
use crate::tx::Tx;

/// A call to be made from an account.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Create {
    /// The chain. Needed where the node serves several.
    #[schema(value_type = Option<schema::Number>)]
    pub chain_id: Option<Number>,
    /// The account that sends, in any letter case; mixed case must be a right EIP-55 checksum.
    /// Needed with a `payload`. `pool:NAME`: the least loaded account of that pool that can pay; the
    /// answer names it.
    #[schema(value_type = Option<schema::Sender>)]
    pub submitter: Option<String>,
    /// The caller's own name for the request: up to 256 bytes, no control characters. The same id
    /// with the same payload is the same transaction.
    #[schema(value_type = Option<schema::RequestId>)]
    pub request_id: Option<String>,
    /// The call. Needed without a `rawTx`.
    pub payload: Option<Payload>,
    /// A signed transaction (EIP-2718) instead of `submitter` and `payload`. Its nonce must be the
    /// next one of the account that signed it. Without a `requestId` its hash is its name.
    #[schema(value_type = Option<schema::Hex>)]
    pub raw_tx: Option<String>,
    /// The price level.
    #[schema(value_type = Option<schema::Speed>)]
    pub speed: Option<String>,
    /// The most to pay for a unit of gas, in wei. Where the market is above it, the transaction
    /// waits.
    #[schema(value_type = Option<schema::Number>)]
    pub max_fee_per_gas: Option<Number>,
    /// Until when it is wanted. Without a slot by then it ends as CANCELLED; with one, the stuck
    /// policy is asked what becomes of it.
    #[schema(value_type = Option<schema::Time>)]
    pub valid_until: Option<String>,
    /// Before when it is not sent, at most 30 days ahead and before `validUntil`. It is kept at once, has no nonce
    /// until then, and others overtake it.
    #[schema(value_type = Option<schema::Time>)]
    pub not_before: Option<String>,
    /// `true`: a policy or an operator may put another call in its place.
    pub replaceable: Option<bool>,
    /// `private`: only private endpoints of the chain get it while it is not mined, see docs/private-routing.md.
    #[schema(value_type = Option<schema::Route>)]
    pub route: Option<String>,
    /// With the route `private`: the time after its first signature after which public endpoints get it as well,
    /// like `10m`. Without it they never do.
    #[schema(value_type = Option<schema::Duration>)]
    pub fallback_after: Option<String>,
    /// The caller's own notes: any JSON, up to 16384 bytes as text. Given back with the transaction.
    #[schema(value_type = schema::Anything, required = false)]
    pub metadata: Option<Box<RawValue>>,
}

/// A call: target, value, data and how it is sent.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// The called account; left out to create a contract from `data`.
    #[schema(value_type = Option<schema::Address>)]
    pub to: Option<String>,
    /// The value to pay, in wei; 0 if left out.
    #[schema(value_type = Option<schema::Number>)]
    pub value: Option<Number>,
    /// The call's data as 0x-hex.
    #[schema(value_type = Option<schema::Hex>)]
    pub data: Option<String>,
    /// The most gas it may use; estimated if left out.
    #[schema(value_type = Option<schema::Number>)]
    pub gas: Option<Number>,
    /// The tip for a unit of gas, in wei; at most `maxFeePerGas`.
    #[schema(value_type = Option<schema::Number>)]
    pub max_priority_fee_per_gas: Option<Number>,
    /// The encoding; that of the chain if left out.
    #[serde(rename = "type")]
    #[schema(value_type = Option<schema::Kind>)]
    pub kind: Option<String>,
    /// Storage that it says it will touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = schema::AccessList, required = false)]
    pub access_list: Vec<Access>,
    /// Authorizations (EIP-7702), 1 to 64. Needs `to` and `gas`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_list: Vec<AuthorizationItem>,
}

/// The permission of an account to run a contract's code in its place (EIP-7702): signed, or with the own account
/// that Tollgate signs it for.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationItem {
    /// The chain; 0 is any.
    #[schema(value_type = schema::Number)]
    pub chain_id: Number,
    /// The contract; zero ends a delegation.
    #[schema(value_type = schema::Address)]
    pub address: String,
    /// The nonce of the authority that it uses.
    #[schema(value_type = schema::Number)]
    pub nonce: Number,
    /// The account that gives the permission. Needed without a signature.
    #[schema(value_type = Option<schema::Address>)]
    pub authority: Option<String>,
    /// The signature: 0 or 1.
    #[schema(value_type = Option<schema::Number>)]
    pub y_parity: Option<Number>,
    /// The signature's r.
    #[schema(value_type = Option<schema::Number>)]
    pub r: Option<Number>,
    /// The signature's s.
    #[schema(value_type = Option<schema::Number>)]
    pub s: Option<Number>,
}

/// Storage of one contract.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Access {
    /// The contract.
    pub address: String,
    /// The storage keys, 32 bytes each.
    pub storage_keys: Vec<String>,
}

/// The result of a create that was only tried. Nothing was kept, and no nonce was used.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// Always true.
    pub simulated: bool,
    /// The chain that it was tried on.
    pub chain_id: u64,
    /// The account that would send it.
    #[schema(value_type = schema::Address)]
    pub submitter: String,
    /// Gas limit and fees of the first attempt.
    #[serde(flatten)]
    pub fees: Fees,
    /// The most that it could cost, in wei: value, and gas at the highest price.
    #[schema(value_type = schema::Amount)]
    pub max_cost: String,
}

impl Simulation {
    /// The cost of a create with this value at these fees.
    pub fn new(submitter: Submitter, value: U256, fees: &StoredFees) -> Self {
        let gas = U256::from(fees.gas_limit).saturating_mul(U256::from(fees.max_fee.wei()));
        Self {
            simulated: true,
            chain_id: submitter.chain_id.get(),
            submitter: submitter.address.to_checksum(None),
            fees: fees.into(),
            max_cost: value.saturating_add(gas).to_string(),
        }
    }
}

/// Creates to be carried out side by side.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Each as in a create of its own.
    #[schema(schema_with = batch_items)]
    pub items: Vec<Create>,
}

fn batch_items() -> Array {
    let create = ArrayBuilder::new().items(Ref::from_schema_name(Create::name()));
    let about = create.description(Some("Each as in a create of its own."));
    about.min_items(Some(1)).max_items(Some(BATCH_ITEMS_MAX)).build()
}

/// The answer to one item of a batch: a transaction or a problem.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct BatchItem {
    /// The status that a create of its own would have had.
    pub status: u16,
    /// The transaction, if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx: Option<Tx>,
    /// The reason of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// The answers to a batch, in the order of its items.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct BatchAnswer {
    /// One answer for each item.
    pub items: Vec<BatchItem>,
}
