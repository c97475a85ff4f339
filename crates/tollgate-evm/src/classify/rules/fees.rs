//! Answers about the price.

use tollgate_model::answer::AnswerClass::{FeeTooHigh, FeeTooLow, Underpriced};

use super::super::rule::Rule;

/// The fee is above the node's cap.
pub(super) const CAP: &[Rule] = &[
    // geth and its forks: "tx fee (1.10 ether) exceeds the configured cap (1.00 ether)"
    Rule::new(
        FeeTooHigh,
        &[
            "exceeds the configured cap",
            "fee .. exceeds cap/maximum",
            "fee .. exceeds the cap/maximum",
            "exceeds .. tx/rpc fee cap",
            "gas price .. exceeds the maximum",
            "gas price .. exceeds maximum",
        ],
    )
    .unless(&["gas limit"]),
    // besu: "Transaction fee cap exceeded"
    Rule::new(FeeTooHigh, &["fee cap .. exceeded"]),
    // metis, old optimism: "gas price too high: …, use at most tx.gasPrice = …", "fee too large"
    Rule::new(
        FeeTooHigh,
        &[
            "gas price .. too high",
            "fee too high/large",
            "fee is too high",
            "use at most",
            "gas price must be zero",
            "gas price .. limit reached",
        ],
    )
    .unless(&["pubdata price", "price too high for", "base fee too high"]),
];

/// The fee is below the base fee, below a minimum, or too low.
pub(super) const LOW: &[Rule] = &[
    // zksync: publishing has become dearer than what the transaction pays for it
    Rule::new(FeeTooLow, &["pubdata price too high", "unacceptable gas price"]),
    // geth, nitro, erigon, astar, cosmos, besu ("below current base fee"), hardhat, anvil
    Rule::new(
        FeeTooLow,
        &[
            "less/lower/smaller than .. base fee",
            "less/lower then .. base fee",
            "below/under .. base fee",
            "less than block blob gas fee",
            "equal to base fee",
            "base fee lower bound",
            "base fee exceeds",
            "base fee too high",
            "blob gas price is greater than",
            "base fee is greater/higher than",
            "which has a base fee",
            "max fee per gas .. too low",
        ],
    )
    .unless(&["base fee exceeds gas limit"]),
    // nethermind: too cheap among the others, no floor named
    Rule::new(Underpriced, &["fee too low to compete"]),
    // geth: "transaction underpriced: gas tip cap 1, minimum needed 2", "tip needed"; avalanche:
    // "< pool minimum"
    Rule::new(FeeTooLow, &["underpriced"]).with(&[
        "minimum",
        "needed",
        "required",
        "base fee",
        "at least",
        "permitted",
    ]),
    // geth, reth, besu, hedera, hardhat ("which is below the minimum of"), celo, conflux, linea
    Rule::new(
        FeeTooLow,
        &[
            "price/fee/tip .. below .. minimum",
            "fee cap .. below",
            "price/fee .. less/lower than .. minimum",
            "fee minimum",
            "gas price minimum",
            "minimum/min/minimal/zero gas price",
            "minimum accepted/required gas price",
            "minimum global/base/priority fee",
            "minimum fee",
        ],
    )
    .unless(&["params"]),
    // nitro, zkevm, monad, besu, parity, metis ("use at least"), nethermind ("FeeTooLow"), lotus
    Rule::new(
        FeeTooLow,
        &[
            "gas price/premium .. too low",
            "gas price low",
            "fee/tip .. too low",
            "price too low",
            "use at least",
            "needs to be higher than",
            "must be at least .. wei",
        ],
    )
    .unless(&["intrinsic gas"]),
    // cosmos, sei: "insufficient fee"; hedera: INSUFFICIENT_TX_FEE; others
    Rule::new(
        FeeTooLow,
        &[
            "insufficient fee",
            "insufficient tx/max/priority fee",
            "insufficient gas price",
            "fees insufficient",
            "not enough fee",
        ],
    )
    .unless(&["insufficient fee balance", "fee payer", "token balance", "for sender balance"]),
    // klaytn: a fixed price per unit
    Rule::new(
        FeeTooLow,
        &["invalid unit price", "equal to the unit price", "invalid gas fee/tip cap"],
    ),
    // linea: what it pays is less than what it costs
    Rule::new(FeeTooLow, &["unprofitable", "not profitable"]),
    // geth and all its forks, without a floor
    Rule::new(Underpriced, &["under priced", "try increasing the fee", "too cheap"]),
];
