//! The stuck policy that asks a URL (`docs/stuck-hook.md`), and the receiver of events (`docs/events.md`).
//!
//! [`HttpHook`] is a [`StuckPolicy`](tollgate_model::port::policy::StuckPolicy): it sends
//! the question as signed JSON and reads the answer. Without a valid answer in time, the decision is a
//! noop with the reason. Decides nothing by itself, acts on nothing, and keeps nothing
//! between two questions.

mod answer;
mod hook;
mod options;
mod secret;
mod webhook;

pub use hook::HttpHook;
pub use options::{BadHook, HookOptions};
pub use secret::HookSecret;
pub use webhook::{Webhook, WebhookAnswer, WebhookOptions};
