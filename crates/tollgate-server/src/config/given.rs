//! What was given, and where: so that every problem can name its place.

use std::fmt;
use std::sync::Arc;

use super::keys::Key;

/// Where a value comes from. Later ones win.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    /// Nobody gave it.
    Default,
    /// In the file, counted from 1.
    File { file: Arc<str>, line: usize, column: usize },
    /// A variable.
    Variable(String),
    /// A flag, without the dashes.
    Flag(&'static str),
}

impl Place {
    /// The layer's word.
    pub(crate) const fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Variable(_) => "env",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// A value as it was written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Text(String),
    /// A number or a switch, which TOML tells from text.
    Bare(String),
    /// A number with a fraction, which hardly any setting takes.
    Fraction(String),
    List(Vec<Given>),
    Table(Vec<Entry>),
    /// What no setting takes: its word.
    Other(&'static str),
}

/// A line of a table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Where the name stands.
    pub(crate) at: Place,
    pub(crate) given: Given,
}

/// A value and its place.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Given {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

impl Given {
    pub(crate) fn text(text: impl Into<String>, place: Place) -> Self {
        Self { value: Value::Text(text.into()), place }
    }

    /// From one text of the environment or the command line. A list may be written as TOML, or with
    /// commas where its entries are plain.
    pub(crate) fn from_outside(key: &Key, text: &str, place: Place) -> Result<Self, Problem> {
        let text = text.trim();
        if !key.kind.is_list() {
            return Ok(Self::text(text, place));
        }
        if text.starts_with('[') {
            return super::file::list(key, text, place);
        }
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| Self::text(entry, place.clone())).collect();
        Ok(Self { value: Value::List(entries), place })
    }
}

/// A reason not to start, with its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Problem {
    /// Where; [`Place::Default`] where something is missing.
    pub(crate) place: Place,
    /// The setting, where it is about one.
    pub(crate) key: Option<String>,
    pub(crate) reason: String,
}

impl Problem {
    pub(crate) fn new(place: Place, key: &str, reason: impl Into<String>) -> Self {
        Self { place, key: Some(key.to_owned()), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, &self.key) {
            (Place::Default, Some(key)) => write!(f, "{key}: {}", self.reason),
            (Place::Default, None) => f.write_str(&self.reason),
            // A flag or a variable is a name already.
            (Place::File { .. }, Some(key)) => write!(f, "{}: {key}: {}", self.place, self.reason),
            (place, _) => write!(f, "{place}: {}", self.reason),
        }
    }
}
