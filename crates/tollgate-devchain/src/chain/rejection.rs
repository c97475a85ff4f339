//! The reasons for refusing a transaction. The dialects put them into each client's words.

use alloy_primitives::{Address, B256, U256};
use thiserror::Error;

/// The reason why a pool refuses a transaction.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Rejection {
    /// The bytes are no transaction.
    #[error("the bytes are no transaction")]
    Undecodable,
    /// A type this chain does not take (EIP-4844, unknown ones; types 2 and 4 without base fee).
    #[error("transactions of type {0} are not supported")]
    TypeNotSupported(u8),
    /// No sender can be recovered.
    #[error("the signature is invalid")]
    BadSignature,
    /// A legacy signature without a chain id.
    #[error("the signature has no chain id")]
    Unprotected,
    /// Signed for another chain.
    #[error("signed for chain {have}, this is {want}")]
    WrongChainId { have: u64, want: u64 },
    /// Too many bytes.
    #[error("{size} bytes, at most {limit}")]
    Oversized { size: usize, limit: usize },
    /// More gas than a block has.
    #[error("gas limit {gas} above the block's {limit}")]
    GasAboveBlock { gas: u64, limit: u64 },
    /// The tip is higher than the whole fee.
    #[error("tip {tip} above the fee cap {fee_cap}")]
    TipAboveFeeCap { tip: u128, fee_cap: u128 },
    /// Less gas than the transaction costs before it runs.
    #[error("gas {gas} below the intrinsic {need}")]
    IntrinsicGas { gas: u64, need: u64 },
    /// Less gas than EIP-7623 asks for its data.
    #[error("gas {gas} below the floor {need}")]
    FloorGas { gas: u64, need: u64 },
    /// gas × price is above what the node lets through.
    #[error("fee {fee_wei} above the cap {cap_wei}")]
    FeeAboveCap { fee_wei: U256, cap_wei: U256 },
    /// The tip is below the pool's minimum.
    #[error("tip {tip} below the minimum {min}")]
    TipTooLow { tip: u128, min: u128 },
    /// The fee cap is below the base fee (only where the pool refuses that).
    #[error("fee cap {fee_cap} below the base fee {base_fee}")]
    BelowBaseFee { fee_cap: u128, base_fee: u128 },
    /// The nonce is used.
    #[error("nonce {nonce}, next is {next}")]
    NonceTooLow { next: u64, nonce: u64 },
    /// The nonce is further ahead than the pool allows.
    #[error("nonce {nonce} too far beyond {next}")]
    NonceTooHigh { next: u64, nonce: u64 },
    /// No account can get past this nonce (EIP-2681).
    #[error("the nonce has the highest value")]
    NonceMax,
    /// The sender can't pay.
    #[error("balance {balance}, queued {queued}, cost {cost}")]
    InsufficientFunds { balance: U256, queued: U256, cost: U256 },
    /// This very transaction is in the pool.
    #[error("{0} is in the pool")]
    AlreadyKnown(B256),
    /// Another one holds the nonce and this one does not pay enough more.
    #[error("{0} does not pay enough to replace")]
    ReplacementUnderpriced(B256),
    /// The pool is full of better ones.
    #[error("the pool is full of better ones")]
    Underpriced,
    /// The pool is full, and a transaction with a nonce gap pushes nothing out.
    #[error("the pool is full")]
    PoolFull,
    /// The sender has too many.
    #[error("{sender} has {pooled} pooled")]
    SenderLimit { sender: Address, pooled: usize },
}
