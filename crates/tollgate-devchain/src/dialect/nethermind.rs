//! Nethermind up to 1.3x: `Nethermind.TxPool/AcceptTxResult.cs` and the filters beside it. A
//! rejection is the name of the result, then a comma and details; the code is -32010
//! (`TransactionRejected`). The fee cap of the RPC layer is geth's: Nethermind has none.

use super::geth;
use crate::chain::Rejection;

pub(super) fn rejection(rejection: &Rejection) -> (i64, String) {
    let text = match rejection {
        Rejection::Undecodable => "Invalid RLP.".into(),
        Rejection::TypeNotSupported(_) => "NotSupportedTxType".into(),
        Rejection::BadSignature => "FailedToResolveSender".into(),
        Rejection::Unprotected => "Invalid, InvalidTxSignature: Signature is invalid.".into(),
        Rejection::WrongChainId { have, want } => {
            format!("Invalid, InvalidTxChainId: Expected {want}, got {have}.")
        }
        Rejection::Oversized { size, limit } => {
            format!("MaxTxSizeExceeded, Max tx size: {limit}, size of rejected tx: {size}")
        }
        Rejection::GasAboveBlock { gas, limit } => {
            format!("GasLimitExceeded, Gas limit: {limit}, gas limit of rejected tx: {gas}")
        }
        Rejection::TipAboveFeeCap { .. } => {
            "Invalid, InvalidMaxPriorityFeePerGas: Cannot be higher than maxFeePerGas.".into()
        }
        Rejection::IntrinsicGas { .. } | Rejection::FloorGas { .. } => {
            "Invalid, intrinsic gas too low".into()
        }
        Rejection::FeeAboveCap { .. } => geth::text(rejection),
        Rejection::TipTooLow { tip, min } => {
            format!("FeeTooLow, EffectivePriorityFeePerGas too low {tip} < {min}, BaseFee: 0")
        }
        Rejection::BelowBaseFee { fee_cap, base_fee } => {
            format!("FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: {fee_cap}, BaseFee: {base_fee}")
        }
        Rejection::NonceTooLow { next, nonce } => {
            format!("OldNonce, Current nonce: {next}, nonce of rejected tx: {nonce}")
        }
        Rejection::NonceTooHigh { next, .. } => {
            format!("NonceGap, Future nonce. Expected nonce: {next}")
        }
        Rejection::NonceMax => "NonceTooFarInFuture".into(),
        Rejection::InsufficientFunds { balance, queued, cost } => format!(
            "InsufficientFunds, Account balance: {balance}, cumulative cost: {}",
            queued.saturating_add(*cost)
        ),
        Rejection::AlreadyKnown(_) => "AlreadyKnown".into(),
        Rejection::ReplacementUnderpriced(_) => "ReplacementNotAllowed".into(),
        Rejection::Underpriced | Rejection::PoolFull => "FeeTooLowToCompete".into(),
        Rejection::SenderLimit { .. } => "NonceTooFarInFuture".into(),
    };
    (-32010, text)
}
