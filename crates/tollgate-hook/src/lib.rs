//! The stuck policy that asks a URL: the business decides (`docs/stuck-hook.md`).
//!
//! [`HttpHook`] is a [`StuckPolicy`](tollgate_model::port::policy::StuckPolicy): it puts the
//! question as signed JSON and understands the answer. Whatever is not a valid answer, in time, is a
//! noop that says what was wrong. Decides nothing by itself, acts on nothing, and keeps nothing
//! between two questions.

mod answer;
mod hook;
mod options;
mod secret;

pub use hook::HttpHook;
pub use options::{BadHook, HookOptions};
pub use secret::HookSecret;
