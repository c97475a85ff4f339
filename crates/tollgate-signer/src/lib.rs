//! Signs transactions with private keys held by this process.
//!
//! Owns the keys and nothing else. Never decides a nonce or a fee, never logs a key: [`Key`] has no
//! printable form, and no error contains what was read. The engine calls [`LocalSigner`] through the
//! signer port; intake of pre-signed transactions calls [`recover()`].

mod encode;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hd;
mod key;
mod key_files;
mod key_sources;
pub mod keystore;
mod recover;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use async_trait::async_trait;
use futures_util::future::join_all;
pub use hd::{BadMnemonic, HdKeys};
pub use key::{BadKey, Key};
pub use key_files::{KeyFileError, accounts_in_keystore_dir, read_key_file};
pub use key_sources::{KeySources, OpenedKeys};
pub use recover::{RecoverError, authorized_by, recover};
use tollgate_model::authorization::{Authorization, AuthorizationSignature};
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft};
use tollgate_model::{Address, Bytes, ChainId};

/// Batches up to this size are signed on the calling thread: a quarter of a millisecond, less than
/// the cost of waking another thread.
const INLINE_MAX: usize = 8;

/// The smallest chunk for which another thread is woken.
const CHUNK_MIN: usize = 16;

/// Signs for every account whose private key it holds.
///
/// Signatures are deterministic (RFC 6979) and low-s, so the same draft always gives the same
/// bytes and the same hash.
#[derive(Clone, Default)]
pub struct LocalSigner {
    /// The keys that the signer was made with.
    keys: Arc<HashMap<Address, Key>>,
    /// The keys that were opened since, and how often.
    opened: Arc<RwLock<HashMap<Address, (Key, usize)>>>,
}

impl LocalSigner {
    /// A signer for these keys; a key given twice counts as one account.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        let keys = keys.into_iter().map(|key| (key.address(), key)).collect();
        Self { keys: Arc::new(keys), opened: Arc::default() }
    }

    /// Signs for a further account from now on.
    pub(crate) fn open(&self, key: Key) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.entry(key.address()).or_insert((key, 0)).1 += 1;
    }

    /// Forgets a key that was closed as often as it was opened.
    pub(crate) fn close(&self, account: Address) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = opened.get_mut(&account) {
            *count -= 1;
            if *count == 0 {
                opened.remove(&account);
            }
        }
    }

    fn opened(&self) -> RwLockReadGuard<'_, HashMap<Address, (Key, usize)>> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decrypts every keystore file (JSON, version 3) of a folder with one password. Slow by design:
    /// about one second of one core per file.
    ///
    /// # Errors
    /// Names the file. One file that can't be decrypted fails the whole folder, because a missing
    /// account would only be noticed when it is needed.
    pub fn from_keystore_dir(dir: &Path, password: &str) -> Result<Self, KeyFileError> {
        Ok(Self::new(key_files::keys_in_keystore_dir(dir, password)?))
    }

    /// A signer for the accounts of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let own = |keys: Arc<HashMap<Address, Key>>| {
            Arc::try_unwrap(keys).unwrap_or_else(|shared| {
                shared.iter().map(|(address, key)| (*address, key.duplicate())).collect()
            })
        };
        let mut keys = own(self.keys);
        keys.extend(own(other.keys));
        Self { keys: Arc::new(keys), opened: Arc::default() }
    }

    /// Signs one draft on the calling thread: about 33 µs.
    ///
    /// # Errors
    /// [`SignError::NoKey`], or [`SignError::Invalid`] for a draft that contradicts itself.
    pub fn sign_one(&self, draft: &TxDraft) -> Result<SignedTx, SignError> {
        self.with_key(draft.from, |key| encode::sign(key, draft))?
    }

    fn with_key<T>(&self, of: Address, sign: impl FnOnce(&Key) -> T) -> Result<T, SignError> {
        if let Some(key) = self.keys.get(&of) {
            return Ok(sign(key));
        }
        let opened = self.opened();
        let (key, _) = opened.get(&of).ok_or(SignError::NoKey(of))?;
        Ok(sign(key))
    }

    fn sign_all(&self, drafts: &[TxDraft]) -> Vec<Result<SignedTx, SignError>> {
        drafts.iter().map(|draft| self.sign_one(draft)).collect()
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalSigner({} accounts)", self.keys.len() + self.opened().len())
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
        self.keys.contains_key(&account) || self.opened().contains_key(&account)
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        let read = recover(raw, chain_id);
        read.map(|signed| signed.draft).map_err(|error| SignError::Invalid(error.to_string()))
    }

    async fn authorize(&self, item: &Authorization) -> Result<AuthorizationSignature, SignError> {
        self.with_key(item.authority, |key| encode::authorize(key, item))
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
            // The task panicked or the runtime shut down. No signature left this function, so the
            // drafts can be signed again.
            task.await.unwrap_or_else(|_| {
                let lost = SignError::Unavailable("the signing task ended early".to_owned());
                vec![Err(lost); count]
            })
        });
        join_all(answers).await.into_iter().flatten().collect()
    }
}
