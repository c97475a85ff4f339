//! Attempts: the signed forms of a transaction.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate_model::port::{Attempt as StoredAttempt, Fees as StoredFees, HistoryEntry, TxRecord};
use tollgate_model::{Timestamp, TxEvent, TxHash};
use utoipa::ToSchema;

use crate::schema;
use crate::time::format_time;

/// One signed form of a transaction.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// 1 for the first.
    pub number: u16,
    /// Its hash.
    #[schema(value_type = schema::Hash)]
    pub tx_hash: String,
    /// The purpose of the attempt.
    #[schema(value_type = schema::AttemptKind)]
    pub kind: Cow<'static, str>,
    /// The gas limit and the fees.
    pub fees: Fees,
    /// When it was signed and kept.
    #[schema(value_type = schema::Time)]
    pub created_at: String,
    /// When the audit trail first shows that it was sent; null if it does not.
    #[schema(value_type = Option<schema::Time>, required)]
    pub sent_at: Option<String>,
    /// `open`: may still be mined. `mined`: it is in a block. `superseded`: its slot went another way.
    #[schema(value_type = schema::Outcome)]
    pub outcome: Cow<'static, str>,
}

/// Gas limit and fees of an attempt, in wei.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Fees {
    /// The most gas it may use.
    #[schema(value_type = schema::Amount)]
    pub gas: String,
    /// The most it pays for a unit of gas; the gas price of a legacy transaction.
    #[schema(value_type = schema::Amount)]
    pub max_fee_per_gas: String,
    /// The tip; null for a legacy transaction.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub max_priority_fee_per_gas: Option<String>,
}

impl Attempt {
    /// The attempts of a transaction, in order, with what the audit trail tells of their sends.
    pub(crate) fn of(
        record: &TxRecord,
        attempts: &[StoredAttempt],
        history: &[HistoryEntry],
    ) -> Vec<Self> {
        let mined = record.mined.as_ref().map(|mined| mined.tx_hash);
        let is_final = record.row.state.is_final();
        let shown = attempts.iter().zip(1..).map(|(attempt, next)| {
            let until = attempts.get(next).map(|next| next.created_at);
            Self {
                number: attempt.number,
                tx_hash: attempt.tx_hash.to_string(),
                kind: attempt.kind.name().into(),
                fees: (&attempt.fees).into(),
                created_at: format_time(attempt.created_at),
                sent_at: sent_at(history, attempt.created_at, until).map(format_time),
                outcome: outcome(attempt.tx_hash, mined, is_final).into(),
            }
        });
        shown.collect()
    }
}

impl From<&StoredFees> for Fees {
    fn from(fees: &StoredFees) -> Self {
        Self {
            gas: fees.gas_limit.to_string(),
            max_fee_per_gas: fees.max_fee.to_string(),
            max_priority_fee_per_gas: fees.max_priority_fee.map(|fee| fee.to_string()),
        }
    }
}

/// The outcome of an attempt of a transaction of which `mined` is in a block.
fn outcome(attempt: TxHash, mined: Option<TxHash>, is_final: bool) -> &'static str {
    match mined {
        Some(mined) if mined == attempt => "mined",
        Some(_) => "superseded",
        None if is_final => "superseded",
        None => "open",
    }
}

/// The first entry that shows a send, between an attempt and the next one.
fn sent_at(
    history: &[HistoryEntry],
    from: Timestamp,
    until: Option<Timestamp>,
) -> Option<Timestamp> {
    let sends = [
        TxEvent::NodeAccepted,
        TxEvent::AnswerUnclear,
        TxEvent::FundsMissing,
        TxEvent::Resent,
        TxEvent::Mined,
    ];
    let sends = sends.map(TxEvent::name);
    history
        .iter()
        .filter(|entry| sends.contains(&entry.event.as_str()))
        .map(|entry| entry.at)
        .find(|at| *at >= from && until.is_none_or(|until| *at < until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_is_open_until_its_slot_is_used() {
        let (ours, other) = (TxHash::repeat_byte(1), TxHash::repeat_byte(2));
        assert_eq!(outcome(ours, None, false), "open");
        assert_eq!(outcome(ours, Some(ours), false), "mined");
        assert_eq!(outcome(ours, Some(other), false), "superseded");
        assert_eq!(outcome(ours, None, true), "superseded");
    }
}
