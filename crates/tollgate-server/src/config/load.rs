//! Combines the layers: flags over variables over the file over the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::flags::Flags;
use super::keys::{KEYS, Key, find};
use super::value::{Problem, Source, SourcedValue, Value};
use super::{env, file};
use crate::failure::io_reason;

/// The longest file that a secret is read from, in bytes (I13).
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// The values of one layer by the names of their settings.
pub(crate) type Layer = BTreeMap<&'static str, SourcedValue>;

/// The value of every setting that has one, and its source.
#[derive(Clone, Default)]
pub(crate) struct Values {
    values: Layer,
    /// Do not prevent a start.
    pub(crate) warnings: Vec<String>,
}

impl Values {
    pub(crate) fn get(&self, name: &str) -> Option<&SourcedValue> {
        self.values.get(name)
    }

    pub(crate) fn source(&self, name: &str) -> Source {
        self.get(name).map_or(Source::Default, |value| value.source.clone())
    }

    /// A value comes from a file, a variable or a flag.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.source(name) != Source::Default
    }

    /// A switch is on. One that can't be parsed is reported elsewhere.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let text = self.get(name).map(super::redact::plain_text).unwrap_or_default();
        super::parse::switch(&text).unwrap_or(true)
    }

    /// A given value differs from the default.
    pub(crate) fn is_changed(&self, name: &str) -> bool {
        let default = find(name).and_then(|key| key.field.default);
        self.is_given(name) && self.get(name).map(super::redact::plain_text).as_deref() != default
    }

    /// Notes the value that a setting has because of others.
    pub(crate) fn derive(&mut self, name: &'static str, text: impl Into<String>) {
        self.values.insert(name, SourcedValue::text(text, Source::Default));
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl From<Layer> for Values {
    fn from(values: Layer) -> Self {
        Self { values, warnings: Vec::new() }
    }
}

/// Gathers all layers, and what is wrong with them.
pub(crate) fn gather(
    flags: Flags,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (Values, Vec<Problem>) {
    let variables: Vec<(OsString, OsString)> = variables.collect();
    let from_variable = || {
        let config = variables.iter().find(|(name, _)| name.to_str() == Some(env::CONFIG));
        let path = config.filter(|(_, value)| !value.is_empty())?.1.clone();
        Some((PathBuf::from(path), Source::Variable(env::CONFIG.to_owned())))
    };
    let named = flags.config.map(|path| (path, Source::Flag("config"))).or_else(from_variable);
    let file = named.map(|(path, source)| file::read(&path, &source)).unwrap_or_default();
    let env = env::read(variables.into_iter());
    let mut values = Values { values: Layer::new(), warnings: env.unknown };
    let mut problems = file.problems;
    problems.extend(env.problems);
    for layer in [file.layer, env.layer, flags.layer] {
        values.values.extend(layer);
    }
    read_secret_files(&mut values.values, &mut problems);
    for key in KEYS.iter() {
        if let Some(text) = key.field.default {
            let default = || SourcedValue::text(text, Source::Default);
            values.values.entry(key.path).or_insert_with(default);
        }
    }
    (values, problems)
}

/// Gives each setting with a `…_file` counterpart the content of that file.
fn read_secret_files(values: &mut Layer, problems: &mut Vec<Problem>) {
    let keys = KEYS.iter().filter_map(|key| Some((key, find(key.holds?)?)));
    for (key, target) in keys {
        let Some(path) = values.get(key.path).cloned() else { continue };
        if let Some(direct) = values.get(target.path) {
            if direct.source.layer() == path.source.layer() {
                let reason = format!("{} is given too, at {}", target.path, direct.source);
                problems.push(Problem::new(path.source, key.path, reason));
                continue;
            }
            if direct.source > path.source {
                values.remove(key.path);
                continue;
            }
        }
        match content(key, target, &path) {
            Ok(content) => {
                values.insert(target.path, content);
            }
            Err(problem) => problems.push(problem),
        }
    }
}

fn content(key: &Key, target: &Key, path: &SourcedValue) -> Result<SourcedValue, Problem> {
    let problem = |reason: String| Problem::new(path.source.clone(), key.path, reason);
    let Value::Text(file) = &path.value else {
        return Err(problem("must be a path, in quotes".to_owned()));
    };
    let text = read_secret(Path::new(file)).map_err(|why| problem(format!("{file}: {why}")))?;
    let source = path.source.clone();
    if !target.field.value_type.is_list {
        return Ok(SourcedValue::text(text.trim_end_matches(['\r', '\n']), source));
    }
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let items = lines.map(|line| SourcedValue::text(line, source.clone())).collect();
    Ok(SourcedValue { value: Value::List(items), source })
}

/// The text of a file that holds a secret.
pub(super) fn read_secret(path: &Path) -> Result<Zeroizing<String>, String> {
    let length = std::fs::metadata(path).map_err(|error| io_reason(&error))?.len();
    if length > SECRET_BYTES_MAX {
        return Err(format!("longer than {SECRET_BYTES_MAX} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| io_reason(&error))?;
    let text = Zeroizing::new(text);
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(text) }
}
