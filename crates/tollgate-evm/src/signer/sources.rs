//! Where keys come from: lines of a file, a list in the environment, a folder of keystores.
//!
//! What was read is wiped. No error holds any of it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zeroize::Zeroizing;

use super::key::{BadKey, Key};
use super::keystore::{self, KeystoreError};

/// The longest key file, in bytes: sixty thousand keys.
pub const LIST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Keystores that are opened at once: each takes a core for a second and up to 1 GiB.
const OPENED_AT_ONCE: usize = 2;

/// Why keys could not be read. Names the place, never what stands there.
#[derive(Debug, Error)]
pub enum KeySourceError {
    /// A file or folder can't be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is longer than [`LIST_BYTES_MAX`].
    #[error("{0}: longer than {LIST_BYTES_MAX} bytes")]
    TooLong(PathBuf),
    /// An entry is no key.
    #[error("{}entry {place}: {problem}", path.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display())))]
    BadEntry {
        /// The file, where there is one.
        path: Option<PathBuf>,
        /// The line, or the place in the list, from 1.
        place: usize,
        /// What is wrong.
        problem: BadKey,
    },
    /// A keystore file can't be opened.
    #[error("{path}: {error}")]
    Keystore {
        /// Which.
        path: PathBuf,
        /// Why.
        error: KeystoreError,
    },
}

/// Keys, one on each line; blank lines and lines that start with `#` are passed over.
///
/// # Errors
/// The line that is no key.
pub fn keys_in_text(text: &str) -> Result<Vec<Key>, KeySourceError> {
    keys_in(text.lines())
}

/// Keys, separated by commas; blank entries are passed over.
///
/// # Errors
/// The place of the entry that is no key.
pub fn keys_in_list(list: &str) -> Result<Vec<Key>, KeySourceError> {
    keys_in(list.split(','))
}

fn keys_in<'a>(entries: impl Iterator<Item = &'a str>) -> Result<Vec<Key>, KeySourceError> {
    entries
        .map(str::trim)
        .zip(1..)
        .filter(|(entry, _)| !entry.is_empty() && !entry.starts_with('#'))
        .map(|(entry, place)| {
            Key::from_hex(entry).map_err(|problem| KeySourceError::BadEntry {
                path: None,
                place,
                problem,
            })
        })
        .collect()
}

pub(super) fn keys_in_file(file: &Path) -> Result<Vec<Key>, KeySourceError> {
    let text = read(file)?;
    keys_in_text(&text).map_err(|error| match error {
        KeySourceError::BadEntry { place, problem, .. } => {
            KeySourceError::BadEntry { path: Some(file.to_owned()), place, problem }
        }
        other => other,
    })
}

pub(super) fn keys_in_keystore_dir(dir: &Path, password: &str) -> Result<Vec<Key>, KeySourceError> {
    let unreadable = |error| KeySourceError::Unreadable { path: dir.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_file() && !hidden {
            files.push(path);
        }
    }
    files.sort();
    let open = |path: &PathBuf| {
        let json = read(path)?;
        keystore::decrypt(&json, password)
            .map_err(|error| KeySourceError::Keystore { path: path.clone(), error })
    };
    std::thread::scope(|scope| {
        let chunks = files.chunks(files.len().div_ceil(OPENED_AT_ONCE).max(1));
        let threads: Vec<_> = chunks
            .map(|chunk| scope.spawn(move || chunk.iter().map(open).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

fn read(path: &Path) -> Result<Zeroizing<String>, KeySourceError> {
    let unreadable = |error| KeySourceError::Unreadable { path: path.to_owned(), error };
    let file = fs::File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len().min(LIST_BYTES_MAX);
    // All of it at once: a string that grows leaves copies of itself behind.
    let mut text = Zeroizing::new(String::with_capacity(length as usize + 2));
    file.take(LIST_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LIST_BYTES_MAX {
        return Err(KeySourceError::TooLong(path.to_owned()));
    }
    Ok(text)
}
