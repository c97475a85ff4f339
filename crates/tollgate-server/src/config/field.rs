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

/// One setting of a section, or one field of an entry in a list of tables. An empty text stands for
/// an attribute that the setting does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// In Markdown, with blanks around it.
    pub(crate) doc: &'static str,
    pub(crate) value_type: ValueType,
    /// The text of the default, if there is a fixed one.
    pub(crate) default: Option<&'static str>,
    /// The derivation of a default that is not fixed, in words.
    pub(crate) derived: &'static str,
    /// The name of the command line flag, without the dashes.
    pub(crate) flag: &'static str,
    /// A variable beside those of the key and of the flag.
    pub(crate) variable: &'static str,
    /// The limits of a number, both included.
    pub(crate) range: (u64, u64),
    /// The shortest allowed duration.
    pub(crate) min: &'static str,
    /// The most entries of a list (I13).
    pub(crate) entries_max: usize,
    pub(crate) applies_to: AppliesTo,
    /// The setting without which this one has no effect: a switch, or one that must be given.
    pub(crate) needs: &'static str,
    /// A setting `…_file` may name a file that holds the value; this is its flag.
    pub(crate) has_file: bool,
    pub(crate) file_flag: &'static str,
    /// A value in TOML for the example file, if there is no fixed default.
    pub(crate) example: &'static str,
}

impl Field {
    pub(crate) const fn new(name: &'static str, doc: &'static str, value_type: ValueType) -> Self {
        let (derived, flag, variable, needs, file_flag, example) = ("", "", "", "", "", "");
        let (default, range, min, entries_max) = (None, (0, NUMBER_MAX), "0s", 10_000);
        let (applies_to, has_file) = (AppliesTo::Any, false);
        Self {
            name,
            doc,
            value_type,
            default,
            derived,
            flag,
            variable,
            range,
            min,
            entries_max,
            applies_to,
            needs,
            has_file,
            file_flag,
            example,
        }
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
