//! The shapes that callers rely on. Each is a type with a schema, so that the OpenAPI document says
//! what is sent.

mod action;
mod feed;
mod history;
mod nonce;
mod submitter;
mod tx;

pub(crate) use tollgate_api::format_time as time;
use tollgate_model::Address;

pub(crate) use action::{ActionAnswer, ActionOutcome};
pub(crate) use feed::Feed;
pub(crate) use history::{HistoryPage, SubmitterHistoryPage};
pub(crate) use nonce::{Reservation, ReservationPage, ReservedNonce};
pub(crate) use submitter::{
    AdvancedSubmitter, ChainSide, FilledSubmitter, Holes, ReconciledSubmitter, RemodedSubmitter,
    StoodSubmitter, Submitter, SubmitterPage,
};
pub(crate) use tx::{
    BatchAnswer, BatchEntry, BatchItem, BlockedBy, OperatorTx, Simulation, Tx, TxAnswer, TxPage,
};

/// With the EIP-55 checksum.
pub(crate) fn address(address: Address) -> String {
    address.to_checksum(None)
}
