//! Recognises errors of the EVM itself.
//!
//! A contract's reason is free text, and contracts do return "nonce too low" or "insufficient funds". So
//! the EVM's own phrases are searched first, and the text after them is not classified. Only phrases that
//! no pool, proxy or node uses about itself are listed: a wrong "reverted" is a wrong rejection.

use super::pattern::find;

/// Phrases of clients for an error of the EVM.
const PHRASES: &[&str] = &[
    // geth and its forks, erigon, nethermind, reth, besu, anvil, nitro; `vm execution reverted` too
    "execution reverted",
    // hardhat, ganache, frontier (substrate), old testrpc: revert, invalid opcode, out of gas
    "vm exception while processing transaction",
    // openethereum, nethermind, besu: "VM execution error." with the reason in the data
    "vm execution error",
    // parity, nethermind
    "transaction execution error",
    "transaction execution fail",
    // hardhat, without its prefix
    "reverted with reason",
    "reverted with custom error",
    "reverted with an unrecognized custom error",
    "reverted with unrecognized",
    "reverted with panic",
    "reverted without a reason",
    "reverted without reason",
    "transaction reverted",
    "call reverted",
    "contract reverted",
    "function call to a non contract account",
    // ethereumjs, avalanche, moonbeam
    "evm revert",
    "evm error",
    "evm | revert",
    // hedera
    "contract revert executed",
    // openethereum's data on its own
    "^reverted 0x",
    // bundlers, relays and simulating front ends
    "transaction would revert",
    "transaction will revert",
    "transaction is going to revert",
    "tx reverted",
    "tx would revert",
    "will be reverted",
    "simulation reverted",
    "reverted during simulation",
    "reverted in simulation",
    "execution failed | revert",
    "execution failed due to an exception",
    // the interpreter's own failures; a websocket has opcodes too
    "invalid opcode |",
    "invalid opcode 0x",
    "bad instruction",
    "invalid jump destination",
    "bad jump destination",
    "stack underflow",
    "stack limit reached",
    "max call depth exceeded",
];

/// Reasons of contracts without a phrase of the node. Used only with code 3, which most clients send with
/// a revert; neither the code alone (zksync sends it with nearly everything) nor the text alone would
/// do.
const REASONS: &[&str] = &[
    "^reverted$",
    "^execution error",
    "^erc20",
    "^erc721",
    "^erc1155",
    "^safeerc20",
    "^safemath",
    "^ownable",
    "^pausable",
    "^access control |",
    "^panic",
    "^transferhelper",
    "^fail with error",
    "caller is not",
    "transfer amount exceeds",
    "arithmetic overflow",
    "arithmetic underflow",
];

/// An error of the EVM in a text.
pub(super) struct Said {
    /// The position at which it begins.
    pub(super) at: usize,
    /// The phrase that was found.
    pub(super) phrase: &'static str,
}

/// The first error of the EVM in a text.
pub(super) fn said_in(text: &str) -> Option<Said> {
    PHRASES
        .iter()
        .filter_map(|phrase| find(text, phrase).map(|at| Said { at, phrase }))
        .min_by_key(|said| said.at)
}

/// A contract's reason beside the code that clients send with a revert.
pub(super) fn reason_in(text: &str, code: Option<i64>) -> Option<&'static str> {
    let reason = REASONS.iter().find(|reason| find(text, reason).is_some())?;
    (code == Some(3)).then_some(*reason)
}

/// Returns whether the data is the ABI encoding of `Error(string)` or `Panic(uint256)`. A contract's own
/// error has any four bytes, so it can't be told from other data.
pub(super) fn is_revert_data(data: Option<&str>) -> bool {
    let Some(data) = data else { return false };
    let data = data.trim().trim_matches('"').to_ascii_lowercase();
    ["0x08c379a0", "0x4e487b71"].iter().any(|selector| data.starts_with(selector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_the_evm_counts() {
        let said = said_in("x | execution reverted | vm execution error").unwrap();
        assert_eq!((said.at, said.phrase), (4, "execution reverted"));
        assert!(said_in("the chain was reorganised").is_none());
    }

    #[test]
    fn encoded_reverts_are_recognised() {
        assert!(is_revert_data(Some("0x08C379A0000000")));
        assert!(is_revert_data(Some("\"0x4e487b71\"")));
        assert!(!is_revert_data(Some("0x")));
        assert!(!is_revert_data(None));
    }
}
