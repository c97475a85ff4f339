//! The one way into JSON bodies: objects by their fields, each read once and by its kind.
//!
//! Objects must be objects (an array in their place is refused), a name stands once, and what
//! nobody asked for is refused at the end. Whatever is wrong is told with the path of the field,
//! the value and what is allowed.

use std::collections::HashSet;

use serde_json::value::RawValue;
use tollgate_model::metadata::entries;
use tollgate_model::secret::masked;
use tollgate_model::{GasPrice, U256};

use crate::http::code::Code;
use crate::http::problem::Problem;

/// How much of a refused value is quoted.
const QUOTED_CHARS_MAX: usize = 60;

/// A body, or an object in one.
pub(crate) trait FromFields: Sized {
    /// Takes its fields out.
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem>;
}

/// Reads an object to its end.
pub(crate) fn read_object<T: FromFields>(value: &RawValue) -> Result<T, Problem> {
    let mut fields = Fields::of(value, String::new())?;
    let read = T::from_fields(&mut fields)?;
    fields.end()?;
    Ok(read)
}

/// The fields of an object that were not taken yet.
pub(crate) struct Fields<'a> {
    /// Where the object is: empty for the body itself.
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
                Err(Problem::of_field(Code::InvalidBody, &fields.at(name), "is given twice"))
            }
            None => Ok(fields),
        }
    }

    /// The path of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        let name: String = masked(name).chars().take(QUOTED_CHARS_MAX).collect();
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
            _ => return Err(wrong_kind(&field, value, NUMBER_WORDS)),
        };
        Ok(Some(Number { field, text }))
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let what = format!("{} must be {}", quoted(&text), words.join(" or "));
                Err(Problem::of_field(Code::InvalidBody, &self.at(name), what))
            }
        }
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

    /// A field without which nothing can be done.
    pub(crate) fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T, Problem> {
        value.ok_or_else(|| Problem::missing(&self.at(name)))
    }

    /// What was not taken, in the order in which it stands.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Everything that was given has been asked for.
    pub(crate) fn end(&self) -> Result<(), Problem> {
        match self.entries.first() {
            Some((name, _)) => {
                let what = format!("is not a field here; known are {}", self.asked.join(", "));
                Err(Problem::of_field(Code::InvalidBody, &self.at(name), what))
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
        .map_err(|_| Problem::of_field(Code::InvalidBody, path, broken))
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
        return Problem::new(Code::InvalidBody, format!("the body is {kind}; must be {wanted}"));
    }
    let what = format!("{} is {kind}; must be {wanted}", shortened(value.get()));
    Problem::of_field(Code::InvalidBody, path, what)
}

/// A value for an error text, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    shortened(&format!("{text:?}"))
}

fn shortened(text: &str) -> String {
    let text = masked(text);
    let start: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

const NUMBER_WORDS: &str = "a whole number: a JSON integer, decimal text or 0x-hex";

/// A number as callers write it, and the field that it stands in.
pub(crate) struct Number {
    field: String,
    text: String,
}

impl Number {
    pub(crate) fn read(&self) -> Result<U256, Problem> {
        let bad = || self.wrong(format!("must be {NUMBER_WORDS}"));
        let (digits, radix) = match self.text.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (self.text.as_str(), 10),
        };
        let is_whole =
            !digits.is_empty() && digits.bytes().all(|byte| char::from(byte).is_digit(radix));
        if !is_whole {
            return Err(bad());
        }
        U256::from_str_radix(digits, u64::from(radix))
            .map_err(|_| self.wrong("must be at most 2^256 - 1".to_owned()))
    }

    pub(crate) fn read_u64(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, Problem> {
        let number = u64::try_from(self.read()?).ok().filter(|number| range.contains(number));
        let (least, most) = range.into_inner();
        number.ok_or_else(|| self.wrong(format!("must be from {least} to {most}")))
    }

    pub(crate) fn read_price(&self) -> Result<GasPrice, Problem> {
        let wei = self.read_u64(0..=i64::MAX as u64)?;
        GasPrice::try_from(wei).map_err(|error| self.wrong(error.problem))
    }

    fn wrong(&self, allowed: String) -> Problem {
        let what = format!("{} {allowed}", quoted(&self.text));
        Problem::of_field(Code::InvalidNumber, &self.field, what)
    }
}
