//! Encrypted key files: keystore JSON, version 3, as geth and other clients write it.
//!
//! Owns no file and no source of random numbers: text in, key out, and the other way round. Never guesses: a key that the file's own checksum does not confirm
//! is refused.

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher};
use alloy_primitives::{Keccak256, hex};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;
use tollgate_model::{Address, B256};
use zeroize::Zeroizing;

use crate::key::{BadKey, Key};

/// The memory that a file may make scrypt allocate: four times that of geth's own files.
const SCRYPT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// The cost of new files: 256 MiB, as geth's own.
const SCRYPT_N: u64 = 262_144;
/// The most scrypt rounds over that memory.
const SCRYPT_P_MAX: u32 = 16;
/// The most PBKDF2 rounds.
const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// The reason why a keystore can't be decrypted. Never contains key or password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeystoreError {
    /// Not a keystore, or one of another version.
    #[error("not a keystore (version 3): {0}")]
    Malformed(String),
    /// An unknown cipher or key derivation.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// Decryption would take more memory or time than is allowed.
    #[error("the cost of the key derivation is out of bounds")]
    TooCostly,
    /// The checksum does not match: another password, or a damaged file.
    #[error("wrong password, or a damaged file")]
    WrongPassword,
    /// The file's `address` is not the address of its key.
    #[error("holds the key of {found}, but says {stated}")]
    OtherAccount {
        /// The file's `address`.
        stated: Address,
        /// The address of its key.
        found: Address,
    },
    /// The decrypted bytes are not a private key.
    #[error(transparent)]
    BadKey(#[from] BadKey),
}

#[derive(Serialize, Deserialize)]
struct File {
    #[serde(default)]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    #[serde(default)]
    id: Option<String>,
    version: u8,
}

#[derive(Serialize, Deserialize)]
struct Crypto {
    cipher: String,
    cipherparams: CipherParams,
    ciphertext: String,
    kdf: String,
    kdfparams: KdfParams,
    mac: String,
}

