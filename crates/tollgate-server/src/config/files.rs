//! The files that settings name: whether they exist, and whether other users can read them.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::field::Field;
use super::keys::KEYS;
use super::load::Values;
use super::settings::Settings;
use super::value::{Problem, Source, Sourced, SourcedValue, Value};
use super::value_type::{Redaction, ValueType};
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
    let sinks = settings.alerts.sinks.iter().filter_map(|sink| {
        let file = sink.secret_file.as_ref()?;
        let reason = format!("sink {:?} {}", sink.name, sink.sink().err()?);
        Some(Problem::new(file.source.clone(), "alerts.sinks", reason))
    });
    files.chain(keystore).chain(tls).chain(sinks).collect()
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
    let keystore = settings.keys.keystore.as_ref().map(|keystore| &keystore.value);
    for folder in keystore.into_iter().chain(&settings.keys.folder) {
        files.push(folder.clone());
        files.extend(files_in(folder));
    }
    for key in KEYS.iter() {
        match values.get(key.path) {
            Some(Sourced { value: Value::Text(file), .. }) if key.holds.is_some() => {
                files.push(file.into());
            }
            // The value is from the file that another setting names, and this is its source.
            Some(_) if is_from_file(values, key.path) => {}
            Some(value) => files_of_secrets(&key.field.value_type, value, &mut files),
            None => {}
        }
    }
    let chats = settings.alerts.sinks.iter().filter(|sink| sink.r#type.has_secret_url());
    files.extend(chats.filter_map(|sink| file_of(&sink.url.as_ref()?.source)));
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

/// A setting `…_file` gives the value of this one.
fn is_from_file(values: &Values, name: &str) -> bool {
    KEYS.iter().any(|key| key.holds == Some(name) && values.is_given(key.path))
}

/// Adds the configuration files that hold a secret of this value, and the files that the value says to hold one;
/// entries of lists of tables included.
fn files_of_secrets(value_type: &ValueType, value: &SourcedValue, files: &mut Vec<PathBuf>) {
    match &value.value {
        Value::List(items) => {
            items.iter().for_each(|item| files_of_secrets(value_type, item, files));
        }
        Value::Table(entries) => {
            let fields = value_type.fields();
            let named = |name: &str| fields.iter().find(|field| field.name == name);
            for entry in entries {
                let Some(field) = named(&entry.name) else { continue };
                match &entry.value.value {
                    Value::Text(file) if names_secret_file(field, fields) => {
                        files.push(file.into())
                    }
                    _ => files_of_secrets(&field.value_type, &entry.value, files),
                }
            }
        }
        Value::Text(text) if is_secret(value_type, text) => files.extend(file_of(&value.source)),
        Value::Text(_) | Value::Bare(_) | Value::Decimal(_) | Value::Unsupported(_) => {}
    }
}

/// A field `…_file` beside the secret that its file holds.
fn names_secret_file(field: &Field, fields: &[Field]) -> bool {
    let is_secret = |other: &Field| other.value_type.redaction == Redaction::HideAll;
    let of = field.name.strip_suffix("_file");
    of.is_some_and(|of| fields.iter().any(|other| other.name == of && is_secret(other)))
}

/// A URL counts only with a password: the path of one seldom is a secret, and a warning that everybody gets is
/// ignored.
fn is_secret(value_type: &ValueType, text: &str) -> bool {
    // A text in the place of a table is the value of its first field.
    let of_text = value_type.fields().first().map_or(value_type, |first| &first.value_type);
    let user = text.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    match of_text.redaction {
        Redaction::HideAll => true,
        Redaction::DatabaseUrl | Redaction::UrlPath => {
            user.is_some_and(|(user, _)| user.contains(':'))
        }
        Redaction::ShowAll => false,
    }
}

/// The configuration file that a value is from.
fn file_of(source: &Source) -> Option<PathBuf> {
    match source {
        Source::File { file, .. } => Some(file.as_ref().into()),
        Source::Default | Source::Variable(_) | Source::Flag(_) => None,
    }
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
