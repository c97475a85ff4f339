//! The texts and codes of each client for a refused transaction, from the clients' sources.

use super::fee_above_cap;
use crate::chain::Rejection::{self, *};

/// go-ethereum: `core/txpool/errors.go`, `core/txpool/validation.go`, `core/error.go`,
/// `internal/ethapi`. Every rejection has the code -32000.
pub(super) fn geth(rejection: &Rejection) -> (i64, String) {
    (-32000, geth_text(rejection))
}

/// The texts of geth, which the others borrow.
fn geth_text(rejection: &Rejection) -> String {
    match rejection {
        Undecodable => "rlp: element is larger than containing list".into(),
        TypeNotSupported(_) => "transaction type not supported".into(),
        BadSignature => "invalid sender".into(),
        Unprotected => "only replay-protected (EIP-155) transactions allowed over RPC".into(),
        WrongChainId { have, want } => {
            format!("invalid sender: invalid chain id for signer: have {have} want {want}")
        }
        Oversized { size, limit } => {
            format!("oversized data: transaction size {size}, limit {limit}")
        }
        GasAboveBlock { .. } => "exceeds block gas limit".into(),
        TipAboveFeeCap { .. } => "max priority fee per gas higher than max fee per gas".into(),
        IntrinsicGas { gas, need } => {
            format!("intrinsic gas too low: gas {gas}, minimum needed {need}")
        }
        FloorGas { gas, need } => {
            format!("insufficient gas for floor data gas cost: gas {gas}, minimum needed {need}")
        }
        FeeAboveCap { fee_wei, cap_wei } => fee_above_cap(*fee_wei, *cap_wei),
        TipTooLow { tip, min } => {
            format!("transaction gas price below minimum: gas tip cap {tip}, minimum needed {min}")
        }
        BelowBaseFee { fee_cap, base_fee } => format!(
            "max fee per gas less than block base fee: maxFeePerGas: {fee_cap}, baseFee: {base_fee}"
        ),
        NonceTooLow { next, nonce } => {
            format!("nonce too low: next nonce {next}, tx nonce {nonce}")
        }
        NonceTooHigh { next, nonce } => {
            format!("nonce too high: tx nonce {nonce}, gapped nonce {next}")
        }
        NonceMax => "nonce has max value".into(),
        InsufficientFunds { balance, queued, cost } => {
            let funds = "insufficient funds for gas * price + value";
            let overshot = (*queued + *cost).saturating_sub(*balance);
            if queued.is_zero() || cost > balance {
                let overshot = cost.saturating_sub(*balance);
                format!("{funds}: balance {balance}, tx cost {cost}, overshot {overshot}")
            } else {
                format!(
                    "{funds}: balance {balance}, queued cost {queued}, tx cost {cost}, \
                     overshot {overshot}"
                )
            }
        }
        AlreadyKnown(_) => "already known".into(),
        ReplacementUnderpriced(_) => "replacement transaction underpriced".into(),
        Underpriced => "transaction underpriced".into(),
        PoolFull => "txpool is full".into(),
        SenderLimit { pooled, .. } => format!("account limit exceeded: pooled {pooled} txs"),
    }
}

/// Nethermind up to 1.3x: `Nethermind.TxPool/AcceptTxResult.cs` and the filters beside it. A
/// rejection is the name of the result, then a comma and details; the code is -32010
/// (`TransactionRejected`). The fee cap of the RPC layer is geth's: Nethermind has none.
pub(super) fn nethermind(rejection: &Rejection) -> (i64, String) {
    let text = match rejection {
        Undecodable => "Invalid RLP.".into(),
        TypeNotSupported(_) => "NotSupportedTxType".into(),
        BadSignature => "FailedToResolveSender".into(),
        Unprotected => "Invalid, InvalidTxSignature: Signature is invalid.".into(),
        WrongChainId { have, want } => {
            format!("Invalid, InvalidTxChainId: Expected {want}, got {have}.")
        }
        Oversized { size, limit } => {
            format!("MaxTxSizeExceeded, Max tx size: {limit}, size of rejected tx: {size}")
        }
        GasAboveBlock { gas, limit } => {
            format!("GasLimitExceeded, Gas limit: {limit}, gas limit of rejected tx: {gas}")
        }
        TipAboveFeeCap { .. } => {
            "Invalid, InvalidMaxPriorityFeePerGas: Cannot be higher than maxFeePerGas.".into()
        }
        IntrinsicGas { .. } | FloorGas { .. } => "Invalid, intrinsic gas too low".into(),
        FeeAboveCap { .. } => geth_text(rejection),
        TipTooLow { tip, min } => {
            format!("FeeTooLow, EffectivePriorityFeePerGas too low {tip} < {min}, BaseFee: 0")
        }
        BelowBaseFee { fee_cap, base_fee } => {
            format!("FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: {fee_cap}, BaseFee: {base_fee}")
        }
        NonceTooLow { next, nonce } => {
            format!("OldNonce, Current nonce: {next}, nonce of rejected tx: {nonce}")
        }
        NonceTooHigh { next, .. } => format!("NonceGap, Future nonce. Expected nonce: {next}"),
        NonceMax => "NonceTooFarInFuture".into(),
        InsufficientFunds { balance, queued, cost } => format!(
            "InsufficientFunds, Account balance: {balance}, cumulative cost: {}",
            queued.saturating_add(*cost)
        ),
        AlreadyKnown(_) => "AlreadyKnown".into(),
        ReplacementUnderpriced(_) => "ReplacementNotAllowed".into(),
        Underpriced | PoolFull => "FeeTooLowToCompete".into(),
        SenderLimit { .. } => "NonceTooFarInFuture".into(),
    };
    (-32010, text)
}

