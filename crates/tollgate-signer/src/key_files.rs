//! Reads files that hold keys: plain text, and folders of keystores.
//!
//! The text read is zeroised after use. No error contains any of it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tollgate_model::Address;
use zeroize::Zeroizing;

use crate::key::Key;
use crate::keystore::{self, KeystoreError};

/// The longest key file, in bytes: sixty thousand keys.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Keystores that are decrypted at once: each takes one core for a second and up to 1 GiB.
const DECRYPTED_AT_ONCE: usize = 2;

/// The reason why keys could not be read. Names the file, never its content.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// A file or folder can't be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The file is longer than four MiB.
    #[error("{0}: longer than {FILE_BYTES_MAX} bytes")]
    TooLong(PathBuf),
    /// A keystore file can't be decrypted.
    #[error("{path}: {error}")]
    Keystore {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: KeystoreError,
    },
}

/// The files of a folder that are not hidden, by name.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, KeyFileError> {
    let unreadable = |error| KeyFileError::Unreadable { path: dir.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_file() && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn keys_in_keystore_dir(dir: &Path, password: &str) -> Result<Vec<Key>, KeyFileError> {
    let files = files_in(dir)?;
    let open = |path: &PathBuf| {
        let json = read_key_file(path)?;
        keystore::decrypt(&json, password)
            .map_err(|error| KeyFileError::Keystore { path: path.clone(), error })
    };
    std::thread::scope(|scope| {
        let chunks = files.chunks(files.len().div_ceil(DECRYPTED_AT_ONCE).max(1));
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

/// The files of a folder of keystores, with the accounts that stand in them. Needs no password; `None` for a file that
/// is no keystore, or names no account.
///
/// # Errors
/// [`KeyFileError::Unreadable`]: the folder can't be read.
pub fn accounts_in_keystore_dir(
    dir: &Path,
) -> Result<Vec<(PathBuf, Option<Address>)>, KeyFileError> {
    let named = |path: &PathBuf| {
        let json = read_key_file(path).ok()?;
        keystore::address_in(&json)?.parse().ok()
    };
    Ok(files_in(dir)?
        .into_iter()
        .map(|path| {
            let account = named(&path);
            (path, account)
        })
        .collect())
}

/// The keystore file of an account, by the address that stands in it.
pub(crate) fn keystore_of(
    dir: &Path,
    account: Address,
) -> Result<Option<Zeroizing<String>>, KeyFileError> {
    let wanted = alloy_primitives::hex::encode(account);
    for path in files_in(dir)? {
        // A file that can't be read holds up no other account.
        let Ok(json) = read_key_file(&path) else { continue };
        if keystore::address_in(&json).is_some_and(|named| named.eq_ignore_ascii_case(&wanted)) {
            return Ok(Some(json));
        }
    }
    Ok(None)
}

/// Reads a file of at most four MiB whose text is zeroised when dropped.
///
/// # Errors
/// [`KeyFileError::Unreadable`] or [`KeyFileError::TooLong`].
pub fn read_key_file(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let unreadable = |error| KeyFileError::Unreadable { path: path.to_owned(), error };
    // A pipe would block the open for ever.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::Error::other("not a regular file")));
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len().min(FILE_BYTES_MAX);
    // Allocated once: a string that grows leaves copies of its content behind.
    let mut text = Zeroizing::new(String::with_capacity(length as usize + 2));
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(KeyFileError::TooLong(path.to_owned()));
    }
    Ok(text)
}
