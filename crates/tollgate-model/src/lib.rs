//! The rules of Tollgate, and the ports through which the rest of the world is reached.
//!
//! Everything here is a value or a pure function: no I/O, no clock, no runtime. Stores, chains and
//! signers implement the traits in [`port`]; actors ask the functions here what to do and then do
//! it. A rule that is needed in two places belongs here.
//!
//! Read in the order of a transaction's life: [`ids`] (who and what), [`state`] and
//! [`transition`] (where a transaction can be and how it moves), [`nonce`] (which slot it gets),
//! [`port`] (what a store must promise).
//!
//! What is decided about an open transaction, one rule to a module (`docs/decisions.md` has their
//! tables): [`expiry`] (is it still wanted), [`resubmit`] and [`gap`] (is it sent again), [`bump`]
//! (does it offer more), [`diagnose`] (what do the pools say), [`rejected`] (what becomes of a slot that no node
//! wants to fill), [`stuck`] (who is asked, and what may be done), [`reconcile`] (does the chain agree).
//!
//! Before there is a transaction: [`refusal`] (would the chain certainly refuse it).
//!
//! And about nodes: [`ownership`] (who should work for a submitter). What both stores share is in [`sql`].

pub mod amount;
pub mod answer;
pub mod bump;
pub mod diagnose;
pub mod expiry;
pub mod fee_agreement;
pub mod fees;
pub mod fill;
pub mod finality;
pub mod gap;
pub mod hole;
pub mod ids;
pub mod intent;
pub mod metadata;
pub mod mode;
pub mod nonce;
pub mod ownership;
pub mod port;
pub mod reconcile;
pub mod refusal;
pub mod rejected;
pub mod resubmit;
pub mod secret;
pub mod sql;
pub mod state;
pub mod stuck;
pub mod text;
pub mod time;
pub mod transition;

pub use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
pub use amount::{GasPrice, Wei};
pub use ids::{ChainId, FencingToken, NodeId, Nonce, RequestId, Seq, Submitter, TxHash, TxId};
pub use intent::Intent;
pub use state::{Allocated, Failed, Queued, StuckReason, Tracking, TxState};
pub use text::Text;
pub use time::Timestamp;
pub use transition::{IllegalMove, TxEvent, transition};
