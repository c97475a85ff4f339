//! Real servers for tests, and one conformance suite for every store. Never shipped.
//!
//! Read in this order: [`world`] (a database that any number of nodes share, and a raw hand on it
//! for attackers), [`node`] and [`make`] (short words for what tests do), [`gate`] (stops a writer
//! where a race begins), [`conformance`] (what a store promises, one function for each promise), [`mistakes`] (what it must notice).
//! [`fake_chain`] is a small chain in memory for tests of the engine.
//! [`postgres`] starts the real server that the PostgreSQL world lives on, [`anvil`] a real chain,
//! which [`rpc`] asks without anything of ours in between; [`program`] runs a binary, [`http`] talks
//! to it, and [`wire`] is a cable that can be cut.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

pub mod anvil;
pub mod child;
pub mod conformance;
pub mod fake_chain;
pub mod gate;
pub mod http;
pub mod make;
pub mod mistakes;
pub mod node;
pub mod postgres;
pub mod program;
pub mod rpc;
pub mod wait;
pub mod wire;
pub mod world;

pub use anvil::Anvil;
pub use gate::Gate;
pub use node::TestNode;
pub use postgres::PgServer;
pub use world::{Kind, PgWorld, SqliteWorld, World};
