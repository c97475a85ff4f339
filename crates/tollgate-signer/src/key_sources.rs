//! Opens keys by reference while a node runs, for the accounts that are opened then.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_model::Address;
use tollgate_model::account::KeyRef;
use tollgate_model::port::{KeyUnavailable, Keys};
use zeroize::Zeroizing;

use crate::hd::HdKeys;
use crate::key::Key;
use crate::key_files::{keystore_of, read_key_file};
use crate::{LocalSigner, keystore};

/// The places in which a node looks for keys that references name.
#[derive(Default)]
pub struct KeySources {
    /// The folder of `file:` references.
    pub folder: Option<PathBuf>,
    /// The folder of `keystore:` references, and the password of its keys.
    pub keystore: Option<(PathBuf, Zeroizing<String>)>,
    /// The mnemonic of `hd:` references.
    pub hd: Option<HdKeys>,
}

impl KeySources {
    fn read(&self, key: &KeyRef) -> Result<Key, String> {
        match key {
            KeyRef::Caller => Err("the caller signs".to_owned()),
            KeyRef::Env(name) => {
                let text = std::env::var(name).map(Zeroizing::new);
                let text = text.map_err(|_| "this node has no such variable".to_owned())?;
                Key::from_hex(&text).map_err(|bad| format!("the variable {bad}"))
            }
            KeyRef::File(name) => {
                let folder = self.folder.as_deref().ok_or("keys.folder is not set on this node")?;
                one_key(&folder.join(name))
            }
            KeyRef::Keystore(address) => {
                let (folder, password) =
                    self.keystore.as_ref().ok_or("keys.keystore is not set on this node")?;
                let json = keystore_of(folder, *address)
                    .ok()
                    .flatten()
                    .ok_or("keys.keystore has no key of this account")?;
                keystore::decrypt(&json, password).map_err(|error| error.to_string())
            }
            KeyRef::Hd(index) => {
                let keys = self.hd.as_ref().ok_or("keys.mnemonic is not set on this node")?;
                keys.key(*index).map_err(|bad| bad.to_string())
            }
        }
    }
}

/// The only key of a file. Errors don't name the folder: callers of the API read them.
fn one_key(path: &Path) -> Result<Key, String> {
    let text = read_key_file(path).map_err(|_| "keys.folder has no such file".to_owned())?;
    let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
    match (lines.next(), lines.next()) {
        (Some(line), None) => Key::from_hex(line).map_err(|bad| format!("the file {bad}")),
        (None, _) => Err("the file holds no key".to_owned()),
        (Some(_), Some(_)) => Err("the file holds more than one key".to_owned()),
    }
}

/// Opens keys for a signer.
pub struct OpenedKeys {
    sources: Arc<KeySources>,
    signer: LocalSigner,
}

impl OpenedKeys {
    /// Opens keys from these sources.
    pub fn new(sources: KeySources, signer: LocalSigner) -> Self {
        Self { sources: Arc::new(sources), signer }
    }
}

impl OpenedKeys {
    async fn read(&self, key: &KeyRef) -> Result<Key, KeyUnavailable> {
        let (sources, wanted) = (self.sources.clone(), key.clone());
        // Decrypting takes a second of a core.
        let read = tokio::task::spawn_blocking(move || sources.read(&wanted)).await;
        let opened = read.unwrap_or_else(|_| Err("the key could not be read".to_owned()));
        let opened = opened.map_err(|why| KeyUnavailable(format!("{key}: {why}")))?;
        match key {
            KeyRef::Keystore(named) if *named != opened.address() => {
                Err(KeyUnavailable(format!("{key}: the file holds another account's key")))
            }
            _ => Ok(opened),
        }
    }
}

#[async_trait]
impl Keys for OpenedKeys {
    async fn address(&self, key: &KeyRef) -> Result<Address, KeyUnavailable> {
        Ok(self.read(key).await?.address())
    }

    async fn open(&self, key: &KeyRef) -> Result<Address, KeyUnavailable> {
        let opened = self.read(key).await?;
        let address = opened.address();
        self.signer.open(opened);
        Ok(address)
    }

    fn close(&self, account: Address) {
        self.signer.close(account);
    }
}
