//! Tables of settings: the macro that declares one, and the reader that fills it.
//!
//! A table is a section of the file (`[lease]`) or an entry in a list of tables
//! (`[[stuck.rules]]`). Both are read by the same code, so that a section can become a list.

use super::field::Field;
use super::load::Values;
use super::value::{Entry, Problem, Source, SourcedValue, Value};
use super::value_type::{Form, SettingType, ValueType};

/// A struct whose fields are settings.
pub(crate) trait Table: Sized {
    const FIELDS: &'static [Field];

    /// Reads every field. `None`: a required one is missing or wrong, and a problem says so.
    fn read(reader: &mut TableReader<'_>) -> Option<Self>;
}

/// Declares structs of settings: for each field its documentation, type, default and attributes,
/// which are the fields of [`Field`]. A field without a default is required unless its type can be
/// absent, like `Option` and `Vec`.
///
/// `fields of` does the same for a struct that another crate declares.
macro_rules! settings {
    () => {};
    (
        $(#[$about:meta])+
        struct $table:ident { $(
            $(#[doc = $doc:literal])+
            $name:ident: $type:ty $(= $default:literal)? $(, $attribute:ident = $value:expr)*;
        )+ }
        $($rest:tt)*
    ) => {
        $(#[$about])+
        #[derive(Clone)]
        pub(crate) struct $table { $($(#[doc = $doc])+ pub(crate) $name: $type,)+ }

        $crate::config::table::settings! {
            fields of $table { $(
                $(#[doc = $doc])+
                $name: $type $(= $default)? $(, $attribute = $value)*;
            )+ }
            $($rest)*
        }
    };
    (
        fields of $table:ident { $(
            $(#[doc = $doc:literal])+
            $name:ident: $type:ty $(= $default:literal)? $(, $attribute:ident = $value:expr)*;
        )+ $(.. $base:expr)? }
        $($rest:tt)*
    ) => {
        impl $crate::config::table::Table for $table {
            const FIELDS: &'static [$crate::config::field::Field] = &[$(
                $crate::config::field::Field {
                    $(default: Some($default),)?
                    $($attribute: $value,)*
                    ..$crate::config::field::Field::new(
                        $crate::config::table::plain_name(stringify!($name)),
                        concat!($($doc),+),
                        <$type as $crate::config::value_type::SettingType>::TYPE,
                    )
                },
            )+];

            #[allow(clippy::needless_update, reason = "a feature of the other crate adds fields")]
            fn read(reader: &mut $crate::config::table::TableReader<'_>) -> Option<Self> {
                let mut fields = Self::FIELDS.iter();
                // Each is read before any is missed, so that all problems are reported at once.
                $(let $name = reader.field::<$type>(fields.next()?);)+
                Some(Self { $($name: $name?.into(),)+ $(..$base)? })
            }
        }
        $crate::config::table::settings! { $($rest)* }
    };
}

/// Makes a table the type of a setting, so that a list of it is an array of tables.
macro_rules! entry_types {
    ($($table:ty: $form:expr;)+) => {$(
        impl $crate::config::value_type::SettingType for $table {
            const TYPE: $crate::config::value_type::ValueType =
                $crate::config::table::entry_type::<$table>(&$form);

            fn read(
                value: &$crate::config::value::SourcedValue,
                _: &$crate::config::field::Field,
                context: &mut $crate::config::table::Context<'_>,
            ) -> Option<Self> {
                $crate::config::table::read_entry(value, &$form, context)
            }
        }
    )+};
}

pub(crate) use {entry_types, settings};

/// The name of a setting that is a word of Rust (`r#type`).
pub(crate) const fn plain_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Names and example of the entries of a list of tables.
pub(crate) struct EntryForm {
    /// With its article.
    pub(crate) noun: &'static str,
    pub(crate) list_words: &'static str,
    /// An entry in TOML.
    pub(crate) example: &'static str,
    /// A plain text stands for a table with the first field alone.
    pub(crate) may_be_text: bool,
}

pub(crate) const fn entry_type<T: Table>(form: &EntryForm) -> ValueType {
    ValueType::new(Form::Table(T::FIELDS), "table", if form.may_be_text { "URL" } else { "TOML" })
        .list_words(form.list_words)
}

/// The setting that is being read, and where its problems go.
pub(crate) struct Context<'a> {
    key: &'a str,
    /// The field inside an entry, if it is one.
    field: Option<&'a str>,
    problems: &'a mut Vec<Problem>,
}

impl Context<'_> {
    pub(crate) fn refuse(&mut self, source: &Source, reason: impl AsRef<str>) {
        let reason = match self.field {
            Some(field) => format!("{field} {}", reason.as_ref()),
            None => reason.as_ref().to_owned(),
        };
        self.problems.push(Problem::new(source.clone(), self.key, reason));
    }

    /// The number of problems, to see whether a step added one.
    pub(crate) fn problem_count(&self) -> usize {
        self.problems.len()
    }
}

/// Reads the fields of one table.
pub(crate) struct TableReader<'a> {
    place: TablePlace<'a>,
    problems: &'a mut Vec<Problem>,
}

enum TablePlace<'a> {
    Section { path: &'static str, values: &'a Values },
    Entry { key: &'a str, noun: &'static str, source: &'a Source, entries: &'a [Entry] },
}

impl<'a> TableReader<'a> {
    pub(crate) fn of_section(
        path: &'static str,
        values: &'a Values,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self { place: TablePlace::Section { path, values }, problems }
    }

    /// Reads a field. A value that can't be used is replaced by the default, so that the rest can
    /// be checked; the problem is kept.
    pub(crate) fn field<T: SettingType>(&mut self, field: &'static Field) -> Option<T> {
        let name: String;
        let (key, inside, value) = match &self.place {
            TablePlace::Section { path, values } => {
                name = full_name(path, field.name);
                (name.as_str(), None, values.get(&name))
            }
            TablePlace::Entry { key, entries, .. } => {
                let entry = entries.iter().find(|entry| entry.name == field.name);
                (*key, Some(field.name), entry.map(|entry| &entry.value))
            }
        };
        let mut context = Context { key, field: inside, problems: self.problems };
        let given = value.is_some();
        let read = value.and_then(|value| T::read(value, field, &mut context));
        let default = || {
            let default = SourcedValue::text(field.default?, Source::Default);
            T::read(&default, field, &mut context)
        };
        let read = read.or_else(default).or_else(T::absent);
        if let (None, false, TablePlace::Entry { key, noun, source, .. }) =
            (&read, given, &self.place)
        {
            let article = if field.name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
            let reason = format!("{noun} needs {article} {}", field.name);
            self.problems.push(Problem::new((*source).clone(), key, reason));
        }
        read
    }
}

/// The name of a setting in a section; the empty section is the top of the file.
pub(crate) fn full_name(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// Reads an entry of a list of tables.
pub(crate) fn read_entry<T: Table>(
    value: &SourcedValue,
    form: &EntryForm,
    context: &mut Context<'_>,
) -> Option<T> {
    let before = context.problem_count();
    let shorthand;
    let entries = match &value.value {
        Value::Table(entries) => entries.as_slice(),
        Value::Text(_) if form.may_be_text => {
            let (name, name_source) = (T::FIELDS[0].name.to_owned(), value.source.clone());
            shorthand = [Entry { name, name_source, value: value.clone() }];
            &shorthand
        }
        _ => {
            let or_text = if form.may_be_text { "a text or " } else { "" };
            let reason = format!("{} is {or_text}a table like {}", form.noun, form.example);
            context.refuse(&value.source, reason);
            return None;
        }
    };
    let names: Vec<&str> = T::FIELDS.iter().map(|field| field.name).collect();
    for entry in entries.iter().filter(|entry| !names.contains(&entry.name.as_str())) {
        let name = &entry.name;
        let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
        let near = names.iter().copied().min_by_key(distance).filter(|known| distance(known) <= 2);
        let meant = near.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
        let reason = format!("{name} is unknown; {} has {}{meant}", form.noun, names.join(", "));
        context.refuse(&entry.name_source, reason);
    }
    let nested = context.field.map(|field| full_name(context.key, field));
    let key = nested.as_deref().unwrap_or(context.key);
    let (noun, source) = (form.noun, &value.source);
    let place = TablePlace::Entry { key, noun, source, entries };
    let read = T::read(&mut TableReader { place, problems: context.problems });
    read.filter(|_| context.problem_count() == before)
}
