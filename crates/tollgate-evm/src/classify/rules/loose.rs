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
        &["same/identical nonce", "replacement .. price/fee", "price bump"],
    ),
    Rule::new(
        ReplacementUnderpriced,
        &["nonce .. already .. pool", "nonce .. already pending", "to replace pending"],
    ),
    // this one again
    Rule::new(
        AlreadyKnown,
        &[
            "exist/exists/present in .. pool",
            "already .. in .. pool",
            "already present/accepted/seen/tracked",
            "committed/included in block",
            "already in .. chain",
            "identical hash",
            "hash collides",
            "duplicated transaction/tx",
            "transaction exists",
        ],
    )
    .unless(&["nonce", "does not exist", "doesnt/not exist"]),
    // out of turn
    Rule::new(
        NonceTooLow,
        &[
            "nonce .. lower/less/smaller than",
            "nonce .. used/behind/inconsistent",
            "nonce .. in the past",
            "nonce .. not consistent/match",
            "nonce .. check fail",
            "low/used nonce",
            "nonce check/error",
        ],
    ),
    Rule::new(
        NonceTooHigh,
        &[
            "nonce .. higher/greater/larger than",
            "nonce .. ahead/contiguous/skip",
            "nonce .. not sequential",
            "nonce .. out of order",
            "contiguous/high/preceding nonce",
            "future tx",
            "previous transaction .. missing",
        ],
    ),
    // too cheap
    Rule::new(
        FeeTooLow,
        &[
            "fee .. less .. base fee",
            "fee/price/tip .. below",
            "fee/price .. not enough",
            "not enough gas price",
            "not enough .. fee",
            "insufficient .. fee$",
            "insufficient .. gas price",
            "fee/price .. less/lower than",
            "increase the gas price",
            "increase the fee",
            "increase/low/higher gas price",
            "low/higher fee",
            "fee/price .. insufficient",
        ],
    )
    .unless(&["fee payer", "response", "fund", "balance"]),
    // too dear
    Rule::new(
        FeeTooHigh,
        &[
            "fee .. exceed/above",
            "price .. exceeds/above",
            "fee/price .. higher than",
            "fee .. over the",
        ],
    )
    .unless(&["balance", "funds"]),
    // too poor
    Rule::new(
        InsufficientFunds,
        &[
            "not/doesnt have enough",
            "insufficient/enough/exceeds .. funds",
            "insufficient/enough .. balance",
            "balance .. not enough/sufficient",
            "funds .. not enough/sufficient",
            "balance .. insufficient",
            "balance .. too low",
            "balance .. less/lower than",
            "exceeds/low/zero balance",
            "exceeds available balance",
            "no balance$",
            "balance is | 0",
            "insufficient/enough .. for gas$",
            "enough .. to pay",
            "cannot/cant afford",
        ],
    ),
    // too many
    Rule::new(
        PoolFull,
        &[
            "maximum/max number of .. transactions",
            "number of .. transactions .. exceed",
            "number of .. transactions reached",
            "max/maximum number of .. txs",
            "slots exhausted",
            "enqueued transactions",
            "low/no slots",
            "slots .. full",
            "pool .. full/limit/capacity",
            "mempool .. max",
            "queue .. limit/capacity",
            "pending .. limit",
            "too many .. transactions/txs",
            "conflicting type",
            "non blob txn",
        ],
    )
    .unless(&["request", "connection pool"]),
    // quota
    Rule::new(
        RateLimited,
        &[
            "request/rate .. limit",
            "limit/exceeded .. requests",
            "rps exceeded",
            "daily/monthly limit",
            "too many calls/queries",
            "credits",
            "subscription",
            "higher plan",
        ],
    )
    .unless(&["batch"]),
    // outage
    Rule::new(
        Transient,
        &[
            "network .. error",
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
