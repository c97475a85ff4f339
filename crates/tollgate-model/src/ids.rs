//! Identities: chains, accounts, transactions, requests, nodes.
//!
//! Each is a newtype that can only be made from a value every store can hold, so that a bad id is
//! refused by name before anything is written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use thiserror::Error;
use uuid::Uuid;

use crate::access::Tenant;
use crate::secret::masked;
use crate::time::Timestamp;

/// A value that no store can hold, with the name of the field it was meant for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct InvalidValue {
    /// The field's name in the API.
    pub field: &'static str,
    pub problem: String,
}

impl InvalidValue {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// Numbers that are stored as a signed 64-bit integer: the type is unsigned, the range is not full.
macro_rules! stored_number {
    ($(#[$doc:meta])* $name:ident, $field:literal, min = $min:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            pub const MIN: Self = Self($min);
            /// The highest value a store can hold.
            pub const MAX: Self = Self(i64::MAX as u64);

            /// Takes a number that a store can hold.
            pub fn new(value: u64) -> Result<Self, InvalidValue> {
                if (Self::MIN.0..=Self::MAX.0).contains(&value) {
                    Ok(Self(value))
                } else {
                    Err(InvalidValue::new(
                        $field,
                        format!("{value} is not {} to {}", Self::MIN.0, Self::MAX.0),
                    ))
                }
            }

            /// Takes a number as a store gives it back.
            pub fn from_i64(value: i64) -> Result<Self, InvalidValue> {
                u64::try_from(value)
                    .map_err(|_| InvalidValue::new($field, format!("{value} is negative")))
                    .and_then(Self::new)
            }

            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number as stores hold it; never negative by construction.
            pub const fn as_i64(self) -> i64 {
                self.0 as i64
            }

            /// The number `by` further on, if a store can still hold it.
            pub fn forward(self, by: u64) -> Result<Self, InvalidValue> {
                self.0
                    .checked_add(by)
                    .ok_or_else(|| InvalidValue::new($field, format!("{} + {by} overflows", self.0)))
                    .and_then(Self::new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

stored_number!(
    /// An EVM chain, by its EIP-155 id.
    ChainId, "chainId", min = 1
);
stored_number!(
    /// A transaction count of an account; with the [`Submitter`] it names a slot.
    Nonce, "nonce", min = 0
);
stored_number!(
    /// Proof of the right to write for a submitter; grows by one at each change of owner (I4).
    FencingToken, "fencingToken", min = 1
);
stored_number!(
    /// A place in the completions feed. Zero is "before the first".
    Seq, "seq", min = 0
);

/// An account on one chain: the identity that leases, cursors and slots belong to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Submitter {
    pub chain_id: ChainId,
    /// The account. Twenty bytes, so letter case cannot make two of it.
    pub address: Address,
}

impl Submitter {
    /// Names an account on a chain.
    pub const fn new(chain_id: ChainId, address: Address) -> Self {
        Self { chain_id, address }
    }
}

impl fmt::Display for Submitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chain_id, self.address)
    }
}

impl fmt::Debug for Submitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Submitter({self})")
    }
}

/// Reads an address in any letter case.
///
/// All-lower and all-upper hex carry no checksum and are taken as they are; mixed case is an
/// EIP-55 checksum and must be right, because a wrong one is a typing error with money behind it.
pub fn parse_address(text: &str) -> Result<Address, InvalidValue> {
    let problem = |why: &str| InvalidValue::new("address", format!("{why}: {:?}", shorten(text)));
    let digits = text.strip_prefix("0x").ok_or_else(|| problem("must start with 0x"))?;
    if digits.len() != 40 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(problem("must be 40 hex digits after 0x"));
    }
    let address = Address::from_str(text).map_err(|_| problem("not an address"))?;
    let has = |test: fn(&u8) -> bool| digits.as_bytes().iter().any(test);
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    if mixed && address.to_checksum(None) != text {
        return Err(problem("the EIP-55 checksum is wrong"));
    }
    Ok(address)
}

/// Shortens an over-long input for an error text.
fn shorten(text: &str) -> String {
    masked(text).chars().take(64).collect()
}

/// One managed transaction. UUID v7, so that ids sort by the time they were made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(Uuid);

