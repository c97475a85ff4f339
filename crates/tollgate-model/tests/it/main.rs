//! The rules as properties: what must hold for every state, event and sequence of decisions.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod batch_rules;
mod bumps;
mod decisions;
mod diagnoses;
mod docs;
mod expiries;
mod fees;
mod lives;
mod nonces;
mod pools;
mod reconciles;
mod rejections;
mod resubmits;
mod stuck_lines;
mod transitions;

use tollgate_model::Nonce;

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}
