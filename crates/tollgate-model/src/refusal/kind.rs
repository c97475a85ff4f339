//! Why a transaction is refused before it has a nonce, as callers are told it.

use std::fmt;

use crate::amount::Wei;

/// Why a transaction is refused before it has a nonce: the kinds that callers tell apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefusalKind {
    /// The call would revert.
    WouldRevert,
    /// The account can't pay for it beside what it has open.
    InsufficientFunds,
    /// The gas limit is below what the transaction pays before it is executed.
    GasTooLow,
    /// It needs, or asks for, more gas than a block has.
    GasAboveBlockLimit,
    /// It asks for more gas than the chain allows one transaction (EIP-7825).
    GasAboveTxLimit,
    /// Its data, or the code of the contract that it creates, is longer than nodes take.
    TxTooLarge,
    /// A cap on the price of gas is far below the base fee.
    FeeCapTooLow,
    /// A node says that no node could take it.
    InvalidTransaction,
}

impl RefusalKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::WouldRevert,
        Self::InsufficientFunds,
        Self::GasTooLow,
        Self::GasAboveBlockLimit,
        Self::GasAboveTxLimit,
        Self::TxTooLarge,
        Self::FeeCapTooLow,
        Self::InvalidTransaction,
    ];

    /// The word for it in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WouldRevert => "would_revert",
            Self::InsufficientFunds => "insufficient_funds",
            Self::GasTooLow => "gas_too_low",
            Self::GasAboveBlockLimit => "gas_above_block_limit",
            Self::GasAboveTxLimit => "gas_above_tx_limit",
            Self::TxTooLarge => "tx_too_large",
            Self::FeeCapTooLow => "fee_cap_too_low",
            Self::InvalidTransaction => "invalid_transaction",
        }
    }
}

/// The part of a request that a refusal is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusedField {
    /// The account that sends.
    Submitter,
    /// The gas limit.
    Gas,
    /// What is paid.
    Value,
    /// The call's data, or the code that creates a contract.
    Data,
    /// The caller's cap on the price of gas.
    MaxFeePerGas,
    /// A transaction that the caller signed.
    RawTx,
}

impl RefusedField {
    /// Its path in the body of a request.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Submitter => "submitter",
            Self::Gas => "payload.gas",
            Self::Value => "payload.value",
            Self::Data => "payload.data",
            Self::MaxFeePerGas => "maxFeePerGas",
            Self::RawTx => "rawTx",
        }
    }
}

/// What an account lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FundsShort {
    /// What the transaction may cost.
    pub needed: Wei,
    /// What the account has besides what its open transactions may cost.
    pub available: Wei,
}

/// Why a transaction is refused before it has a nonce.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What callers tell apart.
    pub kind: RefusalKind,
    /// The field that it is about; `None` if it is about none or several.
    pub field: Option<RefusedField>,
    /// The values that contradict each other, or the node's own words.
    pub detail: String,
    /// The amounts, where the account can't pay.
    pub funds: Option<FundsShort>,
}

impl Refusal {
    /// A refusal that is about no field.
    pub(super) fn new(kind: RefusalKind, detail: String) -> Self {
        Self { kind, field: None, detail, funds: None }
    }

    pub(super) fn of(kind: RefusalKind, field: RefusedField, detail: String) -> Self {
        Self { field: Some(field), ..Self::new(kind, detail) }
    }

    /// The same for a transaction that the caller signed: all of it is one field.
    #[must_use]
    pub fn in_raw_tx(self) -> Self {
        Self { field: Some(RefusedField::RawTx), ..self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "{}: {}", field.path(), self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for Refusal {}
