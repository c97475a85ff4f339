//! The ports: the interfaces through which the engine reaches databases, chains, signers and clocks.
//!
//! [`Store`] is the database, split by area: [`LeaseStore`] (who may write), [`TxStore`] (the
//! fenced batch and everything read back), [`FeedStore`] (outcomes in order), [`ReservationStore`]
//! (nonces for callers that send by themselves), [`NodeStore`] (the live nodes), [`AccountStore`]
//! (accounts that are opened while nodes run), [`AccountPoolStore`] (named sets of accounts),
//! [`ApiKeyStore`] (keys of callers), [`RetentionStore`] (finished transactions that are removed),
//! [`RestoreStore`] (a database that was restored from a backup), [`AlertStore`] (alerts, and the notices
//! about them), [`EventStore`] (events for receivers outside), [`AuditStore`] (who asked for a change).
//! [`Chain`](chain::Chain), [`Signer`](signer::Signer), [`Clock`](clock::Clock),
//! [`Ids`](ids::Ids) and [`StuckPolicy`](policy::StuckPolicy) are the rest.

pub mod account;
pub mod account_pool;
pub mod alert;
pub mod alert_store;
pub mod api_key;
pub mod audit;
pub mod batch;
pub mod chain;
pub mod checkpoint;
pub mod clock;
pub mod error;
pub mod event;
pub mod feed;
pub mod ids;
pub mod lease;
pub mod node;
pub mod policy;
pub mod record;
pub mod reservation;
pub mod restore;
pub mod retention;
pub mod signer;
pub mod span;
pub mod tx;
pub mod wait;

pub use account::{AccountStore, KeyUnavailable, Keys, NoKeys, StoredAccount};
pub use account_pool::AccountPoolStore;
pub use alert::{Alert, AlertKind, Alerts};
pub use alert_store::{
    AlertNotice, AlertPhase, AlertReport, AlertStore, NoticeClaim, NoticeOutcome, StoredAlert,
};
pub use api_key::{ApiKeyStore, StoredApiKey};
pub use audit::AuditStore;
pub use batch::{
    AttemptKind, BatchLimits, Confirmations, CreateAnswer, CursorMove, Evidence, Fees, FencedBatch,
    Judgement, ModeChange, NewAttempt, NewTx, Payload, Schedule, Section, SectionFacts,
    SectionOutcome, Slot, StatusChange, SubmitterAuditEntry, TxUpdate, UpdateAnswer, judge,
};
pub use checkpoint::{Checkpoint, Checkpoints, NoCheckpoints};
pub use error::{Cause, StoreError};
pub use event::{DeadLetter, EventBounds, EventPage, EventStore, SinkClaim, StoredEvents};
pub use feed::{Completion, FeedFilter, FeedKind, FeedPage, FeedStore};
pub use lease::{Acquisition, GrantKind, Lease, LeaseStore, LeaseTerms, OrphanPage, Owner};
pub use node::{LiveNode, NodeStore, PeerKey, ServedSet};
pub use record::{
    Attempt, ChainRegistration, FinalSlot, HistoryEntry, KnownRequest, LineHead, OpenTx,
    ReceiptDetails, RowVersion, SlotState, SubmitterEntry, SubmitterOverview, SubmitterRecord,
    SubmitterSetup, TxReceipt, TxRecord,
};
pub use reservation::{Reservation, ReservationState, ReservationStore, Reserve, ReturnedNonces};
pub use restore::{RestoreOutcome, RestoreStore, RestoreSummary};
pub use retention::{FinishedRecord, FinishedTx, RemovedTx, RetentionStore};
pub use tx::{ListFilter, Page, Settled, StateFilter, TxStore};
pub use wait::{SubmitterWait, WaitKind};

/// A whole database: every area behind one handle.
pub trait Store:
    LeaseStore
    + TxStore
    + FeedStore
    + ReservationStore
    + NodeStore
    + AccountStore
    + AccountPoolStore
    + ApiKeyStore
    + RetentionStore
    + RestoreStore
    + AlertStore
    + EventStore
    + AuditStore
{
}

impl<T> Store for T where
    T: LeaseStore
        + TxStore
        + FeedStore
        + ReservationStore
        + NodeStore
        + AccountStore
        + AccountPoolStore
        + ApiKeyStore
        + RetentionStore
        + RestoreStore
        + AlertStore
        + EventStore
        + AuditStore
{
}
