//! Answers about the price.

use tollgate_model::answer::AnswerClass::{FeeTooHigh, FeeTooLow, Underpriced};

use super::super::rule::Rule;

/// The fee is above the node's cap.
pub(super) const CAP: &[Rule] = &[
    // geth and its forks: "tx fee (1.10 ether) exceeds the configured cap (1.00 ether)"
    Rule::new(
        FeeTooHigh,
        &[
            "fee .. exceeds the configured cap",
            "exceeds the configured cap",
            "fee .. exceeds cap",
            "fee .. exceeds the cap",
            "exceeds .. tx fee cap",
            "exceeds .. rpc fee cap",
            "fee .. exceeds the maximum",
            "fee .. exceeds maximum",
            "gas price .. exceeds the maximum",
            "gas price .. exceeds maximum",
        ],
    )
    .unless(&["gas limit"]),
    // besu: "Transaction fee cap exceeded"
    Rule::new(FeeTooHigh, &["fee cap exceeded", "fee cap .. exceeded"]),
    // metis, old optimism: "gas price too high: …, use at most tx.gasPrice = …", "fee too large"
    Rule::new(
        FeeTooHigh,
        &[
            "gas price .. too high",
            "fee too high",
            "fee is too high",
            "fee too large",
            "use at most",
            "gas price must be zero",
            "gas price .. limit reached",
        ],
    )
    .unless(&["pubdata price", "price too high for"]),
];

/// The fee is below the base fee, below a minimum, or too low.
pub(super) const LOW: &[Rule] = &[
    // zksync: publishing has become dearer than what the transaction pays for it
    Rule::new(FeeTooLow, &["pubdata price too high", "unacceptable gas price"]),
    // geth, nitro, erigon, astar, cosmos, besu ("below current base fee"), hardhat, anvil
    Rule::new(
        FeeTooLow,
        &[
            "less than .. base fee",
            "less then .. base fee",
            "lower than .. base fee",
            "lower then .. base fee",
            "smaller than .. base fee",
            "below .. base fee",
            "under .. base fee",
            "less than block blob gas fee",
            "equal to base fee",
            "base fee lower bound",
            "base fee exceeds",
            "blob gas price is greater than",
            "base fee is greater than",
            "base fee is higher than",
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
            "price .. below .. minimum",
            "fee .. below .. minimum",
            "tip .. below .. minimum",
            "fee cap .. below",
            "price .. less than .. minimum",
            "fee .. less than .. minimum",
            "price .. lower than .. minimum",
            "fee .. lower than .. minimum",
            "fee minimum",
            "gas price minimum",
            "minimum gas price",
            "minimum accepted gas price",
            "minimum required gas price",
            "min gas price",
            "minimal gas price",
            "minimum global fee",
            "minimum base fee",
            "minimum priority fee",
            "minimum fee",
            "zero gas price",
            "zerogasprice",
        ],
    )
    .unless(&["params"]),
    // nitro, zkevm, monad, besu, parity, metis ("use at least"), nethermind ("FeeTooLow"), lotus
    Rule::new(
        FeeTooLow,
        &[
            "gas price .. too low",
            "gas prices too low",
            "gas price low",
            "fee .. too low",
            "tip .. too low",
            "tip cap .. too low",
            "fee cap .. too low",
            "gas premium .. too low",
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
            "insufficient tx fee",
            "insufficient gas price",
            "insufficient max fee",
            "insufficient priority fee",
            "fees insufficient",
            "not enough fee",
        ],
    )
    .unless(&["insufficient fee balance", "fee payer", "token balance", "for sender balance"]),
    // klaytn: a fixed price per unit
    Rule::new(
        FeeTooLow,
        &[
            "invalid unit price",
            "equal to the unit price",
            "invalid gas fee cap",
            "invalid gas tip cap",
        ],
    ),
    // linea: what it pays is less than what it costs
    Rule::new(FeeTooLow, &["unprofitable", "not profitable"]),
    // geth and all its forks, without a floor
    Rule::new(Underpriced, &["underpriced", "under priced", "try increasing the fee", "too cheap"]),
];
