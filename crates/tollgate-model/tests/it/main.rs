//! The rules as properties: what must hold for every state, event and sequence of decisions.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod alerts;
mod batch_rules;
mod bumps;
mod decisions;
mod diagnoses;
mod docs;
mod expiries;
mod lives;
mod nonces;
mod pools;
mod reconciles;
mod rejections;
mod resubmits;
mod stuck_lines;
mod top_ups;
mod transitions;

use proptest::prelude::*;
use tollgate_model::Nonce;
use tollgate_model::port::chain::AccountCounts;

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

fn any_counts() -> impl Strategy<Value = Option<AccountCounts>> {
    let counts = (0u64..6, 0u64..6)
        .prop_map(|(mined, pending)| AccountCounts::confirmed(nonce(mined), nonce(pending)));
    proptest::option::of(counts)
}
