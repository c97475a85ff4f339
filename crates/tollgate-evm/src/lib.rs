//! EVM nodes as Tollgate uses them: endpoints, the canonical view, fees and the classes of answers.
//!
//! What their answers to a send mean: [`classify()`] turns an answer into one of the classes of
//! [`tollgate_model::answer`], [`explain()`] adds what follows from it and why, and
//! [`explain_lines`] does so for JSON lines.
//!
//! How to talk to them: [`endpoint`] is one node's JSON-RPC, [`chain`] is one canonical view over
//! several endpoints, which the engine knows as the chain port.

pub mod chain;
mod classify;
pub mod endpoint;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

pub use classify::{
    BadOverride, Classification, Override, Overrides, Reason, RpcAnswer, classify, classify_with,
    judge,
};
pub use explain::{Explanation, explain, explain_line, explain_lines, explain_with};
