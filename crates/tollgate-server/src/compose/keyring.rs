//! Reads the private keys of a node from the sources that the settings name.
//!
//! Problems name a place, never its content. A key that is given twice is refused: it is a mistake,
//! and the key of another account is missing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tollgate_model::Address;
use tollgate_model::port::signer::Signer;
use tollgate_signer::{HdKeys, Key, KeyFileError, KeySources, LocalSigner, read_key_file};
use zeroize::Zeroizing;

use crate::config::{KeySettings, Problem, Source, Sourced};
use crate::failure::{Failure, io_reason};

/// Private keys and their sources.
#[derive(Default)]
pub(crate) struct Keyring {
    keys: Vec<Key>,
    sources: HashMap<Address, Source>,
    problems: Vec<Problem>,
}

impl Keyring {
    /// Reads the keys that are not encrypted.
    pub(crate) fn plain(settings: &KeySettings) -> Result<Self, Vec<Problem>> {
        let mut ring = Self::default();
        for (number, Sourced { value, source }) in (1..).zip(&settings.private_keys) {
            match Key::from_hex(&value.0) {
                Ok(key) => ring.add(key, source),
                Err(bad) => {
                    let reason = format!("key {number}: {bad}");
                    ring.problems.push(Problem::new(source.clone(), "keys.private_keys", reason));
                }
            }
        }
        for file in &settings.private_key_files {
            ring.add_file(&file.value, &file.source);
        }
        if ring.problems.is_empty() { Ok(ring) } else { Err(ring.problems) }
    }

    /// Reads all keys. Decrypting a keystore takes about a second per key.
    pub(crate) fn open(settings: &KeySettings) -> Result<LocalSigner, Vec<Problem>> {
        let ring = Self::plain(settings)?;
        let (Some(keystore), Some(password)) = (&settings.keystore, &settings.keystore_password)
        else {
            return Ok(LocalSigner::new(ring.keys));
        };
        let wrong =
            |reason: String| vec![Problem::new(keystore.source.clone(), "keys.keystore", reason)];
        let opened = LocalSigner::from_keystore_dir(&keystore.value, &password.0);
        let opened = opened.map_err(|error| wrong(describe(error)))?;
        let accounts = opened.accounts();
        let folder = keystore.value.display();
        if accounts.is_empty() {
            return Err(wrong(format!("{folder}: there are no keys in it")));
        }
        let twice = |account: &&Address| ring.sources.contains_key(*account);
        if let Some(account) = accounts.iter().find(twice) {
            let other = &ring.sources[account];
            return Err(wrong(format!("{folder}: has a key that {other} gives too ({account})")));
        }
        Ok(LocalSigner::new(ring.keys).and(opened))
    }

    /// The sources of keys for accounts that are opened while the node runs.
    pub(crate) fn sources(settings: &KeySettings) -> Result<KeySources, Failure> {
        let hd = settings.mnemonic.as_ref().map(|words| HdKeys::from_mnemonic(&words.0));
        let hd = hd.transpose().map_err(|bad| format!("keys.mnemonic: {bad}"))?;
        let keystore = settings.keystore.as_ref().zip(settings.keystore_password.as_ref());
        Ok(KeySources {
            folder: settings.folder.clone(),
            keystore: keystore.map(|(folder, password)| {
                (folder.value.clone(), Zeroizing::new(password.0.to_string()))
            }),
            hd,
        })
    }

    fn add(&mut self, key: Key, source: &Source) {
        match self.sources.get(&key.address()) {
            Some(other) => {
                let reason = format!("the same key as at {other} ({})", key.address());
                self.problems.push(Problem { source: source.clone(), key: None, reason });
            }
            None => {
                self.sources.insert(key.address(), source.clone());
                self.keys.push(key);
            }
        }
    }

    fn add_file(&mut self, file: &Path, named_at: &Source) {
        let name: Arc<str> = file.display().to_string().into();
        let wrong = |reason| Problem::new(named_at.clone(), "keys.private_key_files", reason);
        let text = match read_key_file(file) {
            Ok(text) => text,
            Err(error) => return self.problems.push(wrong(describe(error))),
        };
        let before = self.keys.len() + self.problems.len();
        for (line, text) in (1..).zip(text.lines()) {
            let source = Source::File { file: name.clone(), line, column: 1 };
            match text.trim() {
                "" => {}
                comment if comment.starts_with('#') => {}
                text => match Key::from_hex(text) {
                    Ok(key) => self.add(key, &source),
                    Err(bad) => {
                        let reason = bad.to_string();
                        self.problems.push(Problem { source, key: None, reason });
                    }
                },
            }
        }
        if self.keys.len() + self.problems.len() == before {
            self.problems.push(wrong(format!("{name}: there are no keys in it")));
        }
    }
}

fn describe(error: KeyFileError) -> String {
    match error {
        KeyFileError::Unreadable { path, error } => {
            format!("{}: {}", path.display(), io_reason(&error))
        }
        other => other.to_string(),
    }
}
