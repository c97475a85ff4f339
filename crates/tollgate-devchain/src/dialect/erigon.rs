//! Erigon 3: `txnprovider/txpool/txpoolcfg/txpoolcfg.go` (the reasons), its gRPC server (the
//! prefixes) and `rpc/jsonrpc/send_transaction.go`. Every rejection has the code -32000. Its pool
//! knows no "nonce too high": geth's words of execution stand in.

use super::geth;
use crate::chain::Rejection;

pub(super) fn rejection(rejection: &Rejection) -> (i64, String) {
    let text = match rejection {
        Rejection::Undecodable
        | Rejection::Unprotected
        | Rejection::FeeAboveCap { .. }
        | Rejection::TipAboveFeeCap { .. } => geth::text(rejection),
        Rejection::WrongChainId { have, want } => {
            format!("invalid chain id, expected: {want} got: {have}")
        }
        Rejection::NonceTooHigh { next, nonce } => {
            format!("nonce too high: tx: {nonce} state: {next}")
        }
        Rejection::TypeNotSupported(_) => {
            "INVALID: fork supporting this transaction type is not activated yet".into()
        }
        Rejection::BadSignature => "INVALID: invalid sender".into(),
        Rejection::Oversized { .. } => "INVALID: oversized data".into(),
        Rejection::GasAboveBlock { .. } => "INTERNAL_ERROR: gas limit is too high".into(),
        Rejection::IntrinsicGas { .. } | Rejection::FloorGas { .. } => {
            "INTERNAL_ERROR: IntrinsicGas".into()
        }
        Rejection::TipTooLow { .. } | Rejection::Underpriced => "FEE_TOO_LOW: underpriced".into(),
        Rejection::BelowBaseFee { .. } => "FEE_TOO_LOW: fee too low".into(),
        Rejection::NonceTooLow { .. } => "INTERNAL_ERROR: nonce too low".into(),
        Rejection::NonceMax => "INTERNAL_ERROR: nonce has max value".into(),
        Rejection::InsufficientFunds { .. } => "INTERNAL_ERROR: insufficient funds".into(),
        Rejection::AlreadyKnown(_) => "ALREADY_EXISTS: already known".into(),
        Rejection::ReplacementUnderpriced(_) => {
            "FEE_TOO_LOW: replacement transaction underpriced".into()
        }
        Rejection::PoolFull => "INTERNAL_ERROR: queued sub-pool is full".into(),
        Rejection::SenderLimit { .. } => "INTERNAL_ERROR: spammer".into(),
    };
    (-32000, text)
}
