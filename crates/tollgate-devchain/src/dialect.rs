//! The messages of the real clients: the text and the code each of them uses for the same thing.
//!
//! Pure tables, taken from the clients' sources; where a client has no words of its own for a
//! rejection (its pool has no such rule), it borrows geth's, and its table says so. Decides nothing.

mod refusal_texts;

use alloy_primitives::{B256, U256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::{CallRefused, Rejection, encode_revert};
use crate::error::RpcError;

/// The client software whose messages an endpoint uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    #[default]
    Geth,
    /// Nethermind up to 1.3x (`OldNonce, …`); newer versions use geth's messages.
    Nethermind,
    Besu,
    Erigon,
    Reth,
}

impl Dialect {
    pub const ALL: [Self; 5] = [Self::Geth, Self::Nethermind, Self::Besu, Self::Erigon, Self::Reth];

    /// The answer to `web3_clientVersion`, so that it looks like the client's.
    pub fn client_version(self) -> &'static str {
        match self {
            Self::Geth => "Geth/v1.16.7-stable-devchain/linux-amd64/go1.24",
            Self::Nethermind => "Nethermind/v1.31.0+devchain/linux-x64/dotnet9.0.0",
            Self::Besu => "besu/v25.9.0-devchain/linux-x86_64/openjdk-java-21",
            Self::Erigon => "erigon/3.2.0-devchain/linux-amd64/go1.24",
            Self::Reth => "reth/v1.9.0-devchain/x86_64-unknown-linux-gnu",
        }
    }

    /// A refused `eth_sendRawTransaction`.
    pub fn rejection(self, rejection: &Rejection) -> RpcError {
        let (code, message) = match self {
            Self::Geth => refusal_texts::geth(rejection),
            Self::Nethermind => refusal_texts::nethermind(rejection),
            Self::Besu => refusal_texts::besu(rejection),
            Self::Erigon => refusal_texts::erigon(rejection),
            Self::Reth => refusal_texts::reth(rejection),
        };
        RpcError::new(code, message)
    }

    /// A refused `eth_call` or `eth_estimateGas`.
    pub fn call_refused(self, refused: &CallRefused) -> RpcError {
        match refused {
            CallRefused::Reverted(reason) => self.reverted(reason),
            CallRefused::GasAboveAllowance(gas) => match self {
                Self::Nethermind => RpcError::new(-32015, "out of gas"),
                Self::Besu => RpcError::new(
                    -32000,
                    "Transaction processing could not be completed due to an exception",
                ),
                Self::Geth | Self::Erigon | Self::Reth => {
                    RpcError::new(-32000, format!("gas required exceeds allowance ({gas})"))
                }
            },
            CallRefused::InsufficientFunds { .. } => match self {
                Self::Nethermind => RpcError::new(-32015, "insufficient sender balance"),
                Self::Besu => RpcError::new(-32004, "Upfront cost exceeds account balance"),
                Self::Geth | Self::Erigon => {
                    RpcError::new(-32000, "insufficient funds for transfer")
                }
                Self::Reth => RpcError::new(-32003, "insufficient funds for transfer"),
            },
        }
    }

    fn reverted(self, reason: &str) -> RpcError {
        let data = Some(Value::String(encode_revert(reason).to_string()));
        let colon = if reason.is_empty() { "" } else { ": " };
        let (code, message) = match self {
            Self::Geth | Self::Erigon | Self::Reth => {
                (3, format!("execution reverted{colon}{reason}"))
            }
            Self::Nethermind => (-32015, "VM execution error.".to_owned()),
            Self::Besu => (3, format!("Execution reverted{colon}{reason}")),
        };
        RpcError { code, message, data }
    }

    /// A method that is not there, or switched off.
    pub fn method_not_found(self, method: &str) -> RpcError {
        let message = match self {
            Self::Geth | Self::Erigon => {
                format!("the method {method} does not exist/is not available")
            }
            Self::Nethermind => format!("The method '{method}' is not supported."),
            Self::Besu | Self::Reth => "Method not found".to_owned(),
        };
        RpcError::new(-32601, message)
    }

    /// Parameters that make no sense.
    pub fn invalid_params(self, detail: &str) -> RpcError {
        let message = match self {
            Self::Geth | Self::Erigon => format!("invalid argument {detail}"),
            Self::Nethermind | Self::Besu => "Invalid params".to_owned(),
            Self::Reth => format!("Invalid params: {detail}"),
        };
        RpcError::new(-32602, message)
    }

    /// A block that the node does not have, where a state was asked for.
    pub fn block_not_found(self) -> RpcError {
        match self {
            Self::Geth => RpcError::new(-32000, "header not found"),
            Self::Nethermind => RpcError::new(-32001, "Block could not be found"),
            Self::Besu => RpcError::new(-32000, "Block not found"),
            Self::Erigon => RpcError::new(-32000, "block not found"),
            Self::Reth => RpcError::new(-32001, "block not found"),
        }
    }

    /// The transaction count in a block without state, for a client that answers instead of failing.
    pub fn count_without_state(self) -> Option<u64> {
        match self {
            Self::Besu => Some(0),
            Self::Geth | Self::Nethermind | Self::Erigon | Self::Reth => None,
        }
    }

    /// A block that the node has, without its state.
    pub fn state_missing(self, number: u64) -> RpcError {
        match self {
            Self::Geth => {
                let root = B256::left_padding_from(&number.to_be_bytes());
                let hash = alloy_primitives::hex::encode(root);
                let message = format!(
                    "missing trie node {hash} (path ) state {root} is not available, not found"
                );
                RpcError::new(-32000, message)
            }
            Self::Nethermind => {
                RpcError::new(-32002, format!("No state available for block {number}"))
            }
            Self::Besu => RpcError::new(-32000, "World state unavailable"),
            Self::Erigon => RpcError::new(-32000, "old data not available due to pruning"),
            Self::Reth => RpcError::new(-32603, format!("state at block #{number} is pruned")),
        }
    }
}

/// Geth's way to show an amount: two digits of ether.
fn ether(wei: U256) -> String {
    let hundredths = (wei + U256::from(5_u64 * 10_u64.pow(15))) / U256::from(10_u64.pow(16));
    let (whole, rest) = hundredths.div_rem(U256::from(100));
    format!("{whole}.{rest:02}")
}

/// The texts of geth's RPC layer that others took over.
fn fee_above_cap(fee_wei: U256, cap_wei: U256) -> String {
    format!(
        "tx fee ({} ether) exceeds the configured cap ({} ether)",
        ether(fee_wei),
        ether(cap_wei)
    )
}
