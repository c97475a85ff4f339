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
    Rule::new(NonceTooLow, &["nonce too low/small", "nonce .. too low", "old/stale nonce"])
        .unless(&["nonce .. price/fee too low", "nonce .. is too low to replace"]),
    // cosmos/evm: "tx nonce is lower than account nonce", and others in that manner
    Rule::new(
        NonceTooLow,
        &[
            "tx/transaction nonce is lower",
            "tx nonce lower",
            "nonce is lower than",
            "nonce lower/less/smaller than",
            "nonce .. is less than",
        ],
    )
    .unless(&["account/state/current nonce is lower"]),
    // ethers, metamask, wallets: "nonce has already been used"; harmony: "old transaction"
    Rule::new(
        NonceTooLow,
        &[
            "nonce already used",
            "nonce has already been used",
            "nonce was/is already used",
            "nonce .. already been used",
            "nonce expired/outdated",
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
            "nonce too high/far/big/large",
            "nonce .. too high/distant",
            "nonce gap",
            "gapped/future/missing/skipped nonce",
            "nonce .. in the future",
        ],
    )
    .unless(&["nonce .. price/fee too high"]),
    Rule::new(
        NonceTooHigh,
        &[
            "tx/transaction nonce is higher",
            "tx nonce higher",
            "^nonce is higher than",
            "^nonce higher than",
            "tx/transaction nonce .. greater than",
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
            "invalid transaction/account nonce",
            "invalid .. transaction nonce",
            "invalid/incorrect/correct/wrong/bad nonce",
            "nonce mismatch/intrinsic",
            "nonce is invalid/incorrect",
            "invalid sequence",
            "incorrect account sequence",
            "sequence mismatch",
        ],
    )
    .unless(&["nonce params"]),
];
