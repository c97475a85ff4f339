//! A row of a settings table: the name, type, default, limits and documentation of one setting.

use super::value_type::{Form, ValueType};

/// The largest number that both stores can hold.
pub(crate) const NUMBER_MAX: u64 = i64::MAX as u64;

/// The database that a setting has an effect with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AppliesTo {
    Any,
    Postgres,
    Sqlite,
}

/// One setting of a section, or one field of an entry in a list of tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) value_type: ValueType,
    /// The text of the default, if there is a fixed one.
    pub(crate) default: Option<&'static str>,
    /// How the default is derived, if it is not fixed.
    pub(crate) derived: Option<&'static str>,
    /// The name of the command line flag, without the dashes.
    pub(crate) flag: Option<&'static str>,
    /// A second variable beside those of the key and of the flag.
    pub(crate) variable: Option<&'static str>,
    /// The limits of a number, both included.
    pub(crate) range: (u64, u64),
    /// The shortest allowed duration.
    pub(crate) min: &'static str,
    /// The most entries of a list (I13).
    pub(crate) entries_max: usize,
    pub(crate) applies_to: AppliesTo,
    /// Whether a setting `…_file` may name a file that holds the value.
    pub(crate) has_file: bool,
    /// The flag of that setting.
    pub(crate) file_flag: Option<&'static str>,
    /// A value in TOML for the example file, if there is no fixed default.
    pub(crate) example: &'static str,
    doc: &'static str,
}

impl Field {
    pub(crate) const fn new(name: &'static str, doc: &'static str, value_type: ValueType) -> Self {
        Self {
            name,
            value_type,
            default: None,
            derived: None,
            flag: None,
            variable: None,
            range: (0, NUMBER_MAX),
            min: "0s",
            entries_max: 10_000,
            applies_to: AppliesTo::Any,
            has_file: false,
            file_flag: None,
            example: "",
            doc,
        }
    }

    pub(crate) const fn default(self, text: &'static str) -> Self {
        Self { default: Some(text), ..self }
    }

    pub(crate) const fn derived(self, words: &'static str) -> Self {
        Self { derived: Some(words), ..self }
    }

    pub(crate) const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    pub(crate) const fn variable(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    pub(crate) const fn range(self, range: (u64, u64)) -> Self {
        Self { range, ..self }
    }

    pub(crate) const fn min(self, min: &'static str) -> Self {
        Self { min, ..self }
    }

    pub(crate) const fn entries_max(self, entries_max: usize) -> Self {
        Self { entries_max, ..self }
    }

    pub(crate) const fn applies_to(self, applies_to: AppliesTo) -> Self {
        Self { applies_to, ..self }
    }

    pub(crate) const fn has_file(self, has_file: bool) -> Self {
        Self { has_file, ..self }
    }

    pub(crate) const fn file_flag(self, flag: &'static str) -> Self {
        Self { file_flag: Some(flag), ..self }
    }

    pub(crate) const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// What the setting does, in Markdown.
    pub(crate) fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Type and limits, in Markdown.
    pub(crate) fn type_words(&self) -> String {
        let value_type = self.value_type;
        let words = match (value_type.form, self.range) {
            (Form::Number, (from, NUMBER_MAX)) => format!("number, at least {from}"),
            (Form::Number, (from, to)) => format!("number, {from} to {to}"),
            (Form::Duration, _) if self.min != "0s" => format!("duration, at least {}", self.min),
            (Form::Choice(words), _) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
            }
            _ => value_type.words.to_owned(),
        };
        if value_type.is_secret() { format!("{words}; a secret") } else { words }
    }

    /// The setting as a line of TOML, with its default or an example.
    pub(crate) fn toml_line(&self) -> String {
        let value = match self.default {
            Some(text) if self.value_type.is_bare() => text.to_owned(),
            Some(text) => format!("{text:?}"),
            None => self.example.to_owned(),
        };
        format!("{} = {value}", self.name)
    }
}
