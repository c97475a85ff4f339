//! The actors that carry an intent to finality.
//!
//! Knows ports, never a database, an RPC client or HTTP. In the order of a transaction's life:
//!
//! - `intake` answers what was accepted before (`lookup` finds it), fills in what an intent leaves open, and gives it to
//!   the submitter's worker, which refuses what the chain would certainly refuse before it chooses a
//!   nonce.
//! - `worker`: one serial task per submitter. Its `intake` makes intents durable with slot and signature,
//!   `evidence` turns what blocks and nodes say into changes, `upkeep` applies the rules at each tick,
//!   `commands` carries out what operators and policies decide, and `journal` is how all of them write.
//! - `committer` groups the writes of all workers into fenced batches.
//! - `sender` hands signed bytes to nodes, in order; `tracker` follows the head and finds receipts;
//!   `keeper` renews all leases in one statement.
//! - `accounts` knows the accounts that the node serves, and their own settings.
//! - `account_pool` finds the member of a pool that takes a create.
//! - `placement` says which node a submitter's work belongs to; `orphans` takes up what nobody owns.
//! - `reserve` serves callers that send by themselves: nonces from the same cursor, under the same lease.
//! - `stable_blocks` gives blocks past the threshold to whoever listens, in order, each once.
//! - `balances` reads the accounts' balances now and then, for metrics.
//! - `supervisor` restarts an actor that panicked.
//!
//! Everything in memory may be lost at any time: a worker that is in doubt starts again from the
//! store.

mod account_pool;
mod accounts;
mod act;
mod authorizations;
mod balances;
mod committer;
mod context;
mod create;
mod default_ports;
mod engine;
mod errors;
mod intake;
mod keeper;
mod lookup;
mod mailbox;
mod options;
mod orphans;
mod placement;
mod reserve;
mod sender;
mod spans;
mod stable_blocks;
mod supervisor;
mod tracker;
mod view;
mod watch;
mod worker;

pub use account_pool::PoolError;
pub use accounts::{AccountError, Accounts, NewAccount, OpenedAccount};
pub use act::{
    ActError, Acted, Action, Fill, Filled, ModeChanged, Operator, PauseOutcome, Reconciled,
};
pub use create::{
    CreateError, Created, NewCreate, PendingCreate, PreparedCreate, SignedIntent, Simulated,
};
pub use default_ports::{LoggedAlerts, RandomIds};
pub use engine::{Engine, EnginePorts};
pub use errors::{Cause, Unserved};
pub use options::{EngineOptions, Policies, ReservationLimits};
pub use placement::{Destination, Place};
pub use reserve::{Reservations, ReserveError};
pub use stable_blocks::{StableBlock, StableBlocks};
pub use view::{ChainView, Standing};
