//! The shapes that callers rely on. Each is a type with a schema, so that the OpenAPI document says
//! what is sent.

mod action;
mod feed;
mod history;
mod nonce;
mod submitter;
mod tx;

use tollgate_model::{Address, Timestamp};

pub(crate) use action::{ActionAnswer, ActionOutcome};
pub(crate) use feed::Feed;
pub(crate) use history::{HistoryPage, SubmitterHistoryPage};
pub(crate) use nonce::{Reservation, ReservationPage, ReservedNonce};
pub(crate) use submitter::{
    AdvancedSubmitter, ChainSide, FilledSubmitter, ReconciledSubmitter, RemodedSubmitter,
    StoodSubmitter, Submitter, SubmitterPage,
};
pub(crate) use tx::{
    BatchAnswer, BatchEntry, BatchItem, BlockedBy, OperatorTx, Simulation, Tx, TxAnswer, TxPage,
};

/// RFC 3339 in UTC.
pub(crate) fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.unix_micros())
        .map_or_else(|_| "out of range".to_owned(), |time| time.to_string())
}

/// With the EIP-55 checksum.
pub(crate) fn address(address: Address) -> String {
    address.to_checksum(None)
}
