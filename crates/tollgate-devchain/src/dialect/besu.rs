//! Hyperledger Besu: `RpcErrorType.java` and `JsonRpcErrorConverter.java`. Fixed texts without
//! numbers, but codes that differ; what the converter does not know becomes `Internal error`.

use crate::chain::Rejection;

pub(super) fn rejection(rejection: &Rejection) -> (i64, String) {
    let (code, text) = match rejection {
        Rejection::Undecodable => (-32602, "Invalid transaction params (missing or incorrect)"),
        Rejection::TypeNotSupported(_) => (-32602, "Invalid transaction type"),
        Rejection::BadSignature => (-32002, "Invalid signature"),
        Rejection::Unprotected => (-32000, "ChainId is required"),
        Rejection::WrongChainId { .. } => (-32000, "Wrong chainId"),
        Rejection::GasAboveBlock { .. } => {
            (-32005, "Transaction gas limit exceeds block gas limit")
        }
        Rejection::TipAboveFeeCap { .. } => {
            (-32000, "Max priority fee per gas exceeds max fee per gas")
        }
        Rejection::IntrinsicGas { .. } | Rejection::FloorGas { .. } => {
            (-32003, "Intrinsic gas exceeds gas limit")
        }
        Rejection::FeeAboveCap { .. } => (-32000, "Transaction fee cap exceeded"),
        Rejection::TipTooLow { .. } | Rejection::Underpriced => {
            (-32009, "Gas price below configured minimum gas price")
        }
        Rejection::BelowBaseFee { .. } => (-32009, "Gas price below current base fee"),
        Rejection::NonceTooLow { .. } => (-32001, "Nonce too low"),
        Rejection::NonceTooHigh { .. } | Rejection::SenderLimit { .. } => {
            (-32000, "Transaction nonce is too distant from current sender nonce")
        }
        Rejection::NonceMax => (-32006, "Nonce too high"),
        Rejection::InsufficientFunds { .. } => (-32004, "Upfront cost exceeds account balance"),
        Rejection::AlreadyKnown(_) => (-32000, "Known transaction"),
        Rejection::ReplacementUnderpriced(_) => (-32000, "Replacement transaction underpriced"),
        Rejection::Oversized { .. } | Rejection::PoolFull => (-32603, "Internal error"),
    };
    (code, text.to_owned())
}
