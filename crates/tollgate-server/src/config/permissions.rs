//! Files with secrets or money in them that other users of the machine can read.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollgate_sqlite::{SqliteOptions, SqlitePath};

use super::given::{Place, Value};
use super::keys::KEYS;
use super::kind::Kind;
use super::layers::Values;
use super::settings::Settings;
use crate::compose::Database;

/// Mode bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// A line for each file that group or others can get at.
pub(super) fn warnings(values: &Values, settings: &Settings) -> Vec<String> {
    let mut files: Vec<PathBuf> = Vec::new();
    files.extend(settings.keys.files.iter().map(|(file, _)| file.clone()));
    if let Some((folder, ..)) = &settings.keys.keystore {
        files.extend(files_in(folder));
    }
    // Not URLs, which seldom hold a secret: a warning that everybody gets is one that nobody reads.
    for key in KEYS.iter().filter(|key| matches!(key.kind, Kind::Secret | Kind::Secrets)) {
        if let Some(Place::File { file, .. }) = values.given.get(key.name).map(|given| &given.place)
        {
            files.push(file.as_ref().into());
        }
    }
    for key in KEYS.iter().filter(|key| key.holds.is_some()) {
        if let Some(Value::Text(file)) = values.given.get(key.name).map(|given| &given.value) {
            files.push(file.into());
        }
    }
    if let Database::Sqlite(SqliteOptions { path: SqlitePath::File(file), .. }) = &settings.database
    {
        // A database that is not there yet is made for its owner alone.
        files.extend(["", "-wal", "-shm"].map(|end| {
            let mut file = file.clone().into_os_string();
            file.push(end);
            file.into()
        }));
    }
    files.sort();
    files.dedup();
    files.iter().filter_map(|file| warning(file)).collect()
}

fn warning(file: &Path) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o777;
    let file = file.display();
    (mode & OTHERS != 0).then(|| {
        format!("{file}: others on this machine can get at it (mode {mode:04o}): chmod 600 {file}")
    })
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    files.collect()
}
