//! The file: TOML, read with the place of every name and value.
//!
//! All that is wrong with it is told at once. A plain reader with spans rather than a layered
//! configuration library: those know which file a value is from, but not the line.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::given::{Entry, Given, Place, Problem, Value};
use super::keys::{KEYS, Key, find};

/// The longest file, in bytes (I13).
const BYTES_MAX: u64 = 1024 * 1024;

/// A file's settings, and what is wrong with it.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) given: BTreeMap<&'static str, Given>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file.
pub(crate) fn read(path: &Path, named_by: &Place) -> Read {
    let refused = |reason: String| {
        let place = named_by.clone();
        let problem = Problem { place, key: None, reason: format!("{}: {reason}", path.display()) };
        Read { problems: vec![problem], ..Read::default() }
    };
    let length = match std::fs::metadata(path) {
        Ok(about) => about.len(),
        Err(error) => return refused(super::io_words(&error)),
    };
    if length > BYTES_MAX {
        return refused(format!("longer than {BYTES_MAX} bytes"));
    }
    match std::fs::read_to_string(path) {
        Ok(text) => understand(&path.display().to_string(), &text),
        Err(error) => refused(super::io_words(&error)),
    }
}

/// Understands a file's text.
pub(crate) fn understand(file: &str, text: &str) -> Read {
    let source = Source { file: file.into(), text, fixed: None };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut read = Read::default();
    if !errors.is_empty() {
        let problem = |error: toml::de::Error| Problem {
            place: source.at(error.span().unwrap_or_default().start),
            key: None,
            reason: error.message().replace('\n', ", "),
        };
        read.problems = errors.into_iter().map(problem).collect();
        // What follows on the same line follows from the first.
        read.problems.sort();
        read.problems.dedup_by_key(|problem| match problem.place {
            Place::File { line, .. } => line,
            _ => 0,
        });
        // What was understood of a broken file may be something else than what is meant.
        return read;
    }
    source.walk("", table.get_ref(), &mut read);
    read
}

/// A list from the environment or the command line, written as in the file.
pub(crate) fn list(key: &Key, text: &str, place: Place) -> Result<Given, Problem> {
    let source = Source { file: "".into(), text, fixed: Some(place.clone()) };
    let (value, errors) = DeValue::parse_recoverable(text);
    match errors.first() {
        // The library's words may quote; a list may hold secrets.
        Some(_) => Err(Problem::new(place, key.name, "is not a list in the form of TOML")),
        None => Ok(source.given(&value)),
    }
}

struct Source<'a> {
    file: Arc<str>,
    text: &'a str,
    /// The place of everything, where it is no file.
    fixed: Option<Place>,
}

impl Source<'_> {
    fn at(&self, offset: usize) -> Place {
        if let Some(place) = &self.fixed {
            return place.clone();
        }
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Place::File { file: self.file.clone(), line, column }
    }

    fn walk(&self, prefix: &str, table: &DeTable<'_>, read: &mut Read) {
        for (name, value) in table {
            let at = self.at(name.span().start);
            let path = match prefix {
                "" => name.get_ref().to_string(),
                prefix => format!("{prefix}.{}", name.get_ref()),
            };
            let sub = value.get_ref().as_table();
            let is_section = KEYS.iter().any(|key| key.name.starts_with(&format!("{path}.")));
            match (find(&path), sub) {
                (Some(key), None) => {
                    read.given.insert(key.name, self.given(value));
                }
                (Some(key), Some(_)) => {
                    let form = if key.kind.is_list() { "list" } else { "value" };
                    let reason = format!("is a {form}, not a section: {}", example(key));
                    read.problems.push(Problem::new(at, &path, reason));
                }
                (None, Some(sub)) if is_section => self.walk(&path, sub, read),
                (None, _) if is_section => {
                    let reason = format!("is a section: write [{path}] and what is in it below");
                    read.problems.push(Problem::new(at, &path, reason));
                }
                (None, _) => {
                    let reason = format!("unknown{}", advice(&path));
                    read.problems.push(Problem::new(at, &path, reason));
                }
            }
        }
    }

    fn given(&self, value: &Spanned<DeValue<'_>>) -> Given {
        let place = self.at(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Value::Bare(number.to_string()),
            DeValue::Integer(_) => Value::Other("a number that is not decimal"),
            DeValue::Float(number) => Value::Fraction(number.to_string()),
            DeValue::Boolean(switch) => Value::Bare(switch.to_string()),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(list) => Value::List(list.iter().map(|item| self.given(item)).collect()),
            DeValue::Table(table) => {
                let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| Entry {
                    name: ToString::to_string(name.get_ref()),
                    at: self.at(name.span().start),
                    given: self.given(value),
                };
                Value::Table(table.iter().map(entry).collect())
            }
        };
        Given { value, place }
    }
}

/// How a setting is written.
pub(crate) fn example(key: &Key) -> String {
    let value = match key.preset {
        super::keys::Preset::Value(value) if key.kind.is_bare() => value.to_owned(),
        super::keys::Preset::Value(value) => format!("{value:?}"),
        _ => key.example.to_owned(),
    };
    format!("{} = {value}", key.short())
}

/// What may have been meant by a name that is not known.
pub(crate) fn advice(path: &str) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let near = |key: &&Key| strsim::damerau_levenshtein(path, key.name) <= 2;
    // `mode` stands for `submitter.mode`, and so does `node.mode`.
    let same_end = |key: &&Key| last(key.name) == last(path);
    let same_flag = |key: &&Key| key.flag.is_some_and(|flag| flag.replace('-', "_") == last(path));
    let meant = KEYS
        .iter()
        .find(near)
        .or_else(|| KEYS.iter().find(same_flag))
        .or_else(|| KEYS.iter().find(same_end));
    if let Some(key) = meant {
        return format!("; did you mean {}?", key.name);
    }
    let section = path.rsplit_once('.').map_or("", |(section, _)| section);
    let siblings: Vec<&str> =
        KEYS.iter().filter(|key| key.section() == section).map(Key::short).collect();
    match (section, siblings.is_empty()) {
        ("", _) | (_, true) => "; `tollgate config example` shows all that there is".to_owned(),
        (section, false) => format!("; [{section}] has {}", siblings.join(", ")),
    }
}
