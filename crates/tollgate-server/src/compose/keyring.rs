//! Reads the private keys of a node from the sources that the settings name.
//!
//! Problems name a place, never its content. A key that is given twice is refused: it is a mistake,
//! and the key of another account is missing.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use tollgate_evm::signer::{Key, KeySourceError, LIST_BYTES_MAX, LocalSigner};
use tollgate_model::Address;
use tollgate_model::port::signer::Signer;
use zeroize::Zeroizing;

use crate::config::{KeySettings, Problem, Source, Sourced};
use crate::failure::io_reason;

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
        let wrong = |reason: String| {
            Problem::new(named_at.clone(), "keys.private_key_files", format!("{name}: {reason}"))
        };
        let text = match read(file) {
            Ok(text) => text,
            Err(reason) => return self.problems.push(wrong(reason)),
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
            self.problems.push(wrong("there are no keys in it".to_owned()));
        }
    }
}

fn describe(error: KeySourceError) -> String {
    match error {
        KeySourceError::Unreadable { path, error } => {
            format!("{}: {}", path.display(), io_reason(&error))
        }
        other => other.to_string(),
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>, String> {
    let reason = |error: std::io::Error| io_reason(&error);
    let file = File::open(path).map_err(reason)?;
    let length = file.metadata().map_err(reason)?.len().min(LIST_BYTES_MAX);
    // Reserved at once: a string that grows leaves copies of the keys in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(length as usize + 2));
    file.take(LIST_BYTES_MAX + 1).read_to_string(&mut text).map_err(reason)?;
    match text.len() as u64 > LIST_BYTES_MAX {
        true => Err(format!("longer than {LIST_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}