impl TxId {
    /// Wraps an id that was made elsewhere (a store's row, a caller's path).
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// The lowest id (UUID v7: it begins with its time in milliseconds) that can be made at a time.
    pub fn first_at(time: Timestamp) -> Self {
        const MILLIS_MAX: u64 = (1 << 48) - 1;
        let millis = u64::try_from(time.unix_micros() / 1_000).unwrap_or(0).min(MILLIS_MAX);
        Self(Uuid::from_u64_pair(millis << 16, 0))
    }

    /// The time in the id, in milliseconds: when it was made.
    pub fn time(self) -> Timestamp {
        let millis = self.0.as_u64_pair().0 >> 16;
        Timestamp::EPOCH.after(Duration::from_millis(millis))
    }
}

impl FromStr for TxId {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| InvalidValue::new("txId", format!("not a UUID: {:?}", shorten(text))))
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxId({})", self.0)
    }
}

/// The hash of one signed attempt.
pub type TxHash = B256;

/// The caller's own name for a request; makes creates idempotent (I7).
///
/// The ids of each tenant are a namespace of their own. The tenant is part of the stored text, before the
/// id, so that unique keys, digests of removed requests and assignments to pool members need no column for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId {
    /// The text as stores hold it: `id`, or `tenant U+E01F id`.
    stored: String,
    /// The start of the id in it.
    id_start: usize,
}

impl RequestId {
    /// Longest request id, in bytes, as stores hold it.
    pub const MAX_BYTES: usize = 256;
    /// Ends the name of the tenant. Of private use, and refused in ids of callers. No control character,
    /// because versions without tenants refuse rows with one: to those, the whole text is an id.
    const TENANT_END: char = '\u{e01f}';

    /// Takes an id of 1 to [`Self::MAX_BYTES`] bytes without control characters, not all blank.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidValue> {
        let text = text.into();
        Self::check(&text, Self::MAX_BYTES)?;
        Ok(Self { stored: text, id_start: 0 })
    }

    /// Takes an id of a tenant's caller. Its longest id is shorter by the name and three bytes.
    pub fn of_tenant(tenant: &Tenant, text: &str) -> Result<Self, InvalidValue> {
        let mut stored = format!("{tenant}{}", Self::TENANT_END);
        let id_start = stored.len();
        Self::check(text, Self::MAX_BYTES - id_start)?;
        stored.push_str(text);
        Ok(Self { stored, id_start })
    }

    /// Takes an id for a tenant, or for none.
    pub fn in_namespace(tenant: Option<&Tenant>, text: &str) -> Result<Self, InvalidValue> {
        tenant.map_or_else(|| Self::new(text), |tenant| Self::of_tenant(tenant, text))
    }

    /// Takes the text that a store holds.
    pub fn from_stored(text: impl Into<String>) -> Result<Self, InvalidValue> {
        let text = text.into();
        match text.split_once(Self::TENANT_END) {
            Some((tenant, id)) => Self::of_tenant(&Tenant::new(tenant)?, id),
            None => Self::new(text),
        }
    }

    fn check(text: &str, bytes_max: usize) -> Result<(), InvalidValue> {
        let problem = if text.trim().is_empty() {
            "must not be blank".to_owned()
        } else if text.len() > bytes_max {
            format!("{} bytes are more than {bytes_max}", text.len())
        } else if text.chars().any(char::is_control) {
            "must not hold control characters".to_owned()
        } else if text.contains(Self::TENANT_END) {
            "must not hold U+E01F".to_owned()
        } else {
            return Ok(());
        };
        Err(InvalidValue::new("requestId", problem))
    }

    /// The text as the caller gave it.
    pub fn shown(&self) -> &str {
        &self.stored[self.id_start..]
    }

    /// The text as stores hold it.
    pub fn stored(&self) -> &str {
        &self.stored
    }

    /// The name of the tenant whose id it is.
    pub fn tenant(&self) -> Option<&str> {
        let end = self.id_start.checked_sub(Self::TENANT_END.len_utf8())?;
        Some(&self.stored[..end])
    }
}

/// As the caller gave it.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

/// One start of one process: the node's name and a random boot id.
///
/// A restarted process is a new owner, so a paused twin of it can't pass for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(String);

impl NodeId {
    /// Longest node name, in bytes.
    pub const MAX_NAME_BYTES: usize = 100;

