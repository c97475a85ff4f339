//! The files that settings name: whether they exist, and whether other users can read them.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::keys::KEYS;
use super::load::Values;
use super::settings::Settings;
use super::value::{Problem, Source, Sourced, Value};
use super::value_type::Redaction;
use crate::failure::io_reason;

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// A problem for each key file and keystore that can't be read. Their content is checked later.
pub(super) fn unreadable(settings: &Settings) -> Vec<Problem> {
    let problem = |path: &Sourced<PathBuf>, key: &str, error: std::io::Error| {
        let reason = format!("{}: {}", path.value.display(), io_reason(&error));
        Problem::new(path.source.clone(), key, reason)
    };
    let files = settings.keys.private_key_files.iter().filter_map(|path| {
        let error = std::fs::File::open(&path.value).err()?;
        Some(problem(path, "keys.private_key_files", error))
    });
    let keystore = settings.keys.keystore.iter().filter_map(|path| {
        let error = std::fs::read_dir(&path.value).err()?;
        Some(problem(path, "keys.keystore", error))
    });
    let tls = tls_files(settings).into_iter().filter_map(|(key, path)| {
        let error = std::fs::File::open(&path.as_ref()?.value).err()?;
        Some(problem(path.as_ref()?, key, error))
    });
    files.chain(keystore).chain(tls).collect()
}

/// The files of TLS by the names of their settings.
fn tls_files(settings: &Settings) -> [(&'static str, &Option<Sourced<PathBuf>>); 9] {
    let Settings { tls, operators, cluster, .. } = settings;
    [
        ("tls.cert_file", &tls.cert_file),
        ("tls.key_file", &tls.key_file),
        ("tls.client_ca_file", &tls.client_ca_file),
        ("operators.cert_file", &operators.cert_file),
        ("operators.key_file", &operators.key_file),
        ("operators.client_ca_file", &operators.client_ca_file),
        ("cluster.ca_file", &cluster.ca_file),
        ("cluster.cert_file", &cluster.cert_file),
        ("cluster.key_file", &cluster.key_file),
    ]
}

/// A warning for each file with secrets or money in it that other users can access.
pub(super) fn permission_warnings(values: &Values, settings: &Settings) -> Vec<String> {
    let mut files: Vec<PathBuf> = Vec::new();
    files.extend(settings.keys.private_key_files.iter().map(|file| file.value.clone()));
    let tls_keys = tls_files(settings).into_iter().filter(|(name, _)| name.ends_with(".key_file"));
    files.extend(tls_keys.filter_map(|(_, file)| Some(file.as_ref()?.value.clone())));
    if let Some(keystore) = &settings.keys.keystore {
        files.push(keystore.value.clone());
        files.extend(files_in(&keystore.value));
    }
    for key in KEYS.iter() {
        match values.get(key.path) {
            Some(Sourced { value: Value::Text(file), .. }) if key.holds.is_some() => {
                files.push(file.into());
            }
            // Only for settings that are secrets as a whole: a URL seldom holds one, and a warning
            // that everybody gets is ignored.
            Some(Sourced { source: Source::File { file, .. }, .. })
                if key.field.value_type.redaction == Redaction::HideAll =>
            {
                files.push(file.as_ref().into());
            }
            _ => {}
        }
    }
    files.extend(settings.retention.archive_dir.clone());
    if let Some(file) = settings.database.url.sqlite_file() {
        // A database file that does not exist yet is created for its owner only.
        files.extend(["", "-wal", "-shm"].map(|end| {
            let mut file = file.as_os_str().to_owned();
            file.push(end);
            file.into()
        }));
    }
    files.sort();
    files.dedup();
    files.iter().filter_map(|file| permission_warning(file)).collect()
}

fn permission_warning(file: &Path) -> Option<String> {
    let metadata = std::fs::metadata(file).ok()?;
    let mode = metadata.permissions().mode() & 0o777;
    let (file, advised) = (file.display(), advised_mode(&metadata));
    (mode & OTHERS != 0).then(|| {
        format!("{file}: other users can access it (mode {mode:04o}): chmod {advised} {file}")
    })
}

/// A folder without the x bit can't be entered, not even by its owner.
fn advised_mode(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() { "700" } else { "600" }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}
