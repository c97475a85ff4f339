//! Signs with keys that this process holds.
//!
//! Owns the keys and nothing else. Never decides a nonce or a fee, never logs a key: [`Key`] can't
//! be printed, and no error holds what was read. The engine asks [`LocalSigner`] through the
//! signer port; intake of signed bytes asks [`recover()`].

mod encode;
mod key;
pub mod keystore;
mod recover;
mod sources;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
pub use key::{BadKey, Key};
pub use recover::{RecoverError, recover};
pub use sources::{KeySourceError, LIST_BYTES_MAX, keys_in_list, keys_in_text};
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft};
use tollgate_model::{Address, Bytes, ChainId};

/// Up to this many drafts are signed where they are: a quarter of a millisecond, less than handing
/// them to another thread is worth.
const INLINE_MAX: usize = 8;

/// The fewest drafts that another thread is worth waking for.
const CHUNK_MIN: usize = 16;

/// Signs for every account that it has a key of.
///
/// Signatures are deterministic (RFC 6979) and low-s, so the same draft always gives the same
/// bytes and the same hash.
#[derive(Clone, Default)]
pub struct LocalSigner {
    keys: Arc<HashMap<Address, Key>>,
}

impl LocalSigner {
    /// Takes keys; the same key twice is one account.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        let keys = keys.into_iter().map(|key| (key.address(), key)).collect();
        Self { keys: Arc::new(keys) }
    }

    /// Reads a file with one hex key per line; blank lines and lines that start with `#` are
    /// passed over.
    ///
    /// # Errors
    /// Names the file and the line, never what stands there.
    pub fn from_key_file(path: &Path) -> Result<Self, KeySourceError> {
        Ok(Self::new(sources::keys_in_file(path)?))
    }

    /// Reads a comma-separated list of hex keys, as it comes from the environment.
    ///
    /// # Errors
    /// Names the place in the list, never what stands there.
    pub fn from_key_list(list: &str) -> Result<Self, KeySourceError> {
        Ok(Self::new(keys_in_list(list)?))
    }

    /// Opens every keystore file (JSON, version 3) of a folder with one password. Slow by design:
    /// about a second of one core for each.
    ///
    /// # Errors
    /// Names the file. One that can't be opened fails the whole folder: an account that is
    /// silently missing is found out too late.
    pub fn from_keystore_dir(dir: &Path, password: &str) -> Result<Self, KeySourceError> {
        Ok(Self::new(sources::keys_in_keystore_dir(dir, password)?))
    }

    /// All accounts of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let own = |keys: Arc<HashMap<Address, Key>>| {
            Arc::try_unwrap(keys).unwrap_or_else(|shared| {
                shared.iter().map(|(address, key)| (*address, key.duplicate())).collect()
            })
        };
        let mut keys = own(self.keys);
        keys.extend(own(other.keys));
        Self { keys: Arc::new(keys) }
    }

    /// Signs one draft, on this thread: about 33 µs.
    ///
    /// # Errors
    /// [`SignError::NoKey`], or [`SignError::Invalid`] for a draft that contradicts itself.
    pub fn sign_one(&self, draft: &TxDraft) -> Result<SignedTx, SignError> {
        let key = self.keys.get(&draft.from).ok_or(SignError::NoKey(draft.from))?;
        encode::sign(key, draft)
    }

    fn sign_all(&self, drafts: &[TxDraft]) -> Vec<Result<SignedTx, SignError>> {
        drafts.iter().map(|draft| self.sign_one(draft)).collect()
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalSigner({} accounts)", self.keys.len())
    }
}

#[async_trait]
impl Signer for LocalSigner {
    fn accounts(&self) -> Vec<Address> {
        let mut accounts: Vec<_> = self.keys.keys().copied().collect();
        accounts.sort_unstable();
        accounts
    }

    fn signs_for(&self, account: Address) -> bool {
        self.keys.contains_key(&account)
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        let read = recover(raw, chain_id);
        read.map(|signed| signed.draft).map_err(|error| SignError::Invalid(error.to_string()))
    }

    async fn sign(&self, mut drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        if drafts.len() <= INLINE_MAX {
            return self.sign_all(&drafts);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let size = drafts.len().div_ceil(cores).max(CHUNK_MIN);
        let mut chunks = Vec::with_capacity(cores);
        while !drafts.is_empty() {
            let rest = drafts.split_off(drafts.len().min(size));
            let (chunk, signer) = (std::mem::replace(&mut drafts, rest), self.clone());
            let count = chunk.len();
            chunks.push((count, tokio::task::spawn_blocking(move || signer.sign_all(&chunk))));
        }
        let answers = chunks.into_iter().map(async |(count, task)| {
            // A task that died or was cut off by the end of the runtime: nothing was signed that
            // anybody has seen, and the drafts can be signed again.
            task.await.unwrap_or_else(|_| {
                let lost = SignError::Unavailable("the signing task ended early".to_owned());
                vec![Err(lost); count]
            })
        });
        join_all(answers).await.into_iter().flatten().collect()
    }
}
