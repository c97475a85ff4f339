//! The SQLite store on its own: its statements and their plans, its migrations, its threads. What
//! it shares with the other store is in the conformance suite.

#![expect(clippy::unwrap_used, reason = "a test that can't go on says so")]

mod migrations;
mod plans;
mod queries;
mod store;
mod support;
mod threads;
