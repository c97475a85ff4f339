//! The conformance suite on both stores, the proof that it can fail, and the house rules.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod anvil;
mod fake_chain;
mod field;
mod listed;
mod planted;
mod postgres;
mod server;
mod sql;
mod sqlite;
mod tidy;

/// The program that runs a node in a process of its own.
const CHILD: &str = env!("CARGO_BIN_EXE_store-child");
