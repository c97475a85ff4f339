//! The list of all settings by their full names, for file, environment, flags and documents.
//!
//! Made from the typed table; a setting with a `…_file` counterpart stands for two keys.

use std::sync::LazyLock;

use super::field::{AppliesTo, Field};
use super::settings::SECTIONS;
use super::table::full_name;
use super::types::PATH;

/// A setting as users name it.
#[derive(Debug)]
pub(crate) struct Key {
    /// The full name, `section.name`.
    pub(crate) path: &'static str,
    pub(crate) section: &'static str,
    pub(crate) field: Field,
    /// The variables, that of the full name first.
    pub(crate) variables: Vec<String>,
    /// The setting whose value is in the file that this one names.
    pub(crate) holds: Option<&'static str>,
}

impl Key {
    fn new(section: &'static str, field: Field) -> Self {
        let path = leak(full_name(section, field.name));
        let variable =
            |name: &str| format!("TOLLGATE_{}", name.replace(['.', '-'], "_").to_uppercase());
        let mut variables = vec![variable(path), variable(field.flag), field.variable.to_owned()];
        variables.retain(|name| !name.is_empty() && name != "TOLLGATE_");
        variables.dedup();
        Self { path, section, field, variables, holds: None }
    }

    /// The setting that names a file with the value of this one.
    fn file_key(&self) -> Self {
        let content =
            if self.field.value_type.is_list { "one entry per line of" } else { "the value of" };
        let doc = format!("File that holds {content} `{}`. At most 64 KiB.", self.path);
        let example = format!("\"/run/secrets/{}\"", self.path.replace('.', "_"));
        let field = Field {
            example: leak(example),
            flag: self.field.file_flag,
            ..Field::new(leak(format!("{}_file", self.field.name)), leak(doc), PATH)
        };
        let variables = self.variables.iter().map(|name| format!("{name}_FILE")).collect();
        Self { variables, holds: Some(self.path), ..Self::new(self.section, field) }
    }

    /// The documentation, in Markdown.
    pub(crate) fn doc(&self) -> String {
        let only = match self.field.applies_to {
            AppliesTo::Any => "",
            AppliesTo::Postgres => "PostgreSQL only. ",
            AppliesTo::Sqlite => "SQLite only. ",
        };
        format!("{only}{}", self.field.doc.trim())
    }
}

/// The list of settings is made once and lives as long as the process.
fn leak(text: String) -> &'static str {
    text.leak()
}

/// All settings, in the order of the documents.
pub(crate) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let fields = SECTIONS.iter().flat_map(|(path, fields)| fields.iter().map(move |f| (path, f)));
    let keys = fields.flat_map(|(section, field)| {
        let key = Key::new(section, *field);
        let file = field.has_file.then(|| key.file_key());
        std::iter::once(key).chain(file)
    });
    keys.collect()
});

/// The setting of that name.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}
