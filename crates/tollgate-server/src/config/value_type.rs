//! The types that settings can have: how each is read, documented and redacted.
//!
//! A new type implements [`SettingType`]; file, environment, flags, documents and reports follow.

use super::field::Field;
use super::table::Context;
use super::value::{Sourced, SourcedValue, Value};

/// The written form of a type's values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// In quotes.
    Text,
    /// In quotes, with a unit.
    Duration,
    /// In quotes with a unit or a word, or a whole number.
    Limit,
    /// `true` or `false`. A flag takes no value.
    Switch,
    /// A whole number.
    Number,
    /// A number with decimals.
    Decimal,
    /// One of these words, in quotes.
    Choice(&'static [&'static str]),
    /// A table with these fields.
    Table(&'static [Field]),
}

/// The part of a value that may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Redaction {
    ShowAll,
    /// Scheme, host and port: the path may be a key.
    UrlPath,
    /// All but user, password and parameters.
    DatabaseUrl,
    HideAll,
}

/// The properties of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueType {
    pub(crate) form: Form,
    /// In Markdown.
    pub(crate) words: &'static str,
    /// A list of them, in Markdown.
    pub(crate) list_words: &'static str,
    /// Stands for the value in the help of a flag.
    pub(crate) placeholder: &'static str,
    pub(crate) redaction: Redaction,
    pub(crate) is_list: bool,
}

impl ValueType {
    pub(crate) const fn new(form: Form, words: &'static str, placeholder: &'static str) -> Self {
        let redaction = Redaction::ShowAll;
        Self { form, words, list_words: "list", placeholder, redaction, is_list: false }
    }

    pub(crate) const fn text(words: &'static str) -> Self {
        Self::new(Form::Text, words, "TEXT")
    }

    pub(crate) const fn redacted(self, redaction: Redaction) -> Self {
        Self { redaction, ..self }
    }

    pub(crate) const fn list_words(self, list_words: &'static str) -> Self {
        Self { list_words, ..self }
    }

    /// Values are written without quotes in TOML.
    pub(crate) const fn is_bare(&self) -> bool {
        matches!(self.form, Form::Switch | Form::Number | Form::Decimal) && !self.is_list
    }

    pub(crate) const fn is_switch(&self) -> bool {
        matches!(self.form, Form::Switch)
    }

    /// A value must not be quoted in messages.
    pub(crate) fn is_secret(&self) -> bool {
        let is_secret = |field: &Field| field.value_type.is_secret();
        self.redaction != Redaction::ShowAll || self.fields().iter().any(is_secret)
    }

    /// The fields of a table, none for other types.
    pub(crate) const fn fields(&self) -> &'static [Field] {
        match self.form {
            Form::Table(fields) => fields,
            _ => &[],
        }
    }
}

/// A type that a setting can have.
pub(crate) trait SettingType: Sized {
    const TYPE: ValueType;

    /// Reads a value. `None` means that it can't be used and that `context` has the problem.
    fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self>;

    /// The value of a setting that is not given and has no fixed default. `None`: it is required.
    fn absent() -> Option<Self> {
        None
    }
}

impl<T: SettingType> SettingType for Option<T> {
    const TYPE: ValueType = T::TYPE;

    fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self> {
        T::read(value, field, context).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: SettingType> SettingType for Sourced<T> {
    const TYPE: ValueType = T::TYPE;

    fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self> {
        let source = value.source.clone();
        T::read(value, field, context).map(|value| Self { value, source })
    }
}

/// Entries that can't be used are left out.
impl<T: SettingType> SettingType for Vec<T> {
    const TYPE: ValueType = ValueType { words: T::TYPE.list_words, is_list: true, ..T::TYPE };

    fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self> {
        let items = list_items(value, field, context)?;
        Some(items.iter().filter_map(|item| T::read(item, field, context)).collect())
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}

/// The entries of a list. A single text is a list of one.
pub(crate) fn list_items<'a>(
    value: &'a SourcedValue,
    field: &Field,
    context: &mut Context<'_>,
) -> Option<&'a [SourcedValue]> {
    let items = match &value.value {
        Value::List(items) => items.as_slice(),
        Value::Text(_) => std::slice::from_ref(value),
        Value::Table(_) | Value::Bare(_) | Value::Decimal(_) | Value::Unsupported(_) => {
            context.refuse(&value.source, format!("must be a list: {}", field.toml_line()));
            return None;
        }
    };
    if items.len() > field.entries_max {
        let reason = format!("{} entries are more than {}", items.len(), field.entries_max);
        context.refuse(&value.source, reason);
        return None;
    }
    Some(items)
}

/// Reads a value that is neither a list nor a table. The text is quoted in problems unless it may
/// be a secret.
pub(crate) fn read_scalar<T>(
    value: &SourcedValue,
    field: &Field,
    context: &mut Context<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let parsed = scalar_text(&value.value, field).and_then(|text| {
        // A URL with an `@` may hold a password, in whichever setting it was put.
        let may_be_secret =
            field.value_type.is_secret() || text.contains("://") && text.contains('@');
        parse(text).map_err(|reason| match may_be_secret {
            true => reason,
            false => format!("{text:?} {reason}"),
        })
    });
    parsed.map_err(|reason| context.refuse(&value.source, reason)).ok()
}

fn scalar_text<'a>(value: &'a Value, field: &Field) -> Result<&'a str, String> {
    let line = || field.toml_line();
    match (value, field.value_type.form) {
        (Value::Text(text), _)
        | (Value::Bare(text), Form::Switch | Form::Number | Form::Decimal | Form::Limit)
        | (Value::Decimal(text), Form::Decimal) => Ok(text),
        (Value::Bare(text), Form::Duration) => {
            Err(format!("{text} must have a unit, like \"{text}s\""))
        }
        (Value::Bare(_), _) if field.value_type.is_secret() => {
            Err(format!("must be in quotes: {}", line()))
        }
        (Value::Bare(text), _) => Err(format!("{text} must be in quotes: {}", line())),
        (Value::Decimal(text), Form::Text | Form::Limit) if !field.value_type.is_secret() => {
            Err(format!("{text} must be in quotes: {}", line()))
        }
        (Value::Decimal(_), _) => Err(format!("must not be a fraction: {}", line())),
        (Value::List(_) | Value::Table(_), _) => Err(format!("must be one value: {}", line())),
        (Value::Unsupported(words), _) => Err(format!("must not be {words}: {}", line())),
    }
}
