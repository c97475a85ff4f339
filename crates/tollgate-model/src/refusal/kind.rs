//! The reasons for which a create is refused before it has a nonce.

use std::fmt;

use crate::amount::Wei;

/// The kinds of refusals that callers can tell apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefusalKind {
    /// The call would revert.
    WouldRevert,
    /// The balance does not cover it together with the account's open transactions.
    InsufficientFunds,
    /// The gas limit is below the intrinsic gas.
    GasTooLow,
    /// The transaction needs, or asks for, more gas than a block has.
    GasAboveBlockLimit,
    /// The transaction asks for more gas than the chain allows one transaction (EIP-7825).
    GasAboveTxLimit,
    /// Its data or initcode is longer than nodes accept.
    TxTooLarge,
    /// A cap on the price of gas is far below the base fee.
    FeeCapTooLow,
    /// A node says that no node could accept it.
    InvalidTransaction,
    /// Its value is above the account's cap.
    ValueAboveCap,
    /// The account's list of allowed calls does not have it.
    CallNotAllowed,
}

names!(RefusalKind {
    WouldRevert => "would_revert",
    InsufficientFunds => "insufficient_funds",
    GasTooLow => "gas_too_low",
    GasAboveBlockLimit => "gas_above_block_limit",
    GasAboveTxLimit => "gas_above_tx_limit",
    TxTooLarge => "tx_too_large",
    FeeCapTooLow => "fee_cap_too_low",
    InvalidTransaction => "invalid_transaction",
    ValueAboveCap => "value_above_cap",
    CallNotAllowed => "call_not_allowed",
});

/// The field of a request that a refusal is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusedField {
    Submitter,
    To,
    Gas,
    Value,
    Data,
    AuthorizationList,
    MaxFeePerGas,
    RawTx,
}

impl RefusedField {
    /// The field's path in a request body.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Submitter => "submitter",
            Self::To => "payload.to",
            Self::Gas => "payload.gas",
            Self::Value => "payload.value",
            Self::Data => "payload.data",
            Self::AuthorizationList => "payload.authorizationList",
            Self::MaxFeePerGas => "maxFeePerGas",
            Self::RawTx => "rawTx",
        }
    }
}

/// The funds that an account lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FundsShort {
    /// The transaction's maximum cost.
    pub needed: Wei,
    /// The balance minus what the open transactions may cost.
    pub available: Wei,
}

/// A refusal of a create before it has a nonce.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// The field; `None` if it is about none or several.
    pub field: Option<RefusedField>,
    /// The contradicting values, or the node's text.
    pub detail: String,
    /// The amounts, if the account can't pay.
    pub funds: Option<FundsShort>,
}

impl Refusal {
    /// A refusal about no single field.
    pub(super) fn new(kind: RefusalKind, detail: String) -> Self {
        Self { kind, field: None, detail, funds: None }
    }

    pub(crate) fn of(kind: RefusalKind, field: RefusedField, detail: String) -> Self {
        Self { field: Some(field), ..Self::new(kind, detail) }
    }

    /// The same for a transaction that the caller signed, which is a single field.
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