/// Hyperledger Besu: `RpcErrorType.java` and `JsonRpcErrorConverter.java`. Fixed texts without
/// numbers, but codes that differ; what the converter does not know becomes `Internal error`.
pub(super) fn besu(rejection: &Rejection) -> (i64, String) {
    let (code, text) = match rejection {
        Undecodable => (-32602, "Invalid transaction params (missing or incorrect)"),
        TypeNotSupported(_) => (-32602, "Invalid transaction type"),
        BadSignature => (-32002, "Invalid signature"),
        Unprotected => (-32000, "ChainId is required"),
        WrongChainId { .. } => (-32000, "Wrong chainId"),
        GasAboveBlock { .. } => (-32005, "Transaction gas limit exceeds block gas limit"),
        TipAboveFeeCap { .. } => (-32000, "Max priority fee per gas exceeds max fee per gas"),
        IntrinsicGas { .. } | FloorGas { .. } => (-32003, "Intrinsic gas exceeds gas limit"),
        FeeAboveCap { .. } => (-32000, "Transaction fee cap exceeded"),
        TipTooLow { .. } | Underpriced => (-32009, "Gas price below configured minimum gas price"),
        BelowBaseFee { .. } => (-32009, "Gas price below current base fee"),
        NonceTooLow { .. } => (-32001, "Nonce too low"),
        NonceTooHigh { .. } | SenderLimit { .. } => {
            (-32000, "Transaction nonce is too distant from current sender nonce")
        }
        NonceMax => (-32006, "Nonce too high"),
        InsufficientFunds { .. } => (-32004, "Upfront cost exceeds account balance"),
        AlreadyKnown(_) => (-32000, "Known transaction"),
        ReplacementUnderpriced(_) => (-32000, "Replacement transaction underpriced"),
        Oversized { .. } | PoolFull => (-32603, "Internal error"),
    };
    (code, text.to_owned())
}

/// Erigon 3: `txnprovider/txpool/txpoolcfg/txpoolcfg.go` (the reasons), its gRPC server (the
/// prefixes) and `rpc/jsonrpc/send_transaction.go`. Every rejection has the code -32000. Its pool
/// knows no "nonce too high": geth's words of execution stand in.
pub(super) fn erigon(rejection: &Rejection) -> (i64, String) {
    let text = match rejection {
        Undecodable | Unprotected | FeeAboveCap { .. } | TipAboveFeeCap { .. } => {
            geth_text(rejection)
        }
        WrongChainId { have, want } => format!("invalid chain id, expected: {want} got: {have}"),
        NonceTooHigh { next, nonce } => format!("nonce too high: tx: {nonce} state: {next}"),
        TypeNotSupported(_) => {
            "INVALID: fork supporting this transaction type is not activated yet".into()
        }
        BadSignature => "INVALID: invalid sender".into(),
        Oversized { .. } => "INVALID: oversized data".into(),
        GasAboveBlock { .. } => "INTERNAL_ERROR: gas limit is too high".into(),
        IntrinsicGas { .. } | FloorGas { .. } => "INTERNAL_ERROR: IntrinsicGas".into(),
        TipTooLow { .. } | Underpriced => "FEE_TOO_LOW: underpriced".into(),
        BelowBaseFee { .. } => "FEE_TOO_LOW: fee too low".into(),
        NonceTooLow { .. } => "INTERNAL_ERROR: nonce too low".into(),
        NonceMax => "INTERNAL_ERROR: nonce has max value".into(),
        InsufficientFunds { .. } => "INTERNAL_ERROR: insufficient funds".into(),
        AlreadyKnown(_) => "ALREADY_EXISTS: already known".into(),
        ReplacementUnderpriced(_) => "FEE_TOO_LOW: replacement transaction underpriced".into(),
        PoolFull => "INTERNAL_ERROR: queued sub-pool is full".into(),
        SenderLimit { .. } => "INTERNAL_ERROR: spammer".into(),
    };
    (-32000, text)
}

/// Reth: `crates/rpc/rpc-eth-types/src/error/mod.rs`. Geth's words on purpose, but with codes of
/// their own: -32003 for some of what the chain refuses, -32602 for what can't be read.
pub(super) fn reth(rejection: &Rejection) -> (i64, String) {
    match rejection {
        Undecodable => (-32602, "failed to decode signed transaction".into()),
        BadSignature => (-32602, "invalid transaction signature".into()),
        TypeNotSupported(_) => (-32003, "transaction type not supported".into()),
        Unprotected | WrongChainId { .. } => (-32000, "invalid chain ID".into()),
        TipAboveFeeCap { .. } => (-32003, geth_text(rejection)),
        IntrinsicGas { .. } | FloorGas { .. } => (-32000, "intrinsic gas too low".into()),
        FeeAboveCap { fee_wei, cap_wei } => {
            (-32000, format!("tx fee ({fee_wei} wei) exceeds the configured cap ({cap_wei} wei)"))
        }
        TipTooLow { min, .. } => {
            (-32003, format!("transaction priority fee below minimum required priority fee {min}"))
        }
        BelowBaseFee { .. } => (-32000, "max fee per gas less than block base fee".into()),
        NonceTooHigh { .. } => (-32000, "nonce too high".into()),
        NonceMax => (-32003, "nonce has max value".into()),
        InsufficientFunds { balance, queued, cost } => (
            -32003,
            format!(
                "insufficient funds for gas * price + value: have {balance} want {}",
                queued.saturating_add(*cost)
            ),
        ),
        PoolFull | SenderLimit { .. } => (-32003, "txpool is full".into()),
        Oversized { .. }
        | GasAboveBlock { .. }
        | NonceTooLow { .. }
        | AlreadyKnown(_)
        | ReplacementUnderpriced(_)
        | Underpriced => (-32000, geth_text(rejection)),
    }
}
