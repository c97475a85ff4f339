//! Accounts that are opened and changed while nodes run: where their keys are, and their own settings.

use std::fmt;
use std::str::FromStr;

use crate::amount::{GasPrice, Wei};
use crate::fees::FeeCaps;
use crate::ids::{InvalidValue, Submitter, parse_address};
use crate::secret::masked;
use crate::spending::SpendingRules;
use crate::text::Text;
use alloy_primitives::Address;

/// The names of environment variables that a reference may use begin with this, so that a caller of the
/// API can't probe others.
pub const KEY_VARIABLE_PREFIX: &str = "TOLLGATE_KEY_";

/// The highest index of an account of a mnemonic.
pub const HD_INDEX_MAX: u32 = i32::MAX as u32;

/// A reference to the private key of an account; never the key itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KeyRef {
    /// `caller`: the node has no key, because the caller signs its transactions.
    Caller,
    /// `env:NAME`, an environment variable of the node.
    Env(String),
    /// `file:NAME`, a file in the folder `keys.folder` of the node.
    File(String),
    /// `keystore:ADDRESS`, an encrypted key in the folder `keys.keystore` of the node.
    Keystore(Address),
    /// `hd:N`, the account with this index of the node's mnemonic (`m/44'/60'/0'/0/N`).
    Hd(u32),
}

impl fmt::Display for KeyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("caller"),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(name) => write!(f, "file:{name}"),
            Self::Keystore(address) => write!(f, "keystore:{address}"),
            Self::Hd(index) => write!(f, "hd:{index}"),
        }
    }
}

impl FromStr for KeyRef {
    type Err = InvalidValue;

    /// Parses a reference. An error repeats nothing of a text that may be a key itself.
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let wrong = |problem: String| InvalidValue::new("key", problem);
        if text == "caller" {
            return Ok(Self::Caller);
        }
        if masked(text) != text {
            return Err(wrong("looks like a secret; a key itself is never sent".to_owned()));
        }
        let Some((kind, rest)) = text.split_once(':') else {
            let forms = "env:NAME, file:NAME, keystore:ADDRESS, hd:N or caller";
            return Err(wrong(format!("must be {forms}; a key itself is never sent")));
        };
        match kind {
            "env" => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                let name = rest.strip_prefix(KEY_VARIABLE_PREFIX);
                match name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_plain)) {
                    true => Ok(Self::Env(rest.to_owned())),
                    false => {
                        let form = format!("{KEY_VARIABLE_PREFIX} and letters, digits or _");
                        Err(wrong(format!("the name of a variable must be {form}")))
                    }
                }
            }
            "file" => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                let is_name = !rest.is_empty() && !rest.starts_with('.') && rest.len() <= 100;
                match is_name && rest.bytes().all(is_plain) {
                    true => Ok(Self::File(rest.to_owned())),
                    false => Err(wrong(
                        "the name of a file must be letters, digits, ., - or _, without a folder, at \
                         most 100"
                            .to_owned(),
                    )),
                }
            }
            "keystore" => parse_address(rest)
                .map(Self::Keystore)
                .map_err(|_| wrong("keystore: needs the address of an account".to_owned())),
            "hd" => {
                let index = rest.parse().ok().filter(|it: &u32| it.to_string() == rest);
                index
                    .filter(|index| *index <= HD_INDEX_MAX)
                    .map(Self::Hd)
                    .ok_or_else(|| wrong(format!("hd: needs an index from 0 to {HD_INDEX_MAX}")))
            }
            _ => Err(wrong("must begin with env:, file:, keystore: or hd:".to_owned())),
        }
    }
}

/// An account's own settings. The window wins over that of the chain; caps can only be lower.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountSettings {
    /// A name for people.
    pub label: Option<Text<100>>,
    /// Slots that may be in flight at once.
    pub window: Option<u32>,
    pub max_fee_per_gas: Option<GasPrice>,
    pub max_tx_fee: Option<Wei>,
    /// The transactions that it may send.
    pub spending: SpendingRules,
    /// New transactions are refused; open ones go on.
    pub is_disabled: bool,
}

impl AccountSettings {
    /// The caps on fees that hold for the account on a chain with these caps: the lower ones (I16).
    #[must_use]
    pub fn caps(&self, chain: FeeCaps) -> FeeCaps {
        FeeCaps {
            max_fee_per_gas: lower(self.max_fee_per_gas, chain.max_fee_per_gas),
            max_tx_fee: lower(self.max_tx_fee, chain.max_tx_fee),
        }
    }
}

fn lower<T: Ord>(own: Option<T>, chain: Option<T>) -> Option<T> {
    match (own, chain) {
        (Some(own), Some(chain)) => Some(own.min(chain)),
        (own, chain) => own.or(chain),
    }
}

/// An account that was opened or changed while nodes run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    pub submitter: Submitter,
    /// `None` if nodes have the key by their own settings.
    pub key: Option<KeyRef>,
    pub settings: AccountSettings,
    /// The account was removed. A node serves a removed account until nothing of it is open.
    pub is_removed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    #[test]
    fn key_references_are_read_as_they_are_written() {
        let address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
        for text in [
            "caller",
            "env:TOLLGATE_KEY_PAYOUTS",
            "file:payouts.key",
            &format!("keystore:{address}"),
            "hd:0",
        ] {
            assert_eq!(text.parse::<KeyRef>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn references_that_leave_their_place_or_hold_a_key_are_refused_without_repeating_them() {
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        for bad in [
            key,
            "",
            "env:",
            "env:PATH",
            "env:TOLLGATE_KEY_",
            "env:TOLLGATE_KEY_A B",
            "file:",
            "file:../a",
            "file:/etc/passwd",
            "file:a/b",
            "file:.hidden",
            "keystore:payouts",
            "hd:",
            "hd:-1",
            "hd:01",
            "hd:2147483648",
            "kms:x",
            &format!("env:{key}"),
        ] {
            let error = bad.parse::<KeyRef>().unwrap_err().to_string();
            assert!(!error.contains(key), "{error}");
        }
    }

    #[test]
    fn own_caps_lower_those_of_the_chain_and_never_raise_them() {
        let price = |gwei: u128| GasPrice::from_wei(gwei * 1_000_000_000).ok();
        let chain = FeeCaps { max_fee_per_gas: price(1_000), max_tx_fee: None };
        for (own, holds) in [(2_000, 1_000), (500, 500)] {
            let fee = Some(Wei(U256::ONE));
            let own = AccountSettings {
                max_fee_per_gas: price(own),
                max_tx_fee: fee,
                ..AccountSettings::default()
            };
            let caps = FeeCaps { max_fee_per_gas: price(holds), max_tx_fee: fee };
            assert_eq!(own.caps(chain), caps);
        }
        assert_eq!(AccountSettings::default().caps(chain), chain);
    }
}
