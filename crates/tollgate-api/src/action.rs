//! Actions on a transaction: cancel, speed up, resubmit, replace, resolve.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate_model::TxHash;
use utoipa::ToSchema;

use crate::number::Number;
use crate::schema;
use crate::tx::TxAnswer;

/// The body of an action that may have a reason.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// For the audit trail: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    pub reason: Option<String>,
}

/// The replacement of a transaction: at least one of these, besides the reason.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replacement {
    /// The price for a unit of gas, in wei: signed as it is. Below what a replacement needs it is
    /// refused with that minimum, above a cap with the cap. Without it, what a replacement needs and
    /// the market asks, within the caps.
    #[schema(value_type = Option<schema::Number>)]
    pub max_fee_per_gas: Option<Number>,
    /// The tip, in the same way; at most `maxFeePerGas`.
    #[schema(value_type = Option<schema::Number>)]
    pub max_priority_fee_per_gas: Option<Number>,
    /// Another call, where the create said `replaceable`.
    pub payload: Option<NewPayload>,
    /// For the audit trail: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    pub reason: Option<String>,
}

/// A call in the place of another one.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NewPayload {
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
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug)]
pub enum ActionOutcome {
    /// The transaction ended without a nonce.
    Withdrawn,
    /// A further attempt was signed and is being sent.
    Signed(TxHash),
    /// The newest attempt is being sent again.
    Resent,
    /// The same had begun before, or the policy is being asked.
    UnderWay,
    /// The transaction is cancelled already.
    Done,
}

/// The outcome of an action, and the transaction after it.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ActionAnswer {
    /// The outcome.
    #[schema(value_type = schema::ActionOutcome)]
    pub outcome: Cow<'static, str>,
    /// The hash of the attempt that was signed for it; null if there is none.
    #[schema(value_type = Option<schema::Hash>, required)]
    pub tx_hash: Option<String>,
    /// The transaction, as operators see it, or as its caller does.
    pub tx: TxAnswer,
}

impl ActionAnswer {
    /// The answer to an action with this outcome.
    pub fn new(outcome: ActionOutcome, tx: TxAnswer) -> Self {
        let (outcome, signed) = match outcome {
            ActionOutcome::Withdrawn => ("withdrawn", None),
            ActionOutcome::Signed(hash) => ("signed", Some(hash)),
            ActionOutcome::Resent => ("resent", None),
            ActionOutcome::UnderWay => ("under_way", None),
            ActionOutcome::Done => ("done", None),
        };
        Self { outcome: outcome.into(), tx_hash: signed.map(|hash| hash.to_string()), tx }
    }
}
