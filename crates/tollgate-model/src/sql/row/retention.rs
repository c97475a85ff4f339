//! Rows of finished and removed transactions.

use super::{Decoded, SqlRow, flag, hash, int, optional_hash, request_id, state, submitter, time};
use super::{tx_id, unreadable};
use crate::ids::Seq;
use crate::port::{FinishedTx, RemovedTx};

/// A transaction that ended long enough ago.
pub fn finished_tx(row: &impl SqlRow) -> Decoded<FinishedTx> {
    let (seq, tx_id, is_removable) = (seq(row, "seq")?, tx_id(row)?, flag(row, "is_removable")?);
    Ok(FinishedTx { seq, tx_id, is_removable })
}

/// The row that is kept of a removed transaction.
pub fn removed_tx(row: &impl SqlRow) -> Decoded<RemovedTx> {
    Ok(RemovedTx {
        tx_id: tx_id(row)?,
        submitter: submitter(row)?,
        request_id: request_id(row)?,
        payload_digest: hash(row, "payload_digest")?,
        state: state(row, "state")?,
        tx_hash: optional_hash(row, "tx_hash")?,
        finished_at: time(row, "finished_at")?,
        removed_at: time(row, "removed_at")?,
    })
}

/// A number of the feed.
pub fn seq(row: &impl SqlRow, column: &str) -> Decoded<Seq> {
    Seq::from_i64(int(row, column)?).map_err(unreadable)
}
