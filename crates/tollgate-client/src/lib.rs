//! A client that goes straight to the node that works for a submitter.
//!
//! Any node takes any request and passes it on, so this is never needed for correctness; it saves the
//! second hop. [`Route`] remembers which node said that it is the owner, [`Advice`] is what an answer
//! asks of its caller, and [`Client`] does with both what every caller should do: it asks again under
//! the same request id, elsewhere if that helps, until there is an answer that says something.
//!
//! Knows a node only by its API. Never asks a node that it was not told of, and never makes up a
//! request id: one that changed from try to try would make a second transaction.

mod advice;
mod client;
mod route;

pub use advice::{Advice, Problem};
pub use client::{Answer, BadUrl, Client, ClientError, Patience};
pub use route::Route;

/// The header of an answer that says where the node is that works for the submitter.
pub const OWNER: &str = "tollgate-owner";
/// The header of a request that says which chain it is for. A node of another chain does nothing and
/// answers `wrong_chain` (`not_owner` to a node that passed the request on, so that another one is asked).
pub const CHAIN_ID: &str = "tollgate-chain-id";
/// The header of an answer for which another node was asked.
pub const FORWARDED: &str = "tollgate-forwarded";
