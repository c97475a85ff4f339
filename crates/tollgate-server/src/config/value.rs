//! Values as they were written, each with its source, so that every problem can name its place.

use std::fmt;
use std::sync::Arc;

use super::keys::Key;

/// The source of a value. A later variant takes precedence over an earlier one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Source {
    /// Not given: the default, or derived from other settings.
    Default,
    /// The configuration file; line and column count from 1.
    File { file: Arc<str>, line: usize, column: usize },
    /// An environment variable.
    Variable(String),
    /// A command line flag, without the dashes.
    Flag(&'static str),
}

impl Source {
    /// The name of the layer in reports.
    pub(crate) const fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Variable(_) => "env",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// A value and its source.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

/// A value before it is parsed.
pub(crate) type SourcedValue = Sourced<Value>;

/// A value as it was written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// A TOML string; every value of the environment and of the command line.
    Text(String),
    /// A whole number or a boolean in TOML.
    Bare(String),
    /// A decimal number in TOML.
    Decimal(String),
    List(Vec<SourcedValue>),
    Table(Vec<Entry>),
    /// A TOML value that no setting takes, in words.
    Unsupported(&'static str),
}

/// A name and its value in a TOML table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) name_source: Source,
    pub(crate) value: SourcedValue,
}

impl SourcedValue {
    pub(crate) fn text(text: impl Into<String>, source: Source) -> Self {
        Self { value: Value::Text(text.into()), source }
    }

    /// Parses the text of a variable. A list is either TOML or separated by commas.
    pub(crate) fn from_variable(key: &Key, text: &str, source: Source) -> Result<Self, Problem> {
        let text = text.trim();
        if !key.field.value_type.is_list {
            return Ok(Self::text(text, source));
        }
        if text.starts_with('[') {
            return super::file::list(key, text, source);
        }
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| Self::text(entry, source.clone())).collect();
        Ok(Self { value: Value::List(entries), source })
    }
}

/// A reason to refuse the configuration, with its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Problem {
    /// [`Source::Default`] if something is missing.
    pub(crate) source: Source,
    /// The setting, if the problem is about one.
    pub(crate) key: Option<String>,
    pub(crate) reason: String,
}

impl Problem {
    pub(crate) fn new(source: Source, key: &str, reason: impl Into<String>) -> Self {
        Self { source, key: Some(key.to_owned()), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, &self.key) {
            (Source::Default, Some(key)) => write!(f, "{key}: {}", self.reason),
            (Source::Default, None) => f.write_str(&self.reason),
            // A flag or a variable names the setting already.
            (Source::File { .. }, Some(key)) => {
                write!(f, "{}: {key}: {}", self.source, self.reason)
            }
            (source, _) => write!(f, "{source}: {}", self.reason),
        }
    }
}
