//! Answers about the account's balance.

use tollgate_model::answer::AnswerClass::InsufficientFunds;

use super::super::rule::Rule;

/// The account can't pay.
pub(super) const RULES: &[Rule] = &[
    // geth and its forks, erigon, reth, anvil, celo, bor, nethermind ("InsufficientFunds")
    Rule::new(InsufficientFunds, &["insufficient fund", "insufficient eth"]),
    // geth, monad, hedera (INSUFFICIENT_PAYER_BALANCE), klaytn
    Rule::new(
        InsufficientFunds,
        &[
            "insufficient balance",
            "insufficient account balance",
            "insufficient payer balance",
            "insufficient sender balance",
            "insufficient native balance",
            "insufficient .. token balance",
            "insufficient fee payer balance",
            "insufficient fee balance",
            // nethermind:
            "insufficient .. for sender balance",
            "balance is insufficient",
            "balance insufficient",
            "funds insufficient",
            "funds are insufficient",
        ],
    ),
    // hardhat, ganache: "Sender doesn't have enough funds to send tx"; lotus, nitro: "not enough
    // funds"; zksync: "not enough balance to cover the fee"; conflux: "NotEnoughCash"
    Rule::new(
        InsufficientFunds,
        &[
            "doesnt have enough funds",
            "does not have enough funds",
            "doesnt have enough balance",
            "does not have enough balance",
            "does not have enough eth",
            "not enough funds",
            "not/no enough balance",
            "not enough cash",
            "not enough eth$",
            "out/lack of fund",
            "out/lack of balance",
        ],
    ),
    // besu: "Upfront cost exceeds account balance"; cosmos: "sender balance < tx cost"
    Rule::new(
        InsufficientFunds,
        &[
            "cost exceeds .. balance",
            "exceeds account/the/sender balance",
            "sender balance tx cost",
            "balance .. less/lower than .. cost",
            "balance is too low",
            "balance too low",
            "balance .. less than sending value",
        ],
    ),
    // substrate: "Inability to pay some fees", InvalidTransaction::Payment
    Rule::new(
        InsufficientFunds,
        &["inability to pay", "invalid transaction | payment", "invalid transaction payment"],
    ),
    // reth: "transaction overdraws from account"; geth: "would cause overdraft"
    Rule::new(InsufficientFunds, &["overdraft", "overdraw"]),
    // zksync: "Failed to pay the fee to the operator"; zkevm: "balance intrinsic error"
    Rule::new(
        InsufficientFunds,
        &[
            "pay prefund",
            "failed to pay for the transaction",
            "failed to pay the fee",
            "balance intrinsic error",
        ],
    ),
    // geth and reth cap the gas at what the balance can buy; nothing bought means no balance
    Rule::new(InsufficientFunds, &["gas required exceeds allowance 0$"]),
];
