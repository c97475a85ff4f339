//! Answers about the gas limit. They may reject a transaction, so no phrase may have another meaning.

use tollgate_model::answer::AnswerClass::GasLimit;

use super::super::rule::Rule;

/// Too little gas to start, or more than a block or a transaction may have.
pub(super) const RULES: &[Rule] = &[
    // geth and forks, erigon, reth, nethermind, aurora (ERR_INTRINSIC_GAS), besu ("Intrinsic gas
    // exceeds gas limit")
    Rule::new(GasLimit, &["intrinsic gas"]),
    // geth since Prague: "insufficient gas for floor data gas cost"
    Rule::new(GasLimit, &["floor data gas", "floor gas"]),
    // geth, harmony, reth ("transaction's gas limit 1 exceeds block's gas limit 2"), besu, anvil
    Rule::new(
        GasLimit,
        &[
            "exceeds .. block .. gas limit",
            "exceed .. block gas limit",
            "exceeds .. max transaction gas limit",
            "exceeds transaction/current/the/max/maximum gas limit",
            "exceeds gas limit",
            "exceeds the maximum gas limit",
            "half of pivot block gas limit",
        ],
    ),
    // erigon ("gas limit is too high"), reth, besu ("Transaction gas limit cap exceeded"),
    // nethermind ("TxGasLimitCapExceeded"), geth ("transaction gas limit too high (cap: …)")
    Rule::new(
        GasLimit,
        &[
            "gas limit is too high/low",
            "gas limit too high/low/large",
            "gas limit cap exceeded",
            "gas limit exceeded/reached/below",
            "gas limit .. exceeded cap",
            "gas limit .. exceeds",
            "gas limit .. greater/higher/less/lower than",
            "gas limit .. is above/below",
            "gas limit .. too big",
            "provided gas .. below",
        ],
    ),
    // parity: "Supplied gas is beyond limit", "Transaction gas is too low"; hardhat: "requires at
    // least 21000 gas"; conflux: "NotEnoughBaseGas"
    Rule::new(
        GasLimit,
        &[
            "supplied gas is beyond",
            "gas is too low",
            "requires at least .. gas",
            "not enough base gas",
            "not enough gas",
            "insufficient gas$",
            "insufficient gas for/limit",
            "gas too low/high",
        ],
    )
    .unless(&["gas price/fee/estimat", "gas funds", "blob gas"]),
    // geth, reth: the same text is given for a balance that buys no more
    Rule::new(GasLimit, &["gas required exceeds"]),
    // geth: "gas uint64 overflow"; erigon: "GasUintOverflow"
    Rule::new(GasLimit, &["gas uint64/uint overflow"]),
    // reth, sei: "out of gas: gas required exceeds: …"
    Rule::new(GasLimit, &["^out of gas"]),
    // conflux: "transaction gas 20000000 exceeds the maximum value"; aurora; hedera
    Rule::new(
        GasLimit,
        &[
            "transaction gas .. exceeds the maximum",
            "tx gas .. exceeds",
            "exceeded the maximum amount of gas",
            "exceeded prepaid gas",
            "max gas limit exceeded",
        ],
    ),
    // zksync: the account's own check ran out, or was given no gas at all
    Rule::new(GasLimit, &["function selector 0x , data 0x$"]),
];
