//! Reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The fees of a period.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct CostReport {
    /// A row for each group, in the order of their names.
    pub items: Vec<CostGroup>,
}

/// The fees of the transactions of a group.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct CostGroup {
    /// The chain: its currency is that of the fees.
    pub chain_id: u64,
    /// The account that paid, if grouped by `submitter`.
    #[schema(value_type = Option<schema::Address>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    /// The day on which they became final, in UTC, if grouped by `day`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The values of the metadata that are grouped by: text as it is, other JSON as its text, null where
    /// there is none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Option<String>>,
    /// Transactions that became final.
    pub transactions: u64,
    /// Those of them that were executed.
    pub confirmed: u64,
    /// Gas that they used.
    #[schema(value_type = schema::Amount)]
    pub gas_used: String,
    /// The fees that were paid, in wei, of all whose fee is known.
    #[schema(value_type = schema::Amount)]
    pub fee: String,
    /// Mined transactions whose fee is not known, because a node did not tell the price.
    pub unpriced: u64,
}
