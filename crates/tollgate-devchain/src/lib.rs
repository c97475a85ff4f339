//! A chain you can break: for development, demonstrations and tests of what sends transactions.
//!
//! Two layers, strictly apart:
//!
//! - **The core** ([`chain`], with [`dialect`] and [`fault`]): pure and deterministic. Accounts,
//!   mempools with the real rules, EIP-1559 fees, blocks on demand, receipts, reorgs. No runtime,
//!   no I/O, no clock; the same seed and the same calls give the same hashes, so that it can run
//!   inside a simulation.
//! - **The server** ([`DevChain`]): the core behind real JSON-RPC over HTTP and WebSocket, where
//!   every fault that real endpoints show can be switched on by RPC (`devchain_*`), by a seeded
//!   [`fault::FaultPlan`], or through the [`RunningDevChain`] handle. [`LocalChain`] is the same
//!   without sockets, for simulations that have a clock of their own.
//!
//! It is **not an EVM** and not a client: no code runs, there are no logs, no tries, no peers. What
//! is real is what a transaction manager sees from outside. `docs/devchain.md`
//! lists the methods and the faults.
//!
//! `examples/reorg.rs` shows how to start and break it.
//!
//! The server uses it for `dev`, `demo` and `devchain`; so do tests. It depends on none of Tollgate's other
//! crates.

#![allow(missing_docs, reason = "not published: a name that says it all needs no sentence")]

mod accounts;
pub mod chain;
pub mod dialect;
mod error;
pub mod fault;
mod local;
mod options;
mod rpc;
mod running;
pub mod sign;

pub use accounts::{DevAccount, dev_account, dev_accounts};
pub use dialect::Dialect;
pub use error::RpcError;
pub use local::{LocalAnswer, LocalChain, LocalView};
pub use options::{DevChainOptions, Features, ViewOptions};
pub use running::{DevChain, RunningDevChain, RunningView};
