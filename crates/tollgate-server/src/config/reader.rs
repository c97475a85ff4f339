//! Takes values out one by one, and notes what is wrong with each.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::given::{Given, Place, Problem, Value};
use super::keys::{Key, Preset, find};
use super::kind::{self, Kind};
use super::layers::Values;

/// Values on their way to settings.
pub(super) struct Reader<'a> {
    pub(super) values: &'a mut Values,
    pub(super) problems: &'a mut Vec<Problem>,
    /// What was asked for: a setting that nobody asks for has no effect.
    pub(super) asked: BTreeSet<&'static str>,
}

impl Reader<'_> {
    /// Whether somebody gave it.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.values.given.get(name).is_some_and(|given| given.place != Place::Default)
    }

    /// Whether somebody wants something else than what holds anyway.
    pub(super) fn is_changed(&self, name: &str) -> bool {
        let preset = find(name).map(|key| key.preset);
        let given = self.values.given.get(name).map(super::show::plainly);
        let same = matches!((preset, given), (Some(Preset::Value(preset)), Some(given)) if preset == given);
        self.is_given(name) && !same
    }

    pub(super) fn place(&self, name: &str) -> Place {
        self.values.given.get(name).map_or(Place::Default, |given| given.place.clone())
    }

    pub(super) fn wrong(&mut self, name: &str, reason: impl Into<String>) {
        self.problems.push(Problem::new(self.place(name), name, reason));
    }

    pub(super) fn warn(&mut self, name: &str, reason: &str) {
        self.values.warnings.push(format!("{}: {name}: {reason}", self.place(name)));
    }

    /// Notes what a setting came to that nobody gave.
    pub(super) fn found(&mut self, name: &'static str, text: String) {
        self.values.given.insert(name, Given::text(text, Place::Default));
    }

    pub(super) fn given(&mut self, name: &'static str) -> Option<(&'static Key, Given)> {
        self.asked.insert(name);
        Some((find(name)?, self.values.given.get(name)?.clone()))
    }

    /// A value, read by `parse`; `None` where there is none or it is wrong.
    pub(super) fn read<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (key, given) = self.given(name)?;
        let read = scalar(key, &given).and_then(|text| {
            parse(text).map_err(|reason| match key.kind.is_secret() {
                true => reason,
                false => format!("{text:?} {reason}"),
            })
        });
        match read {
            Ok(value) => Some(value),
            Err(reason) => {
                self.wrong(name, reason);
                None
            }
        }
    }

    pub(super) fn duration(&mut self, name: &'static str) -> Option<Duration> {
        let least = match find(name)?.kind {
            Kind::Duration(millis) => Duration::from_millis(millis),
            _ => Duration::ZERO,
        };
        self.read(name, |text| match kind::duration(text)? {
            short if short < least => {
                Err(format!("must be at least {}", kind::duration_words(least)))
            }
            duration => Ok(duration),
        })
    }

    pub(super) fn number(&mut self, name: &'static str) -> Option<u64> {
        let (from, to) = match find(name)?.kind {
            Kind::Number(from, to) => (from, to),
            _ => (0, u64::MAX),
        };
        self.read(name, |text| kind::number(text, from, to))
    }

    pub(super) fn size(&mut self, name: &'static str) -> Option<usize> {
        self.number(name).and_then(|number| usize::try_from(number).ok())
    }

    /// One of a few words, by its place in the table's list.
    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, meanings: &[T]) -> Option<T> {
        let words = match find(name)?.kind {
            Kind::Choice(words) => words,
            _ => &[],
        };
        self.read(name, |text| {
            let found = words.iter().zip(meanings).find(|(word, _)| **word == text);
            found
                .map(|(_, meaning)| *meaning)
                .ok_or_else(|| format!("must be {}", words.join(" or ")))
        })
    }

    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        self.read(name, |text| match text {
            "" => Err("must be a path".to_owned()),
            text => Ok(PathBuf::from(text)),
        })
    }

    /// The entries of a list; none where there is no list. A single text is a list of one.
    pub(super) fn list(&mut self, name: &'static str) -> Vec<Given> {
        let Some((key, given)) = self.given(name) else { return Vec::new() };
        match given.value {
            Value::List(items) => items,
            Value::Text(_) => vec![given],
            Value::Table(_) | Value::Bare(_) | Value::Fraction(_) | Value::Other(_) => {
                self.wrong(name, format!("must be a list: {}", super::file::example(key)));
                Vec::new()
            }
        }
    }

    /// The texts of a list and their places.
    pub(super) fn texts(&mut self, name: &'static str) -> Vec<(String, Place)> {
        let mut texts = Vec::new();
        for item in self.list(name) {
            match item.value {
                Value::Text(text) if !text.is_empty() => texts.push((text, item.place)),
                _ => {
                    self.problems.push(Problem::new(item.place, name, "must hold texts, in quotes"))
                }
            }
        }
        texts
    }
}

/// A value that is no list, as text.
fn scalar<'a>(key: &Key, given: &'a Given) -> Result<&'a str, String> {
    let takes_bare =
        key.kind.is_bare() || matches!(key.kind, Kind::Price | Kind::Amount | Kind::Limit);
    match &given.value {
        Value::Text(text) => Ok(text),
        Value::Bare(text) if takes_bare => Ok(text),
        Value::Fraction(text) if key.kind == Kind::Factor => Ok(text),
        Value::Fraction(_) => Err(format!("must not be a fraction: {}", super::file::example(key))),
        Value::Bare(text) => match key.kind {
            Kind::Duration(_) => Err(format!("{text} must have a unit, like \"{text}s\"")),
            _ => Err(format!("{text} must stand in quotes: {}", super::file::example(key))),
        },
        Value::List(_) | Value::Table(_) => {
            Err(format!("must be one value: {}", super::file::example(key)))
        }
        Value::Other(word) => Err(format!("must not be {word}: {}", super::file::example(key))),
    }
}
