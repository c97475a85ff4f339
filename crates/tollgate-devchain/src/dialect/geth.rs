//! go-ethereum: `core/txpool/errors.go`, `core/txpool/validation.go`, `core/error.go`,
//! `internal/ethapi`. Every rejection has the code -32000.

use super::fee_above_cap;
use crate::chain::Rejection;

pub(super) fn rejection(rejection: &Rejection) -> (i64, String) {
    (-32000, text(rejection))
}

/// Also what the others borrow.
pub(super) fn text(rejection: &Rejection) -> String {
    match rejection {
        Rejection::Undecodable => "rlp: element is larger than containing list".into(),
        Rejection::TypeNotSupported(_) => "transaction type not supported".into(),
        Rejection::BadSignature => "invalid sender".into(),
        Rejection::Unprotected => {
            "only replay-protected (EIP-155) transactions allowed over RPC".into()
        }
        Rejection::WrongChainId { have, want } => {
            format!("invalid sender: invalid chain id for signer: have {have} want {want}")
        }
        Rejection::Oversized { size, limit } => {
            format!("oversized data: transaction size {size}, limit {limit}")
        }
        Rejection::GasAboveBlock { .. } => "exceeds block gas limit".into(),
        Rejection::TipAboveFeeCap { .. } => {
            "max priority fee per gas higher than max fee per gas".into()
        }
        Rejection::IntrinsicGas { gas, need } => {
            format!("intrinsic gas too low: gas {gas}, minimum needed {need}")
        }
        Rejection::FloorGas { gas, need } => {
            format!("insufficient gas for floor data gas cost: gas {gas}, minimum needed {need}")
        }
        Rejection::FeeAboveCap { fee_wei, cap_wei } => fee_above_cap(*fee_wei, *cap_wei),
        Rejection::TipTooLow { tip, min } => {
            format!("transaction gas price below minimum: gas tip cap {tip}, minimum needed {min}")
        }
        Rejection::BelowBaseFee { fee_cap, base_fee } => format!(
            "max fee per gas less than block base fee: maxFeePerGas: {fee_cap}, baseFee: {base_fee}"
        ),
        Rejection::NonceTooLow { next, nonce } => {
            format!("nonce too low: next nonce {next}, tx nonce {nonce}")
        }
        Rejection::NonceTooHigh { next, nonce } => {
            format!("nonce too high: tx nonce {nonce}, gapped nonce {next}")
        }
        Rejection::NonceMax => "nonce has max value".into(),
        Rejection::InsufficientFunds { balance, queued, cost } => {
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
        Rejection::AlreadyKnown(_) => "already known".into(),
        Rejection::ReplacementUnderpriced(_) => "replacement transaction underpriced".into(),
        Rejection::Underpriced => "transaction underpriced".into(),
        Rejection::PoolFull => "txpool is full".into(),
        Rejection::SenderLimit { pooled, .. } => {
            format!("account limit exceeded: pooled {pooled} txs")
        }
    }
}
