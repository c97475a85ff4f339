//! What became of an action.

use serde::Serialize;
use tollgate_model::TxHash;
use utoipa::ToSchema;

use super::OperatorTx;
use crate::http::schema;

/// What an action did.
#[derive(Clone, Copy)]
pub(crate) enum ActionOutcome {
    /// The transaction ended without a nonce.
    Withdrawn,
    /// A further attempt is on its way.
    Signed(TxHash),
    /// The newest bytes are on their way again.
    Resent,
    /// It had begun before, or the policy is being asked.
    UnderWay,
    /// It is cancelled already.
    Done,
}

/// What an action did, and the transaction as it is since.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActionAnswer {
    /// What was done.
    #[schema(value_type = schema::ActionOutcome)]
    outcome: &'static str,
    /// The hash of the attempt that was signed for it; null if there is none.
    #[schema(value_type = Option<schema::Hash>, required)]
    tx_hash: Option<String>,
    /// The transaction, as operators see it.
    tx: OperatorTx,
}

impl ActionAnswer {
    pub(crate) fn new(outcome: ActionOutcome, tx: OperatorTx) -> Self {
        let (outcome, signed) = match outcome {
            ActionOutcome::Withdrawn => ("withdrawn", None),
            ActionOutcome::Signed(hash) => ("signed", Some(hash)),
            ActionOutcome::Resent => ("resent", None),
            ActionOutcome::UnderWay => ("under_way", None),
            ActionOutcome::Done => ("done", None),
        };
        Self { outcome, tx_hash: signed.map(|hash| hash.to_string()), tx }
    }
}
