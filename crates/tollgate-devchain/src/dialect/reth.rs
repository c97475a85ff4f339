//! Reth: `crates/rpc/rpc-eth-types/src/error/mod.rs`. Geth's words on purpose, but with codes of
//! their own: -32003 for some of what the chain refuses, -32602 for what can't be read.

use super::geth;
use crate::chain::Rejection;

pub(super) fn rejection(rejection: &Rejection) -> (i64, String) {
    match rejection {
        Rejection::Undecodable => (-32602, "failed to decode signed transaction".into()),
        Rejection::BadSignature => (-32602, "invalid transaction signature".into()),
        Rejection::TypeNotSupported(_) => (-32003, "transaction type not supported".into()),
        Rejection::Unprotected | Rejection::WrongChainId { .. } => {
            (-32000, "invalid chain ID".into())
        }
        Rejection::TipAboveFeeCap { .. } => (-32003, geth::text(rejection)),
        Rejection::IntrinsicGas { .. } | Rejection::FloorGas { .. } => {
            (-32000, "intrinsic gas too low".into())
        }
        Rejection::FeeAboveCap { fee_wei, cap_wei } => {
            (-32000, format!("tx fee ({fee_wei} wei) exceeds the configured cap ({cap_wei} wei)"))
        }
        Rejection::TipTooLow { min, .. } => {
            (-32003, format!("transaction priority fee below minimum required priority fee {min}"))
        }
        Rejection::BelowBaseFee { .. } => {
            (-32000, "max fee per gas less than block base fee".into())
        }
        Rejection::NonceTooHigh { .. } => (-32000, "nonce too high".into()),
        Rejection::NonceMax => (-32003, "nonce has max value".into()),
        Rejection::InsufficientFunds { balance, queued, cost } => (
            -32003,
            format!(
                "insufficient funds for gas * price + value: have {balance} want {}",
                queued.saturating_add(*cost)
            ),
        ),
        Rejection::PoolFull | Rejection::SenderLimit { .. } => (-32003, "txpool is full".into()),
        Rejection::Oversized { .. }
        | Rejection::GasAboveBlock { .. }
        | Rejection::NonceTooLow { .. }
        | Rejection::AlreadyKnown(_)
        | Rejection::ReplacementUnderpriced(_)
        | Rejection::Underpriced => (-32000, geth::text(rejection)),
    }
}
