//! Real servers for tests, one conformance suite for every store, and a cluster builder. Never
//! shipped.
//!
//! - Stores: [`store_fixture`] (a database that any number of nodes share, with raw SQL for
//!   attackers), [`node`] and [`builders`] (short forms for what tests write), [`pause_points`]
//!   (pauses a writer where a race begins), [`conformance`] (one function for each promise of a
//!   store), [`mistakes`] (defects that it must notice), [`child_process`] (a node that can be killed
//!   as a whole).
//! - Chains: `fake_chain` (the dev chain's core behind the chain port, with scripted faults),
//!   `chain_answers` (the answers of that port), [`anvil`] (a real chain), [`rpc`] (calls a chain
//!   without any code under test in between), `rpc_proxy` (breaks an endpoint).
//! - Clusters (feature `cluster`): `cluster` starts engines in this process.
//! - Processes: [`postgres`] and [`nats`] start servers, [`pg_proxy`] breaks their connections, [`program`] runs
//!   a binary, [`http`] calls it, [`outcome`] reads what came of it.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![allow(missing_docs, reason = "never shipped: a name that says it all needs no sentence")]

pub mod anvil;
pub mod builders;
#[cfg(feature = "cluster")]
pub mod chain_answers;
pub mod child_process;
pub mod clock;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod conformance;
#[cfg(feature = "cluster")]
pub mod fake_chain;
pub mod http;
pub mod mistakes;
pub mod nats;
pub mod node;
pub mod outcome;
pub mod pause_points;
pub mod pg_proxy;
pub mod postgres;
pub mod program;
pub mod rpc;
#[cfg(feature = "cluster")]
pub mod rpc_proxy;
pub mod store_fixture;
pub mod wait;

pub use anvil::Anvil;
#[cfg(feature = "cluster")]
pub use cluster::{Cluster, FakeCluster};
pub use node::TestNode;
pub use pause_points::PausePoints;
pub use postgres::PgServer;
pub use store_fixture::{PgFixture, SqliteFixture, StoreFixture, StoreKind};
