//! The keys that a node signs with, read from where the settings say.
//!
//! Names the place of whatever is wrong, never what stands there. A key that is given twice is
//! refused: it is a slip, and the account that was meant is missing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tollgate_model::Address;
use tollgate_model::port::signer::Signer;
use tollgate_signer::{Key, KeyFileError, LocalSigner, read_key_file};

use crate::config::{KeySources, Place, Problem, io_words};

/// Keys, and where each was found.
#[derive(Default)]
pub(crate) struct Keyring {
    keys: Vec<Key>,
    places: HashMap<Address, Place>,
    problems: Vec<Problem>,
}

impl Keyring {
    /// Reads the keys that are not encrypted, and sees whether the folder of the others is there.
    pub(crate) fn plain(sources: &KeySources) -> Result<Self, Vec<Problem>> {
        let mut ring = Self::default();
        for (place_in_list, (text, place)) in sources.keys.iter().enumerate() {
            match Key::from_hex(text) {
                Ok(key) => ring.add(key, place),
                Err(bad) => {
                    let reason = format!("key {}: {bad}", place_in_list + 1);
                    ring.problems.push(Problem::new(place.clone(), "keys.private_keys", reason));
                }
            }
        }
        for (file, place) in &sources.files {
            ring.add_file(file, place);
        }
        // A keystore is opened later: that takes long. A folder that is not there is known now.
        if let Some((folder, _, place)) = &sources.keystore
            && let Err(error) = std::fs::read_dir(folder)
        {
            let reason = format!("{}: {}", folder.display(), io_words(&error));
            ring.problems.push(Problem::new(place.clone(), "keys.keystore", reason));
        }
        if ring.problems.is_empty() { Ok(ring) } else { Err(ring.problems) }
    }

    /// Reads all keys. A keystore takes about a second for each file.
    pub(crate) fn open(sources: &KeySources) -> Result<LocalSigner, Vec<Problem>> {
        let ring = Self::plain(sources)?;
        let Some((folder, password, place)) = &sources.keystore else {
            return Ok(LocalSigner::new(ring.keys));
        };
        let wrong = |reason: String| vec![Problem::new(place.clone(), "keys.keystore", reason)];
        let opened = LocalSigner::from_keystore_dir(folder, password);
        let opened = opened.map_err(|error| wrong(words(error)))?;
        let accounts = opened.accounts();
        let folder = folder.display();
        if accounts.is_empty() {
            return Err(wrong(format!("{folder}: there are no keys in it")));
        }
        let twice = |account: &&Address| ring.places.contains_key(*account);
        if let Some(account) = accounts.iter().find(twice) {
            let other = &ring.places[account];
            return Err(wrong(format!("{folder}: has a key that {other} gives too ({account})")));
        }
        Ok(LocalSigner::new(ring.keys).and(opened))
    }

    fn add(&mut self, key: Key, place: &Place) {
        match self.places.get(&key.address()) {
            Some(other) => {
                let reason = format!("the same key as at {other} ({})", key.address());
                self.problems.push(Problem { place: place.clone(), key: None, reason });
            }
            None => {
                self.places.insert(key.address(), place.clone());
                self.keys.push(key);
            }
        }
    }

    fn add_file(&mut self, file: &Path, named_at: &Place) {
        let name: Arc<str> = file.display().to_string().into();
        let wrong = |reason| Problem::new(named_at.clone(), "keys.private_key_files", reason);
        let text = match read_key_file(file) {
            Ok(text) => text,
            Err(error) => return self.problems.push(wrong(words(error))),
        };
        let before = self.keys.len() + self.problems.len();
        for (line, text) in (1..).zip(text.lines()) {
            let place = Place::File { file: name.clone(), line, column: 1 };
            match text.trim() {
                "" => {}
                comment if comment.starts_with('#') => {}
                text => match Key::from_hex(text) {
                    Ok(key) => self.add(key, &place),
                    Err(bad) => {
                        let reason = bad.to_string();
                        self.problems.push(Problem { place, key: None, reason });
                    }
                },
            }
        }
        if self.keys.len() + self.problems.len() == before {
            self.problems.push(wrong(format!("{name}: there are no keys in it")));
        }
    }
}

fn words(error: KeyFileError) -> String {
    match error {
        KeyFileError::Unreadable { path, error } => {
            format!("{}: {}", path.display(), io_words(&error))
        }
        other => other.to_string(),
    }
}
