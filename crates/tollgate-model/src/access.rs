//! API keys: who may call a node, and what a key allows.
//!
//! Pure: random bytes and times are arguments. A secret is compared by its SHA-256 hash in constant time; 256
//! random bits need no slow hash. The server finds the key by its public id and calls
//! [`ApiKey::check`].

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::ids::InvalidValue;
use crate::text::Text;
use crate::time::Timestamp;

mod rights;
pub mod room;

pub use rights::{KeyScope, RATE_MAX, RateLimit, Rights, SCOPE_MAX, Senders, Tenant};

/// The start of every secret. Secret scanners match it: see [`SECRET_PATTERN`].
pub const SECRET_PREFIX: &str = "tg_live_";
/// The regular expression that matches a secret and little else.
pub const SECRET_PATTERN: &str = "tg_live_[a-z0-9]{12}_[A-Za-z0-9_-]{43}[0-9a-f]{6}";
/// The length of 32 bytes in base64 without padding.
const RANDOM_LEN: usize = 43;
/// The hex digits of the checksum.
const CHECKSUM_LEN: usize = 6;
/// The characters of a key id.
const ID_LEN: usize = 12;
const ID_CHARS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A right of a key. `admin` implies all others; `operate` does not imply `submit`. Every key may read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Read transactions, lists, the feed and reports.
    Read,
    /// Create transactions, cancel them and reserve nonces.
    Submit,
    /// See nonces, tokens and attempts; act on transactions and accounts.
    Operate,
    /// Change accounts, pools and API keys.
    Admin,
}

names! { Role { Read => "read", Submit => "submit", Operate => "operate", Admin => "admin" } }

/// The rights of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    /// The rights of a caller where no keys are asked for.
    pub fn all() -> Self {
        Self(Role::ALL.into_iter().collect())
    }

    /// Takes at least one role.
    pub fn new(roles: impl IntoIterator<Item = Role>) -> Result<Self, InvalidValue> {
        let roles: BTreeSet<Role> = roles.into_iter().collect();
        match roles.is_empty() {
            true => Err(InvalidValue::new("roles", "at least one role is required")),
            false => Ok(Self(roles)),
        }
    }

    /// Reads names that are separated by commas.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let role = |name: &str| {
            Role::from_name(name).ok_or_else(|| {
                let known = Role::ALL.map(Role::name).join(", ");
                InvalidValue::new("roles", format!("a role is one of {known}"))
            })
        };
        Self::new(text.split(',').map(|name| role(name.trim())).collect::<Result<Vec<_>, _>>()?)
    }

    /// Returns whether a call that needs this role is allowed.
    pub fn allow(&self, needed: Role) -> bool {
        needed == Role::Read || self.0.contains(&Role::Admin) || self.0.contains(&needed)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// The public name of a key: twelve letters and digits. It may be shown and logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyId(String);

impl KeyId {
    /// Takes an id of a caller or a store.
    pub fn new(text: &str) -> Result<Self, InvalidValue> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if text.len() != ID_LEN || !text.bytes().all(is_plain) {
            let problem = format!("must be {ID_LEN} lower-case letters and digits");
            return Err(InvalidValue::new("keyId", problem));
        }
        Ok(Self(text.to_owned()))
    }

    /// Makes an id of random bytes: 60 bits of them are used.
    pub fn from_random(bytes: [u8; ID_LEN]) -> Self {
        Self(bytes.iter().map(|byte| char::from(ID_CHARS[usize::from(byte & 31)])).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The SHA-256 hash of a secret. Equality takes the same time wherever two hashes differ.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Takes a hash as a store gives it back.
    pub const fn from_stored(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(not shown)")
    }
}

/// A key's secret, as callers send it. Never shown by `Debug`; it has no `Display`.
#[derive(Clone)]
pub struct KeySecret {
    id: KeyId,
    text: String,
}

impl KeySecret {
    /// Makes the secret of a key out of 256 random bits.
    pub fn from_random(id: KeyId, random: [u8; 32]) -> Self {
        let body = format!("{SECRET_PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(random));
        let text = format!("{body}{}", checksum(&body));
        Self { id, text }
    }

    /// Reads a secret. Its checksum tells a typing error without the database.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let bad = |why: &str| InvalidValue::new("apiKey", why);
        let rest = text.strip_prefix(SECRET_PREFIX).filter(|rest| rest.is_ascii());
        let rest = rest.ok_or_else(|| bad("an API key begins with tg_live_"))?;
        if rest.len() != ID_LEN + 1 + RANDOM_LEN + CHECKSUM_LEN || &rest[ID_LEN..=ID_LEN] != "_" {
            return Err(bad("an API key has another length: part of it may be missing"));
        }
        let id = KeyId::new(&rest[..ID_LEN])?;
        let (body, given) = text.split_at(text.len() - CHECKSUM_LEN);
        if checksum(body) != given {
            return Err(bad("the checksum at the end of the API key is wrong: it was mistyped"));
        }
        Ok(Self { id, text: text.to_owned() })
    }

    pub const fn id(&self) -> &KeyId {
        &self.id
    }

    /// The hash that is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.text.as_bytes()).into())
    }

    /// The secret itself, to be shown once to whoever made it.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySecret({}, not shown)", self.id)
    }
}

fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    digest.iter().take(CHECKSUM_LEN / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a character is invisible or turns the direction of text, so that a name with it can be taken for
/// another one. Marks that languages need to join or separate letters (U+200C, U+200D) are not among them.
pub const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// A key as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKey {
    pub id: KeyId,
    pub name: Text<100>,
    pub hash: SecretHash,
    pub rights: Rights,
    /// `None` is no limit.
    pub rate: Option<RateLimit>,
    pub created_at: Timestamp,
    /// Author of the key: `cli`, or the id of a key.
    pub created_by: Text<100>,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to within the interval in which nodes write it.
    pub last_used_at: Option<Timestamp>,
}

/// The reason why a key is refused. Callers are told none of them but expiry: they learn nothing of
/// keys whose secret they don't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRefusal {
    WrongSecret,
    Revoked,
    Expired,
}

impl ApiKey {
    /// Checks a secret against the key. The secret is compared first, so that nobody learns the state of a
    /// key without it.
    pub fn check(&self, secret: &KeySecret, now: Timestamp) -> Result<(), KeyRefusal> {
        if secret.hash() != self.hash {
            return Err(KeyRefusal::WrongSecret);
        }
        self.check_usable(now)
    }

    /// Checks that the key is neither revoked nor expired.
    pub fn check_usable(&self, now: Timestamp) -> Result<(), KeyRefusal> {
        if self.revoked_at.is_some() {
            return Err(KeyRefusal::Revoked);
        }
        match self.expires_at {
            Some(end) if end <= now => Err(KeyRefusal::Expired),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
