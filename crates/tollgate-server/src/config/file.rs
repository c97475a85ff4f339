//! The configuration file: TOML, read with the line and column of every name and value.
//!
//! Reports all problems at once. A TOML parser with spans rather than a layered configuration
//! library: those know the file that a value comes from, but not the line.

use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Key, find};
use super::load::Layer;
use super::table::full_name;
use super::value::{Entry, Problem, Source, SourcedValue, Value};
use crate::failure::io_reason;

/// The longest file, in bytes (I13).
const BYTES_MAX: u64 = 1024 * 1024;

/// The settings of a file, and what is wrong with it.
#[derive(Default)]
pub(crate) struct FileLayer {
    pub(crate) layer: Layer,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file.
pub(crate) fn read(path: &Path, named_by: &Source) -> FileLayer {
    let refused = |reason: String| {
        let (source, reason) = (named_by.clone(), format!("{}: {reason}", path.display()));
        let problem = Problem { source, key: None, reason };
        FileLayer { problems: vec![problem], ..FileLayer::default() }
    };
    let length = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) => return refused(io_reason(&error)),
    };
    if length > BYTES_MAX {
        return refused(format!("longer than {BYTES_MAX} bytes"));
    }
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&path.display().to_string(), &text),
        Err(error) => refused(io_reason(&error)),
    }
}

/// Parses the text of a file.
pub(crate) fn parse(file: &str, text: &str) -> FileLayer {
    let document = Document { file: file.into(), text, fixed: None };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut read = FileLayer::default();
    if !errors.is_empty() {
        let problem = |error: toml::de::Error| Problem {
            source: document.at(error.span().unwrap_or_default().start),
            key: None,
            reason: error.message().replace('\n', ", "),
        };
        read.problems = errors.into_iter().map(problem).collect();
        // Further errors on the same line usually follow from the first.
        read.problems.sort();
        read.problems.dedup_by_key(|problem| match problem.source {
            Source::File { line, .. } => line,
            _ => 0,
        });
        // The parts of a broken file that can be parsed may not mean what the author meant.
        return read;
    }
    document.walk("", table.get_ref(), &mut read);
    read
}

/// Parses a list from the environment that is written as in the file.
pub(crate) fn list(key: &Key, text: &str, source: Source) -> Result<SourcedValue, Problem> {
    let document = Document { file: "".into(), text, fixed: Some(source.clone()) };
    let (value, errors) = DeValue::parse_recoverable(text);
    match errors.first() {
        // The parser's message may quote the text, which may hold secrets.
        Some(_) => Err(Problem::new(source, key.path, "is not a TOML list")),
        None => Ok(document.value(&value)),
    }
}

struct Document<'a> {
    file: Arc<str>,
    text: &'a str,
    /// The source of every value, if the text is not a file.
    fixed: Option<Source>,
}

impl Document<'_> {
    fn at(&self, offset: usize) -> Source {
        if let Some(source) = &self.fixed {
            return source.clone();
        }
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Source::File { file: self.file.clone(), line, column }
    }

    fn walk(&self, prefix: &str, table: &DeTable<'_>, read: &mut FileLayer) {
        for (name, value) in table {
            let at = self.at(name.span().start);
            let path = full_name(prefix, name.get_ref());
            let sub = value.get_ref().as_table();
            let is_section = KEYS.iter().any(|key| key.path.starts_with(&format!("{path}.")));
            match (find(&path), sub) {
                (Some(key), None) => {
                    read.layer.insert(key.path, self.value(value));
                }
                (Some(key), Some(_)) => {
                    let form = if key.field.value_type.is_list { "list" } else { "value" };
                    let reason = format!("is a {form}, not a section: {}", key.field.toml_line());
                    read.problems.push(Problem::new(at, &path, reason));
                }
                (None, Some(sub)) if is_section => self.walk(&path, sub, read),
                (None, _) if is_section => {
                    let reason = format!("is a section: write [{path}] and its settings below");
                    read.problems.push(Problem::new(at, &path, reason));
                }
                (None, _) => {
                    let reason = format!("unknown{}", suggestion(&path));
                    read.problems.push(Problem::new(at, &path, reason));
                }
            }
        }
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> SourcedValue {
        let source = self.at(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Value::Bare(number.to_string()),
            DeValue::Integer(_) => Value::Unsupported("a number that is not decimal"),
            DeValue::Float(number) => Value::Decimal(number.to_string()),
            DeValue::Boolean(switch) => Value::Bare(switch.to_string()),
            DeValue::Datetime(_) => Value::Unsupported("a date"),
            DeValue::Array(list) => Value::List(list.iter().map(|item| self.value(item)).collect()),
            DeValue::Table(table) => {
                let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| Entry {
                    name: ToString::to_string(name.get_ref()),
                    name_source: self.at(name.span().start),
                    value: self.value(value),
                };
                Value::Table(table.iter().map(entry).collect())
            }
        };
        SourcedValue { value, source }
    }
}

/// The setting that an unknown name may mean, or the settings of its section.
fn suggestion(path: &str) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let near = |key: &&Key| strsim::damerau_levenshtein(path, key.path) <= 2;
    // `mode` and `node.mode` both suggest `submitter.mode`.
    let same_end = |key: &&Key| last(key.path) == last(path);
    let same_flag = |key: &&Key| key.field.flag.replace('-', "_") == last(path);
    let meant = KEYS
        .iter()
        .find(near)
        .or_else(|| KEYS.iter().find(same_flag))
        .or_else(|| KEYS.iter().find(same_end));
    if let Some(key) = meant {
        return format!("; did you mean {}?", key.path);
    }
    let section = path.rsplit_once('.').map_or("", |(section, _)| section);
    let siblings: Vec<&str> =
        KEYS.iter().filter(|key| key.section == section).map(|key| key.field.name).collect();
    match (section, siblings.is_empty()) {
        ("", _) | (_, true) => "; `tollgate config example` shows all settings".to_owned(),
        (section, false) => format!("; [{section}] has {}", siblings.join(", ")),
    }
}