#[derive(Serialize, Deserialize)]
struct CipherParams {
    iv: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum KdfParams {
    Scrypt { dklen: usize, n: u64, p: u32, r: u32, salt: String },
    Pbkdf2 { c: u32, dklen: usize, prf: String, salt: String },
}

/// Decrypts a keystore. Takes about one second of one core, and the memory that the file asks for.
///
/// # Errors
/// [`KeystoreError`].
pub fn decrypt(json: &str, password: &str) -> Result<Key, KeystoreError> {
    let file: File =
        serde_json::from_str(json).map_err(|error| KeystoreError::Malformed(place(&error)))?;
    if file.version != 3 {
        return Err(KeystoreError::Malformed(format!("version {}", file.version)));
    }
    let crypto = &file.crypto;
    if crypto.cipher != "aes-128-ctr" {
        return Err(KeystoreError::Unsupported(format!("cipher {:?}", crypto.cipher)));
    }
    let derived = derive(&crypto.kdf, &crypto.kdfparams, password)?;
    let mut secret = Zeroizing::new(bytes::<32>("ciphertext", &crypto.ciphertext)?);
    if checksum(&derived, secret.as_slice()) != B256::from(bytes::<32>("mac", &crypto.mac)?) {
        return Err(KeystoreError::WrongPassword);
    }
    apply_cipher(&derived, &bytes::<16>("iv", &crypto.cipherparams.iv)?, &mut secret);
    let key = Key::from_bytes(&secret)?;
    let stated = file.address.as_deref().filter(|stated| !stated.is_empty());
    match stated.map(|stated| bytes::<20>("address", stated).map(Address::from)).transpose()? {
        Some(stated) if stated != key.address() => {
            Err(KeystoreError::OtherAccount { stated, found: key.address() })
        }
        _ => Ok(key),
    }
}

/// Random bytes, used once, by which the encryption of one key is unlike that of every other.
pub struct Freshness {
    /// The salt of the key derivation.
    pub salt: [u8; 32],
    /// The initial value of the cipher.
    pub iv: [u8; 16],
    /// The id of the file, a UUID.
    pub id: String,
}

/// Encrypts a key with a password, at the cost that geth uses: about one second and 256 MiB.
///
/// # Errors
/// [`KeystoreError::TooCostly`]: there is not enough memory.
pub fn encrypt(key: &Key, password: &str, fresh: &Freshness) -> Result<String, KeystoreError> {
    let kdfparams =
        KdfParams::Scrypt { dklen: 32, n: SCRYPT_N, p: 1, r: 8, salt: hex::encode(fresh.salt) };
    let derived = derive("scrypt", &kdfparams, password)?;
    let mut text = key.secret_bytes();
    apply_cipher(&derived, &fresh.iv, &mut text);
    let file = File {
        address: Some(hex::encode(key.address())),
        crypto: Crypto {
            cipher: "aes-128-ctr".to_owned(),
            cipherparams: CipherParams { iv: hex::encode(fresh.iv) },
            ciphertext: hex::encode(*text),
            kdf: "scrypt".to_owned(),
            kdfparams,
            mac: hex::encode(checksum(&derived, text.as_slice())),
        },
        id: Some(fresh.id.clone()),
        version: 3,
    };
    serde_json::to_string(&file).map_err(|error| KeystoreError::Malformed(error.to_string()))
}

/// The address that stands in a keystore, without `0x`.
pub(crate) fn address_in(json: &str) -> Option<String> {
    let address = serde_json::from_str::<File>(json).ok()?.address?;
    Some(address.strip_prefix("0x").unwrap_or(&address).to_owned())
}

fn derive(
    kdf: &str,
    params: &KdfParams,
    password: &str,
) -> Result<Zeroizing<[u8; 32]>, KeystoreError> {
    let mut derived = Zeroizing::new([0; 32]);
    let (dklen, salt) = match params {
        KdfParams::Scrypt { dklen, salt, .. } | KdfParams::Pbkdf2 { dklen, salt, .. } => {
            (*dklen, hex::decode(salt).map_err(|_| malformed("salt"))?)
        }
    };
    if dklen != derived.len() {
        return Err(KeystoreError::Unsupported(format!("dklen {dklen}")));
    }
    match (kdf, params) {
        ("scrypt", &KdfParams::Scrypt { n, p, r, .. }) => {
            let bytes = n.saturating_mul(u64::from(r)).saturating_mul(128);
            if !n.is_power_of_two() || n < 2 || bytes > SCRYPT_BYTES_MAX || p > SCRYPT_P_MAX {
                return Err(KeystoreError::TooCostly);
            }
            let cost = scrypt::Params::new(n.trailing_zeros() as u8, r, p)
                .map_err(|_| KeystoreError::TooCostly)?;
            scrypt::scrypt(password.as_bytes(), &salt, &cost, derived.as_mut_slice())
                .map_err(|_| KeystoreError::TooCostly)?;
        }
        ("pbkdf2", KdfParams::Pbkdf2 { c, prf, .. }) => {
            if prf != "hmac-sha256" {
                return Err(KeystoreError::Unsupported(format!("prf {prf:?}")));
            }
            if !(1..=PBKDF2_ROUNDS_MAX).contains(c) {
                return Err(KeystoreError::TooCostly);
            }
            pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, *c, derived.as_mut_slice());
        }
        _ => return Err(KeystoreError::Unsupported(format!("kdf {kdf:?} with these parameters"))),
    }
    Ok(derived)
}

fn checksum(derived: &[u8; 32], ciphertext: &[u8]) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(&derived[16..]);
    hasher.update(ciphertext);
    hasher.finalize()
}

fn apply_cipher(derived: &[u8; 32], iv: &[u8; 16], secret: &mut [u8; 32]) {
    let key = Zeroizing::new(std::array::from_fn::<u8, 16, _>(|place| derived[place]));
    ctr::Ctr128BE::<Aes128>::new((&*key).into(), iv.into()).apply_keystream(secret);
}

fn bytes<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], KeystoreError> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| malformed(field))?;
    Ok(bytes)
}

fn malformed(field: &'static str) -> KeystoreError {
    KeystoreError::Malformed(format!("{field} is not hex of the right length"))
}

/// The position of a JSON error, without the text found there.
fn place(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}
