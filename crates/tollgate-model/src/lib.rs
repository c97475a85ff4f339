//! The rules of Tollgate, and the ports through which it reaches databases, chains and signers.
//!
//! Everything here is a value or a pure function: no I/O, no clock, no runtime. Stores, chains and signers
//! implement the traits in [`port`]; actors call the functions here to decide and then act. A rule that
//! is needed in two places belongs here.
//!
//! Read in the order of a transaction's life: [`ids`] (identities), [`state`] and [`transition`] (states and
//! transitions), [`nonce`] (which slot it gets), [`port`] (what a store guarantees).
//!
//! The decisions about an open transaction, one rule per module (`docs/decisions.md` has their tables):
//! [`expiry`] (is it still wanted), [`resubmit`] and [`gap`] (is it sent again), [`bump`] (are its fees
//! raised), [`hindrance`] (what keeps blocks from including it), [`diagnose`] (what do the pools show),
//! [`rejected`] (what happens to a slot that no node accepts), [`stuck`] (which policy is asked, and what
//! may be done), [`reconcile`] (does the chain agree), [`receipt_support`] (is its receipt confirmed).
//!
//! Before there is a transaction: [`refusal`] (would the chain certainly refuse it), [`account_pool`] (which
//! member of a pool takes it).
//!
//! About callers: [`access`] (which calls an API key allows), [`audit`] (who asked for a change). About nodes: [`ownership`] (which node should own a submitter).
//! About people: [`alert`] (what they are told, when, and when it is over), [`doctor`] (why an account makes no
//! progress, from what endpoints tell), [`top_up`] (when an
//! account below its floor is paid, and how much). About receivers outside: [`event`] (what a change reports),
//! [`trace`] (the caller's trace). What both
//! stores share is in [`sql`].

#![allow(missing_docs, reason = "a name and type that say it all need no sentence")]

#[macro_use]
mod names;

pub mod access;
pub mod account;
pub mod account_pool;
pub mod alert;
pub mod amount;
pub mod answer;
pub mod audit;
pub mod authorization;
pub mod bump;
pub mod burn;
pub mod count_mark;
pub mod diagnose;
pub mod doctor;
pub mod event;
pub mod expiry;
pub mod fee_agreement;
pub mod fees;
pub mod fill;
pub mod finality;
pub mod gap;
pub mod gas_agreement;
pub mod hindrance;
pub mod hole;
pub mod ids;
pub mod intent;
pub mod metadata;
pub mod mode;
pub mod nonce;
pub mod ownership;
pub mod port;
pub mod receipt_support;
pub mod reconcile;
pub mod refusal;
pub mod rejected;
pub mod resubmit;
pub mod route;
pub mod schedule;
pub mod secret;
pub mod spending;
pub mod sql;
pub mod state;
pub mod stuck;
#[cfg(test)]
mod test_values;
pub mod text;
pub mod time;
pub mod top_up;
pub mod trace;
pub mod transition;
pub mod waiting;

pub use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
pub use amount::{GasPrice, Wei};
pub use ids::{ChainId, FencingToken, NodeId, Nonce, RequestId, Seq, Submitter, TxHash, TxId};
pub use intent::Intent;
pub use route::{PrivateRoute, Route};
pub use state::{Allocated, Failed, Queued, StuckReason, Tracking, TxState};
pub use text::Text;
pub use time::Timestamp;
pub use trace::TraceParent;
pub use transition::{IllegalMove, TxEvent, transition};
