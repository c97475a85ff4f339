//! Reads the parameters of a call: by place, or by name in one object. Decides nothing.

use std::str::FromStr;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::chain::{BlockId, Call};
use crate::dialect::Dialect;
use crate::error::RpcError;

#[derive(Clone, Copy)]
pub(super) struct Params<'a> {
    values: &'a [Value],
    dialect: Dialect,
}

impl<'a> Params<'a> {
    pub(super) fn new(value: &'a Value, dialect: Dialect) -> Self {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        Self { values, dialect }
    }

    pub(super) fn bad(&self, detail: impl std::fmt::Display) -> RpcError {
        self.dialect.invalid_params(&detail.to_string())
    }

    /// The one at this place, or of this name if the first is an object.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<&'a Value> {
        let found = match self.values.first() {
            Some(Value::Object(map)) => map.get(name),
            _ => self.values.get(at),
        };
        found.filter(|value| !value.is_null())
    }

    /// The first as a whole.
    pub(super) fn whole<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        let value =
            self.values.first().cloned().unwrap_or_else(|| Value::Object(Default::default()));
        serde_json::from_value(value).map_err(|error| self.bad(format!("0: {error}")))
    }

    pub(super) fn number(&self, at: usize, name: &str) -> Result<Option<u64>, RpcError> {
        self.get(at, name).map(|value| self.to_number(value, name)).transpose()
    }

    pub(super) fn signed(&self, at: usize, name: &str) -> Result<i64, RpcError> {
        let value = self.get(at, name).and_then(Value::as_i64);
        value.ok_or_else(|| self.bad(format!("{at}: {name} must be a whole number")))
    }

    pub(super) fn float(&self, at: usize, name: &str) -> Option<f64> {
        self.get(at, name).and_then(Value::as_f64)
    }

    pub(super) fn flag(&self, at: usize, name: &str) -> Option<bool> {
        self.get(at, name).and_then(Value::as_bool)
    }

    pub(super) fn text(&self, at: usize, name: &str) -> Option<&'a str> {
        self.get(at, name).and_then(Value::as_str)
    }

    pub(super) fn wei(&self, at: usize, name: &str) -> Result<U256, RpcError> {
        let value = self.get(at, name);
        let text = value.map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        text.and_then(|text| U256::from_str(&text).ok())
            .ok_or_else(|| self.bad(format!("{at}: {name} must be an amount in wei")))
    }

    pub(super) fn address(&self, at: usize, name: &str) -> Result<Address, RpcError> {
        self.parsed(at, name, "an address")
    }

    pub(super) fn hash(&self, at: usize, name: &str) -> Result<B256, RpcError> {
        self.parsed(at, name, "a hash")
    }

    pub(super) fn bytes(&self, at: usize, name: &str) -> Result<Bytes, RpcError> {
        self.parsed(at, name, "hex data")
    }

    fn parsed<T: FromStr>(&self, at: usize, name: &str, what: &str) -> Result<T, RpcError> {
        let parsed = self.text(at, name).and_then(|text| T::from_str(text).ok());
        parsed.ok_or_else(|| self.bad(format!("{at}: {name} must be {what}")))
    }

    fn to_number(self, value: &Value, name: &str) -> Result<u64, RpcError> {
        let parsed = match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
            _ => None,
        };
        parsed.ok_or_else(|| self.bad(format!("{name} must be a number")))
    }

    /// A block by tag, number, hash or EIP-1898 object; the head if absent.
    pub(super) fn block(&self, at: usize) -> Result<BlockId, RpcError> {
        match self.values.get(at) {
            None | Some(Value::Null) => Ok(BlockId::Latest),
            Some(Value::Object(map)) => {
                let hash = map.get("blockHash").and_then(Value::as_str);
                match (hash, map.get("blockNumber")) {
                    (Some(hash), _) => B256::from_str(hash)
                        .map(BlockId::Hash)
                        .map_err(|error| self.bad(format!("{at}: {error}"))),
                    (None, Some(number)) => {
                        Ok(BlockId::Number(self.to_number(number, "blockNumber")?))
                    }
                    (None, None) => Err(self.bad(format!("{at}: no block"))),
                }
            }
            Some(Value::String(text)) => match text.as_str() {
                "latest" => Ok(BlockId::Latest),
                "pending" => Ok(BlockId::Pending),
                "safe" => Ok(BlockId::Safe),
                "finalized" => Ok(BlockId::Finalized),
                "earliest" => Ok(BlockId::Earliest),
                hash if hash.len() == 66 => {
                    let hash = B256::from_str(hash);
                    hash.map(BlockId::Hash).map_err(|error| self.bad(format!("{at}: {error}")))
                }
                _ => Ok(BlockId::Number(self.to_number(&self.values[at], "block")?)),
            },
            Some(other) => Ok(BlockId::Number(self.to_number(other, "block")?)),
        }
    }

    /// The transaction object of a call or an estimate.
    pub(super) fn call(&self) -> Result<Call, RpcError> {
        let has = |name| self.get(0, name).is_some();
        let address = |name| has(name).then(|| self.address(0, name)).transpose();
        let input = if has("input") { "input" } else { "data" };
        Ok(Call {
            from: address("from")?,
            to: address("to")?,
            value: if has("value") { self.wei(0, "value")? } else { U256::ZERO },
            data: if has(input) { self.bytes(0, input)? } else { Bytes::new() },
            gas: self.number(0, "gas")?,
        })
    }
}
