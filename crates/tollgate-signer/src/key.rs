//! A private key that can't be printed and is zeroised when dropped.

use std::fmt;

use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use thiserror::Error;
use tollgate_model::{Address, B256, U256};
use zeroize::Zeroizing;

/// The reason why a text or bytes are not a private key. Contains nothing of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKey {
    /// Not 64 hex digits.
    #[error("must be 64 hex digits, with or without 0x")]
    NotHex,
    /// Zero, or not below the order of the curve.
    #[error("not a secp256k1 key: zero or too large")]
    OutOfRange,
}

/// A private key and the account that it signs for.
pub struct Key {
    // Boxed, so that moving the key leaves no copies of the secret behind.
    secret: Box<SecretKey>,
    address: Address,
}

impl Key {
    /// Parses 64 hex digits, with or without `0x`.
    ///
    /// # Errors
    /// [`BadKey`]; it contains no digit of the text.
    pub fn from_hex(text: &str) -> Result<Self, BadKey> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let mut bytes = Zeroizing::new([0; 32]);
        alloy_primitives::hex::decode_to_slice(digits, bytes.as_mut_slice())
            .map_err(|_| BadKey::NotHex)?;
        Self::from_bytes(&bytes)
    }

    /// The key with these 32 bytes. The caller zeroises its own copy.
    ///
    /// # Errors
    /// [`BadKey::OutOfRange`].
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, BadKey> {
        let mut secret = SecretKey::from_byte_array(*bytes).map_err(|_| BadKey::OutOfRange)?;
        let address = address_of(&PublicKey::from_secret_key(SECP256K1, &secret));
        let key = Self { secret: Box::new(secret), address };
        secret.non_secure_erase();
        Ok(key)
    }

    /// The address of the account.
    pub const fn address(&self) -> Address {
        self.address
    }

    /// The secret itself, to encrypt it.
    pub(crate) fn secret_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret.secret_bytes())
    }

    pub(crate) fn duplicate(&self) -> Self {
        Self { secret: self.secret.clone(), address: self.address }
    }

    /// Signs a digest: RFC 6979, low-s.
    pub(crate) fn sign(&self, digest: B256) -> alloy_primitives::Signature {
        let message = Message::from_digest(digest.0);
        let signature = SECP256K1.sign_ecdsa_recoverable(message, &self.secret);
        let (recovery, compact) = signature.serialize_compact();
        let half = |at: usize| U256::from_be_slice(&compact[at..at + 32]);
        alloy_primitives::Signature::new(half(0), half(32), i32::from(recovery) & 1 == 1)
    }
}

/// The address of a public key.
pub(crate) fn address_of(key: &PublicKey) -> Address {
    Address::from_raw_public_key(&key.serialize_uncompressed()[1..])
}

impl Drop for Key {
    fn drop(&mut self) {
        // Despite its name, a volatile write with a fence.
        self.secret.non_secure_erase();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.address)
    }
}
