//! Encrypted key files: keystore JSON, version 3, as geth and the others write it.
//!
//! Owns no file; text in, key out, and back. Never guesses: what it can't check by the file's own
//! checksum is refused.

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher};
use alloy_primitives::{Keccak256, hex};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;
use tollgate_model::{Address, B256};
use zeroize::Zeroizing;

use super::key::{BadKey, Key};

/// Memory that a file may make scrypt take: four times what geth's own files need.
const SCRYPT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Rounds that a file may ask of scrypt on that memory.
const SCRYPT_P_MAX: u32 = 16;
/// Rounds that a file may ask of PBKDF2.
const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// geth's own cost: 256 MiB, about a second.
const SCRYPT_LOG_N: u8 = 18;
const SCRYPT_R: u32 = 8;
const SCRYPT_P: u32 = 1;

/// Why a keystore can't be opened or made. Never holds key or password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeystoreError {
    /// Not a keystore, or one of another version.
    #[error("not a keystore (version 3): {0}")]
    Malformed(String),
    /// A cipher or a key derivation that is not known.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// Opening it would take more memory or time than is allowed.
    #[error("the cost of the key derivation is out of bounds")]
    TooCostly,
    /// The checksum does not fit: another password, or a damaged file.
    #[error("wrong password, or a damaged file")]
    WrongPassword,
    /// The file says that it is another account's.
    #[error("holds the key of {found}, but says {said}")]
    OtherAccount {
        /// What the file says.
        said: Address,
        /// What it holds.
        found: Address,
    },
    /// What was decrypted is no key.
    #[error(transparent)]
    BadKey(#[from] BadKey),
}

#[derive(Serialize, Deserialize)]
struct File {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    id: String,
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

/// Opens a keystore. Takes about a second of a core, and the memory that the file asks for.
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
    let said = file.address.as_deref().filter(|said| !said.is_empty());
    match said.map(|said| bytes::<20>("address", said).map(Address::from)).transpose()? {
        Some(said) if said != key.address() => {
            Err(KeystoreError::OtherAccount { said, found: key.address() })
        }
        _ => Ok(key),
    }
}

/// Makes a keystore, at geth's own cost.
///
/// # Errors
/// Only if the system gives no random bytes.
pub fn encrypt(key: &Key, password: &str) -> Result<String, KeystoreError> {
    encrypt_with(key, password, SCRYPT_LOG_N)
}

/// Makes a keystore that is cheap to open, and as cheap to guess: for tests and tools.
///
/// # Errors
/// Only if the system gives no random bytes.
pub fn encrypt_light(key: &Key, password: &str) -> Result<String, KeystoreError> {
    encrypt_with(key, password, 12)
}

fn encrypt_with(key: &Key, password: &str, log_n: u8) -> Result<String, KeystoreError> {
    let mut random = [0; 64];
    getrandom::fill(&mut random).map_err(|_| BadKey::NoRandomness)?;
    let (salt, iv): ([u8; 32], [u8; 16]) = (take(&random, 0), take(&random, 32));
    let kdfparams = KdfParams::Scrypt {
        dklen: 32,
        n: 1 << log_n,
        p: SCRYPT_P,
        r: SCRYPT_R,
        salt: hex::encode(salt),
    };
    let derived = derive("scrypt", &kdfparams, password)?;
    let mut secret = key.secret();
    apply_cipher(&derived, &iv, &mut secret);
    let file = File {
        address: Some(hex::encode(key.address())),
        crypto: Crypto {
            cipher: "aes-128-ctr".to_owned(),
            cipherparams: CipherParams { iv: hex::encode(iv) },
            ciphertext: hex::encode(secret.as_slice()),
            kdf: "scrypt".to_owned(),
            kdfparams,
            mac: hex::encode(checksum(&derived, secret.as_slice())),
        },
        id: random_uuid(take(&random, 48)),
        version: 3,
    };
    serde_json::to_string_pretty(&file).map_err(|error| KeystoreError::Malformed(place(&error)))
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

/// Encrypts what is plain and decrypts what is not: the cipher is its own inverse.
fn apply_cipher(derived: &[u8; 32], iv: &[u8; 16], secret: &mut [u8; 32]) {
    let key = Zeroizing::new(take::<16>(derived, 0));
    ctr::Ctr128BE::<Aes128>::new((&*key).into(), iv.into()).apply_keystream(secret);
}

fn take<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|place| from[at + place])
}

fn bytes<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], KeystoreError> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| malformed(field))?;
    Ok(bytes)
}

fn malformed(field: &'static str) -> KeystoreError {
    KeystoreError::Malformed(format!("{field} is not hex of the right length"))
}

/// Where the JSON broke; what stands there is left out.
fn place(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

/// A version 4 UUID, as the format wants one.
fn random_uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex::encode(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
