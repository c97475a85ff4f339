//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::account_pool::PoolEntry;
use crate::audit::AuditEntry;
use crate::history::{HistoryEntry, SubmitterEntry};
use crate::nonce::Reservation;
use crate::submitter::Submitter;
use crate::tx::Tx;

/// Declares pages: the types of their items and of `next`.
macro_rules! pages {
    ($($(#[doc = $about:literal])+ $name:ident: $item:ty, $next:ty = $about_next:literal;)+) => {$(
        $(#[doc = $about])+
        #[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
        pub struct $name {
            /// The items, in order.
            pub items: Vec<$item>,
            #[doc = $about_next]
            #[schema(required)]
            pub next: Option<$next>,
        }
    )+};
}

pages! {
    /// A page of transactions, newest first.
    TxPage: Tx, String = "The `cursor` of the next page; null after the last one.";
    /// A page of a transaction's audit trail, oldest first.
    HistoryPage: HistoryEntry, u32 = "The `after` of the next page; null after the last one.";
    /// A page of submitters, in the order of their addresses.
    SubmitterPage: Submitter, String = "The `cursor` of the next page; null after the last one.";
    /// A page of pools, in the order of their names.
    PoolPage: PoolEntry, String = "The `cursor` of the next page; null after the last one.";
    /// A page of a submitter's audit trail, oldest first.
    SubmitterHistoryPage: SubmitterEntry, u64 = "The `after` of the next page; null after the last one.";
    /// A page of the audit log, newest first. It may be shorter than asked for, also if there are more.
    AuditPage: AuditEntry, String = "The `cursor` of the next page; null after the last one.";
    /// A page of nonces, lowest first.
    ReservationPage: Reservation, String = "The `cursor` of the next page; null after the last one.";
}
