//! The classifier, endpoints and chains on scripted nodes.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod chain_reads;
mod chain_sends;
mod collected;
mod corroboration;
mod documentation;
mod endpoint;
mod explaining;
mod fake;
mod fee_quotes;
mod occupant_proofs;
mod one_voice;
mod overriding;
mod private;
mod properties;
mod receipt_support;
mod router;
mod slots;
mod traps;

use tollgate_evm::{RpcAnswer, classify};
use tollgate_model::answer::AnswerClass;

/// The class of a bare message.
fn class_of(message: &str) -> AnswerClass {
    classify(&RpcAnswer { message, ..RpcAnswer::default() })
}
