//! Whole worlds from one seed: several real engines on the real SQLite store, the dev chain's core,
//! and simulated time, network and faults.
//!
//! Everything runs on one thread and one clock that stands still while anybody works, so a seed is
//! one run: a failure replays exactly. The promises (I1 to I12, I15, I16) are judged by [`checker`] from
//! outside. `docs/simulation.md` says what is drawn, what is checked, and which planted mistakes are
//! noticed. Ships in nothing.

mod chain;
mod checker;
mod network;
mod node;
mod operators;
mod orphans;
mod plan;
mod planted;
mod reservations;
mod run;
mod signer;
mod store;
mod trace;
mod workload;
mod world;

pub use checker::Violation;
pub use planted::Bug;
pub use run::{Report, Tally, run, run_as_drawn};
pub use trace::TraceMode;
