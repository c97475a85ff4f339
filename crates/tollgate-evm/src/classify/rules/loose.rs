//! Combinations of words for phrases that are not listed elsewhere.
//!
//! Checked if no phrase and no numbers matched. Every class here keeps the transaction alive, so a wrong
//! guess costs an extra call, not a slot.

use tollgate_model::answer::AnswerClass::{
    AlreadyKnown, FeeTooHigh, FeeTooLow, InsufficientFunds, NonceTooHigh, NonceTooLow, PoolFull,
    RateLimited, ReplacementUnderpriced, Transient,
};

use super::super::rule::Rule;

/// Rules by subject, the most specific first.
pub(super) const RULES: &[Rule] = &[
    // another one with this nonce
    Rule::new(
        ReplacementUnderpriced,
        &[
            "same nonce",
            "identical nonce",
            "replacement .. price",
            "replacement .. fee",
            "price bump",
        ],
    ),
    Rule::new(
        ReplacementUnderpriced,
        &["nonce .. already .. pool", "nonce .. already pending", "to replace pending"],
    ),
    // this one again
    Rule::new(
        AlreadyKnown,
        &[
            "exist in .. pool",
            "exists in .. pool",
            "present in .. pool",
            "already .. in .. pool",
            "already present",
            "already accepted",
            "already seen",
            "already tracked",
            "committed in block",
            "included in block",
            "already in .. chain",
            "identical hash",
            "hash collides",
            "duplicated transaction",
            "duplicated tx",
            "transaction exists",
        ],
    )
    .unless(&["nonce", "does not exist", "doesnt exist", "not exist"]),
    // out of turn
    Rule::new(
        NonceTooLow,
        &[
            "nonce .. lower than",
            "nonce .. less than",
            "nonce .. smaller than",
            "nonce .. was used",
            "nonce .. is used",
            "nonce .. used",
            "nonce .. in the past",
            "nonce .. behind",
            "nonce .. not consistent",
            "nonce .. inconsistent",
            "nonce .. not match",
            "nonce .. check fail",
            "low nonce",
            "used nonce",
            "nonce check",
            "nonce error",
        ],
    ),
    Rule::new(
        NonceTooHigh,
        &[
            "nonce .. higher than",
            "nonce .. greater than",
            "nonce .. larger than",
            "nonce .. ahead",
            "nonce .. not sequential",
            "nonce .. out of order",
            "contiguous nonce",
            "nonce .. contiguous",
            "nonce .. skip",
            "high nonce",
            "future tx",
            "previous transaction .. missing",
            "preceding nonce",
        ],
    ),
    // too cheap
    Rule::new(
        FeeTooLow,
        &[
            "fee .. less th .. base fee",
            "fee .. less .. base fee",
            "fee .. below",
            "price .. below",
            "tip .. below",
            "fee .. not enough",
            "price .. not enough",
            "not enough gas price",
            "not enough .. fee",
            "insufficient .. fee$",
            "insufficient .. gas price",
            "fee .. less than",
            "price .. less than",
            "fee .. lower than",
            "price .. lower than",
            "increase the gas price",
            "increase the fee",
            "increase gas price",
            "low gas price",
            "low fee",
            "fee .. insufficient",
            "price .. insufficient",
            "higher gas price",
            "higher fee",
        ],
    )
    .unless(&["fee payer", "response", "fund", "balance"]),
    // too dear
    Rule::new(
        FeeTooHigh,
        &[
            "fee .. exceeds",
            "fee .. exceed",
            "price .. exceeds",
            "fee .. above",
            "price .. above",
            "fee .. higher than",
            "price .. higher than",
            "fee .. over the",
        ],
    )
    .unless(&["balance", "funds"]),
    // too poor
    Rule::new(
        InsufficientFunds,
        &[
            "not have enough",
            "doesnt have enough",
            "insufficient .. funds",
            "insufficient .. balance",
            "enough .. funds",
            "enough .. balance",
            "balance .. not enough",
            "funds .. not enough",
            "balance .. insufficient",
            "balance .. too low",
            "balance .. less than",
            "balance .. lower than",
            "exceeds balance",
            "exceeds available balance",
            "exceeds .. funds",
            "low balance",
            "balance .. not sufficient",
            "funds .. not sufficient",
            "no balance$",
            "zero balance",
            "balance is | 0",
            "insufficient .. for gas$",
            "enough .. to pay",
            "enough .. for gas$",
            "cannot afford",
            "cant afford",
        ],
    ),
    // too many
    Rule::new(
        PoolFull,
        &[
            "maximum number of .. transactions",
            "max number of .. transactions",
            "number of .. transactions .. exceed",
            "number of .. transactions reached",
            "max number of .. txs",
            "maximum number of .. txs",
            "slots exhausted",
            "enqueued transactions",
            "low slots",
            "no slots",
            "slots .. full",
            "pool .. full",
            "pool .. limit",
            "pool .. capacity",
            "mempool .. max",
            "queue .. limit",
            "queue .. capacity",
            "pending .. limit",
            "too many .. transactions",
            "too many .. txs",
            "conflicting type",
            "non blob txn",
        ],
    )
    .unless(&["request", "connection pool"]),
    // quota
    Rule::new(
        RateLimited,
        &[
            "requests .. limit",
            "request .. limit",
            "limit .. requests",
            "exceeded .. requests",
            "rps exceeded",
            "daily limit",
            "monthly limit",
            "too many calls",
            "too many queries",
            "credits",
            "subscription",
            "higher plan",
            "rate .. limit",
        ],
    )
    .unless(&["batch"]),
    // outage
    Rule::new(
        Transient,
        &[
            "network .. error",
            "node .. not ready",
            "not ready",
            "crashed",
            "lagging",
            "no available",
            "closed .. connection",
            "starting up",
            "behind the head",
            "try later",
            "unable to perform request",
            "failed to forward",
            "circuit breaker",
        ],
    ),
];
