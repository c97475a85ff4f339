//! The wire of Tollgate's HTTP API: requests, answers, error codes, formats, headers and paths.
//!
//! Used by whoever speaks it: server, command line, clients, stuck hooks. Every type can be written,
//! read and described in the OpenAPI document. Knows the model only: no HTTP library, no engine.
//! Requests are plain data here; the server reads them more strictly than `Deserialize` does, so that
//! it can name the field that is wrong.

mod account;
mod account_pool;
mod action;
mod amount;
mod api_key;
mod attempt;
mod audit;
mod call;
mod chain;
mod code;
mod create;
mod duration;
mod event;
mod feed;
pub mod header;
mod history;
mod hook;
mod invalid;
pub mod limit;
mod node;
mod nonce;
mod number;
mod page;
pub mod path;
mod preference;
mod problem;
mod removed;
mod report;
mod result;
pub mod schema;
mod submitter;
mod time;
mod tx;

pub use account::{AccountChange, EffectiveSetting, EffectiveSettings, NewAccount};
pub use account_pool::{NewPool, Pool, PoolEntry, PoolMember};
pub use action::{ActionAnswer, ActionOutcome, NewPayload, Reason, Replacement};
pub use amount::{format_eth, parse_amount};
pub use api_key::{ApiKey, ApiKeyPage, MadeApiKey, NewApiKey, RotateApiKey};
pub use attempt::{Attempt, Fees};
pub use audit::AuditEntry;
pub use call::{check_fees, read_address, read_hash, read_hex};
pub use chain::{Chain, ChainList, ChainWithEndpoints, Endpoint, Ready};
pub use code::ErrorCode;
pub use create::{
    Access, AuthorizationItem, Batch, BatchAnswer, BatchItem, Create, Payload, Simulation,
};
pub use duration::{format_duration, parse_duration};
pub use event::{Event, EventData, EventPage};
pub use feed::{Completion, Feed};
pub use history::{HistoryEntry, StateName, SubmitterEntry};
pub use hook::{HookAttempt, HookPayload, HookQuestion, HookTx};
pub use invalid::{Invalid, quoted, shortened};
pub use node::{Node, NodeList};
pub use nonce::{Reservation, Reserve, ReservedNonce, ReturnedNonce, UsedNonce};
pub use number::{NUMBER_FORMS, Number, parse_number};
pub use page::{
    AuditPage, HistoryPage, PoolPage, ReservationPage, SubmitterHistoryPage, SubmitterPage, TxPage,
};
pub use preference::{WaitPreference, WaitUntil};
pub use problem::{FeeCapReached, MinimumFees, MissingFunds, Problem};
pub use removed::RemovedTx;
pub use report::{CostGroup, CostReport};
pub use result::{ConfirmationBlock, ConfirmationList, Log, TxLogs, TxResult};
pub use submitter::{
    CursorMoved, FillNonces, Filled, ModeChanged, NewCursor, NewMode, Reconciled, RequiredReason,
    StatusChanged, Submitter,
};
pub use time::{format_time, parse_time};
pub use tx::{BlockedBy, OperatorTx, Tx, TxAnswer};
