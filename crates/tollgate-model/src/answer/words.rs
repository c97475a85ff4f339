//! The classes of answers in words, for the person who reads an error: two columns of
//! `docs/errors/send-answers.md`.

use super::AnswerClass;

impl AnswerClass {
    /// The statement of a node that answers so.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Accepted => "the node took it and returned a hash",
            Self::AlreadyKnown => "this very transaction is in the pool, or mined",
            Self::NonceTooLow => "the account's count is past this nonce",
            Self::NonceTooHigh => "a lower nonce is missing at the node",
            Self::ReplacementUnderpriced => {
                "the pool holds another transaction with this nonce, and the new one doesn't pay enough more"
            }
            Self::Underpriced => "too cheap for the pool; no floor is named",
            Self::FeeTooLow => "below the base fee or a minimum that the node names",
            Self::FeeTooHigh => "above the fee that the node is set to let through",
            Self::InsufficientFunds => "the account can't pay for value and gas",
            Self::GasLimit => {
                "the gas limit is below what the transaction needs to start, or above what a block or a \
                 transaction may have"
            }
            Self::Reverted => "the call reverted",
            Self::Invalid => {
                "malformed, wrongly signed, for another chain, of a type that is not supported, oversized or \
                 forbidden"
            }
            Self::PoolFull => "the pool, or the sender's share of it, is full",
            Self::RateLimited => "the endpoint's quota is used up",
            Self::Transient => "a timeout, a node out of sync, an outage",
            Self::Unknown => "nothing can safely be concluded",
        }
    }

    /// The response of Tollgate: a clause whose subject is Tollgate.
    pub const fn response(self) -> &'static str {
        match self {
            Self::Accepted | Self::AlreadyKnown => "follows it to a receipt",
            Self::NonceTooLow => {
                "looks for receipts of all its own attempts at that nonce, then judges: ours is mined, a foreign \
                 one took the slot, or a node lags"
            }
            Self::NonceTooHigh => "sends the missing one again, then this one",
            Self::ReplacementUnderpriced => {
                "leaves the earlier attempt standing and goes on following all attempts"
            }
            Self::Underpriced | Self::FeeTooLow => {
                "raises the fee if the policy allows it, else holds and sends the same bytes later"
            }
            Self::FeeTooHigh => {
                "asks another endpoint, else holds with an alert and sends the same bytes later; another node may \
                 have taken it"
            }
            Self::InsufficientFunds => {
                "holds, alerts, and sends the same bytes again with growing pauses"
            }
            Self::GasLimit | Self::Invalid => {
                "asks the other endpoints; only if every one agrees is it rejected, and the policy for rejected \
                 slots decides about the slot"
            }
            Self::Reverted => {
                "asks the other endpoints, and looks for a receipt first, because some chains answer so after they \
                 have mined the failure"
            }
            Self::PoolFull | Self::Transient => {
                "grey zone: looks for it by hash and sends the same bytes again"
            }
            Self::RateLimited => {
                "grey zone: looks for it by hash and sends the same bytes again, elsewhere if it can"
            }
            Self::Unknown => {
                "grey zone: possibly sent; looks for it by hash and sends the same bytes again"
            }
        }
    }
}