    /// Joins a node's name and the boot id of this start.
    pub fn new(name: &str, boot_id: Uuid) -> Result<Self, InvalidValue> {
        let bad = |c: char| c.is_control() || c.is_whitespace() || c == '/';
        if name.is_empty() || name.len() > Self::MAX_NAME_BYTES || name.contains(bad) {
            let problem = format!(
                "must be 1 to {} bytes without blanks or '/': {:?}",
                Self::MAX_NAME_BYTES,
                shorten(name)
            );
            return Err(InvalidValue::new("nodeName", problem));
        }
        Ok(Self(format!("{name}/{}", boot_id.simple())))
    }

    /// Takes an id as a store gives it back.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The text as stores hold it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, without the id of the start.
    pub fn name(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_any_letter_case_is_the_same_submitter() {
        let checksummed = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
        let upper = format!("0x{}", checksummed[2..].to_uppercase());
        let all = [checksummed, &checksummed.to_lowercase(), &upper];
        let parsed: Vec<_> = all.iter().map(|text| parse_address(text).unwrap()).collect();
        assert_eq!(parsed[0], parsed[1]);
        assert_eq!(parsed[0], parsed[2]);
    }

    #[test]
    fn a_wrong_checksum_is_refused() {
        let wrong = "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
        assert!(parse_address(wrong).unwrap_err().problem.contains("checksum"));
    }

    #[test]
    fn an_address_of_the_wrong_shape_is_refused() {
        for text in ["", "0x", "0x12", "f39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0xzz"] {
            assert_eq!(parse_address(text).unwrap_err().field, "address", "{text}");
        }
    }

    #[test]
    fn a_number_that_no_store_can_hold_is_refused() {
        assert!(Nonce::new(i64::MAX as u64).is_ok());
        assert_eq!(Nonce::new(i64::MAX as u64 + 1).unwrap_err().field, "nonce");
        assert_eq!(Nonce::from_i64(-1).unwrap_err().field, "nonce");
        assert_eq!(Nonce::MAX.forward(1).unwrap_err().field, "nonce");
        assert_eq!(ChainId::new(0).unwrap_err().field, "chainId");
        assert_eq!(FencingToken::new(0).unwrap_err().field, "fencingToken");
    }

    #[test]
    fn request_ids_of_tenants_are_apart_and_shown_as_they_were_given() {
        let tenant = |name: &str| Tenant::new(name).unwrap();
        let of = |name: &str, id: &str| RequestId::of_tenant(&tenant(name), id).unwrap();
        let (without, acme) = (RequestId::new("a").unwrap(), of("acme", "a"));
        assert!(acme != without && acme != of("other", "a") && acme == of("acme", "a"));
        assert_eq!((acme.shown(), acme.tenant()), ("a", Some("acme")));
        assert_eq!((without.shown(), without.tenant()), ("a", None));
        assert_eq!(acme.to_string(), "a");
        for id in [&acme, &without] {
            assert_eq!(RequestId::from_stored(id.stored()).as_ref(), Ok(id));
        }
        // A caller can't name another tenant, with or without one of its own.
        assert!(RequestId::new(acme.stored()).is_err());
        assert!(RequestId::of_tenant(&tenant("x"), acme.stored()).is_err());
        let longest = RequestId::MAX_BYTES - "acme".len() - 3;
        assert_eq!(of("acme", &"x".repeat(longest)).stored().len(), RequestId::MAX_BYTES);
        let long = RequestId::of_tenant(&tenant("acme"), &"x".repeat(longest + 1));
        assert_eq!(long.unwrap_err().field, "requestId");
        let plain = |c: char| !c.is_control();
        assert!(acme.stored().chars().all(plain), "older versions read the row");
    }

    #[test]
    fn a_request_id_is_neither_blank_nor_long_nor_binary() {
        assert!(RequestId::new("order-17").is_ok());
        assert!(RequestId::new("x".repeat(RequestId::MAX_BYTES)).is_ok());
        for bad in ["", "  ", "a\0b", "line\nbreak", &"x".repeat(RequestId::MAX_BYTES + 1)] {
            assert_eq!(RequestId::new(bad).unwrap_err().field, "requestId");
        }
    }

    #[test]
    fn two_starts_of_one_node_are_two_owners() {
        let first = NodeId::new("a", Uuid::from_u128(1)).unwrap();
        let second = NodeId::new("a", Uuid::from_u128(2)).unwrap();
        assert_ne!(first, second);
        assert!(NodeId::new("a b", Uuid::nil()).is_err());
    }
}
