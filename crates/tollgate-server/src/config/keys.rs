//! The list of all settings by their full names, for file, environment, flags and documents.
//!
//! Made from the typed table; a setting with a `…_file` counterpart stands for two keys.

use std::sync::LazyLock;

use super::field::{AppliesTo, Field};
use super::settings::SECTIONS;
use super::table::full_name;
use super::types::PATH;
use super::value_type::ValueType;

/// A setting as users name it.
#[derive(Debug)]
pub(crate) struct Key {
    /// The full name, `section.name`.
    pub(crate) name: String,
    pub(crate) section: &'static str,
    pub(crate) value_type: ValueType,
    /// Type and limits, in Markdown.
    pub(crate) type_words: String,
    /// The text of the default, if there is a fixed one.
    pub(crate) default: Option<&'static str>,
    /// How the default is derived, if it is not fixed.
    pub(crate) derived: Option<&'static str>,
    /// The flag, without the dashes.
    pub(crate) flag: Option<&'static str>,
    /// The variables, that of the full name first.
    pub(crate) variables: Vec<String>,
    /// The setting whose value is in the file that this one names.
    pub(crate) holds: Option<String>,
    pub(crate) applies_to: AppliesTo,
    /// The setting as a line of TOML.
    pub(crate) toml_line: String,
    /// In Markdown.
    pub(crate) doc: String,
}

impl Key {
    fn new(section: &'static str, field: &'static Field) -> Self {
        let name = full_name(section, field.name);
        let mut variables = vec![variable(&name)];
        variables.extend(field.flag.map(variable));
        variables.extend(field.variable.map(str::to_owned));
        variables.dedup();
        Self {
            section,
            value_type: field.value_type,
            type_words: field.type_words(),
            default: field.default,
            derived: field.derived,
            flag: field.flag,
            variables,
            holds: None,
            applies_to: field.applies_to,
            toml_line: field.toml_line(),
            doc: match field.applies_to {
                AppliesTo::Any => field.doc().to_owned(),
                AppliesTo::Postgres => format!("PostgreSQL only. {}", field.doc()),
                AppliesTo::Sqlite => format!("SQLite only. {}", field.doc()),
            },
            name,
        }
    }

    /// The setting that names a file with the value of another one.
    fn file_of(key: &Self, field: &'static Field) -> Self {
        let content = if key.value_type.is_list { "one entry per line of" } else { "the value of" };
        Self {
            name: format!("{}_file", key.name),
            section: key.section,
            value_type: PATH,
            type_words: PATH.words.to_owned(),
            default: None,
            derived: None,
            flag: field.file_flag,
            variables: key.variables.iter().map(|name| format!("{name}_FILE")).collect(),
            holds: Some(key.name.clone()),
            applies_to: key.applies_to,
            toml_line: format!(
                "{}_file = \"/run/secrets/{}\"",
                field.name,
                key.name.replace('.', "_")
            ),
            doc: format!("File that holds {content} `{}`. At most 64 KiB.", key.name),
        }
    }

    /// The name without the section.
    pub(crate) fn short_name(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(_, short)| short)
    }
}

fn variable(name: &str) -> String {
    format!("TOLLGATE_{}", name.replace(['.', '-'], "_").to_uppercase())
}

/// All settings, in the order of the documents.
pub(crate) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    for (section, fields) in SECTIONS {
        for field in *fields {
            let key = Key::new(section, field);
            let file = field.has_file.then(|| Key::file_of(&key, field));
            keys.push(key);
            keys.extend(file);
        }
    }
    keys
});

/// The setting of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
