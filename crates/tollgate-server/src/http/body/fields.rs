//! Reads JSON objects field by field, each field once and by its type.
//!
//! An object must be an object (an array in its place is refused), a name may be given once, and a
//! field that was not asked for is refused at the end. Every refusal names the path of the field, the
//! value and what is allowed.

use std::collections::HashSet;

use serde_json::value::RawValue;
use tollgate_api::{ErrorCode, NUMBER_FORMS, Number, shortened};
use tollgate_model::metadata::entries;

use crate::http::problem::Problem;

/// A body, or an object in one.
pub(crate) trait FromFields: Sized {
    /// Takes its fields out.
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem>;
}

/// Reads a body that is an object.
pub(crate) fn read_object<T: FromFields>(value: &RawValue) -> Result<T, Problem> {
    object_at(String::new(), value)
}

/// The fields of an object that were not taken yet.
pub(crate) struct Fields<'a> {
    /// The path of the object; empty for the body itself.
    path: String,
    entries: Vec<(String, &'a RawValue)>,
    asked: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a RawValue, path: String) -> Result<Self, Problem> {
        let Some(entries) = entries(value) else {
            return Err(wrong_kind(&path, value, "an object"));
        };
        let fields = Self { path, entries, asked: Vec::new() };
        let mut seen = HashSet::new();
        match fields.entries.iter().find(|(name, _)| !seen.insert(name.as_str())) {
            Some((name, _)) => {
                Err(Problem::of_field(ErrorCode::InvalidBody, &fields.at(name), "is given twice"))
            }
            None => Ok(fields),
        }
    }

    /// The path of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        let name = shortened(name);
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    /// A field's value; null is the same as none.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        let place = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.remove(place).1).filter(|value| value.get() != "null")
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        text(&self.at(name), value).map(Some)
    }

    /// A value as it is.
    pub(crate) fn raw(&mut self, name: &'static str) -> Result<Option<Box<RawValue>>, Problem> {
        Ok(self.take(name).map(ToOwned::to_owned))
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        match self.take(name).map(|value| (value, value.get())) {
            None => Ok(None),
            Some((_, "true")) => Ok(Some(true)),
            Some((_, "false")) => Ok(Some(false)),
            Some((value, _)) => Err(wrong_kind(&self.at(name), value, "true or false")),
        }
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<Number>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let field = self.at(name);
        let text = match value.get().as_bytes().first() {
            Some(b'"') => text(&field, value)?,
            Some(b'-' | b'0'..=b'9') => value.get().to_owned(),
            _ => return Err(wrong_kind(&field, value, NUMBER_FORMS)),
        };
        Ok(Some(Number::new(text)))
    }

    /// The texts of an array.
    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Problem> {
        let Some(given) = self.array(name)? else { return Ok(None) };
        let path = self.at(name);
        let read = |(place, one): (usize, &RawValue)| text(&format!("{path}[{place}]"), one);
        given.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
    }

    /// Texts to set, or null to clear them; `None` where the field is left out.
    pub(crate) fn change_of_texts(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Option<Vec<String>>>, Problem> {
        let is_given = self.entries.iter().any(|(known, _)| known == name);
        Ok(self.texts(name)?.map(Some).or(is_given.then_some(None)))
    }

    /// A text to set, or null to clear it; `None` where the field is left out.
    pub(crate) fn change_of_text(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Option<String>>, Problem> {
        let is_given = self.entries.iter().any(|(known, _)| known == name);
        Ok(self.text(name)?.map(Some).or(is_given.then_some(None)))
    }

    /// A number to set, or null to clear it; `None` where the field is left out.
    pub(crate) fn change_of_number(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Option<Number>>, Problem> {
        let is_given = self.entries.iter().any(|(known, _)| known == name);
        Ok(self.number(name)?.map(Some).or(is_given.then_some(None)))
    }

    pub(crate) fn object<T: FromFields>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        object_at(self.at(name), value).map(Some)
    }

    /// The elements of an array; `None` where there is none.
    pub(crate) fn array(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Vec<&'a RawValue>>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        array_at(&self.at(name), value).map(Some)
    }

    /// The objects of an array; none where there is no array.
    pub(crate) fn objects<T: FromFields>(&mut self, name: &'static str) -> Result<Vec<T>, Problem> {
        let field = self.at(name);
        let items = self.array(name)?.unwrap_or_default();
        let read = |(place, value)| object_at(format!("{field}[{place}]"), value);
        items.into_iter().enumerate().map(read).collect()
    }

    /// The value of a required field.
    pub(crate) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, Problem> {
        value.ok_or_else(|| Problem::missing(&self.at(name)))
    }

    /// The fields that were not taken, in their order.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Refuses a field that was not asked for.
    pub(crate) fn end(&self) -> Result<(), Problem> {
        match self.entries.first() {
            Some((name, _)) => {
                let what = format!("is not a field here; known are {}", self.asked.join(", "));
                Err(Problem::of_field(ErrorCode::InvalidBody, &self.at(name), what))
            }
            None => Ok(()),
        }
    }
}

fn object_at<T: FromFields>(path: String, value: &RawValue) -> Result<T, Problem> {
    let mut fields = Fields::of(value, path)?;
    let read = T::from_fields(&mut fields)?;
    fields.end()?;
    Ok(read)
}

pub(crate) fn array_at<'a>(path: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, Problem> {
    serde_json::from_str(value.get()).map_err(|_| wrong_kind(path, value, "an array"))
}

pub(crate) fn text(path: &str, value: &RawValue) -> Result<String, Problem> {
    if !value.get().starts_with('"') {
        return Err(wrong_kind(path, value, "a string"));
    }
    let broken = "holds half of a character (a lone surrogate)";
    serde_json::from_str(value.get())
        .map_err(|_| Problem::of_field(ErrorCode::InvalidBody, path, broken))
}

fn wrong_kind(path: &str, value: &RawValue, wanted: &str) -> Problem {
    let kind = match value.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    };
    if path.is_empty() {
        return Problem::new(
            ErrorCode::InvalidBody,
            format!("the body is {kind}; must be {wanted}"),
        );
    }
    let what = format!("{} is {kind}; must be {wanted}", shortened(value.get()));
    Problem::of_field(ErrorCode::InvalidBody, path, what)
}
