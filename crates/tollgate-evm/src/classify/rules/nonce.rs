//! Answers about the nonce.

use tollgate_model::answer::AnswerClass::{Invalid, NonceTooHigh, NonceTooLow, Transient};

use super::super::rule::Rule;

/// The nonce is too low or too high.
pub(super) const CLEAR: &[Rule] = &[
    // geth (EIP-2681): no account gets this far
    Rule::new(Invalid, &["nonce has max value"]),
    // zksync: a lock, held for a moment
    Rule::new(Transient, &["same nonce is in progress"]),
    // everybody; parity: "nonce is too low"; nethermind: "OldNonce"; conflux: "too stale nonce"
    Rule::new(
        NonceTooLow,
        &["nonce too low", "nonce .. too low", "old nonce", "stale nonce", "nonce too small"],
    )
    .unless(&[
        "nonce .. price too low",
        "nonce .. fee too low",
        "nonce .. is too low to replace",
    ]),
    // cosmos/evm: "tx nonce is lower than account nonce", and others in that manner
    Rule::new(
        NonceTooLow,
        &[
            "tx nonce is lower",
            "tx nonce lower",
            "transaction nonce is lower",
            "nonce is lower than",
            "nonce lower than",
            "nonce .. is less than",
            "nonce less than",
            "nonce smaller than",
        ],
    )
    .unless(&["account nonce is lower", "state nonce is lower", "current nonce is lower"]),
    // ethers, metamask, wallets: "nonce has already been used"; harmony: "old transaction"
    Rule::new(
        NonceTooLow,
        &[
            "nonce already used",
            "nonce has already been used",
            "nonce was already used",
            "nonce .. already been used",
            "nonce is already used",
            "nonce expired",
            "nonce outdated",
            "nonce is outdated",
            "old transaction",
        ],
    ),
    // substrate: 1010 "Transaction is outdated", Pool(Stale), InvalidTransaction::Stale
    Rule::new(
        NonceTooLow,
        &["transaction is outdated", "invalid transaction | stale", "invalid transaction stale"],
    ),
    Rule::new(NonceTooLow, &["^stale$"]).with(&["pool"]),
    // everybody; nethermind: "NonceGap", "NonceTooFarInFuture"; lotus: "unfulfilled nonce gap";
    // geth: "gapped-nonce tx"; besu: "nonce is too distant"
    Rule::new(
        NonceTooHigh,
        &[
            "nonce too high",
            "nonce .. too high",
            "nonce gap",
            "gapped nonce",
            "future nonce",
            "nonce too far",
            "nonce .. too distant",
            "nonce too big",
            "nonce too large",
            "missing nonce",
            "skipped nonce",
            "nonce .. in the future",
        ],
    )
    .unless(&["nonce .. price too high", "nonce .. fee too high"]),
    Rule::new(
        NonceTooHigh,
        &[
            "tx nonce is higher",
            "tx nonce higher",
            "transaction nonce is higher",
            "^nonce is higher than",
            "^nonce higher than",
            "tx nonce .. greater than",
            "transaction nonce .. greater than",
        ],
    ),
    // geth: a transaction that leaves a gap may not push out one that doesn't
    Rule::new(NonceTooHigh, &["future transaction"]).unless(&["will be valid"]),
    // conflux: "is discarded due to in too distant future"
    Rule::new(NonceTooHigh, &["too distant future"]),
    // besu: the one before it is the trouble
    Rule::new(NonceTooHigh, &["transaction with a lower nonce exists", "lower nonce .. missing"]),
    // substrate
    Rule::new(
        NonceTooHigh,
        &[
            "transaction will be valid in the future",
            "invalid transaction | future",
            "invalid transaction future",
        ],
    ),
    Rule::new(NonceTooHigh, &["^future$"]).with(&["pool"]),
];

/// A nonce error without a direction. "Too low" is the safe class: receipts are searched.
pub(super) const VAGUE: &[Rule] = &[
    // nitro's predecessor: "invalid transaction nonce"; aurora: ERR_INCORRECT_NONCE; hedera:
    // WRONG_NONCE; cosmos: "invalid sequence", "account sequence mismatch"
    Rule::new(
        NonceTooLow,
        &[
            "invalid transaction nonce",
            "invalid .. transaction nonce",
            "invalid nonce",
            "incorrect nonce",
            "correct nonce",
            "wrong nonce",
            "bad nonce",
            "nonce mismatch",
            "nonce is invalid",
            "nonce is incorrect",
            "invalid account nonce",
            "invalid sequence",
            "incorrect account sequence",
            "sequence mismatch",
            "nonce intrinsic",
        ],
    )
    .unless(&["nonce params"]),
];
