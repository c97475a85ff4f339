//! Query strings: strict about what they say, like bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use tollgate_model::port::Page;
use tollgate_model::secret::masked;
use tollgate_model::{Address, Seq, TxId, TxState};

use super::body::{self, quoted};
use super::code::Code;
use super::problem::Problem;

/// Rows in a page where the caller does not say.
pub(crate) const PAGE_DEFAULT: u32 = 100;
/// The longest a poll may wait (I13).
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The part of a path that a route leaves open.
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) =
            Path::from_request_parts(parts, state).await.map_err(|error| invalid_path(&error))?;
        Ok(Self(text))
    }
}

/// Names the part of the path that can't be read.
fn invalid_path(error: &PathRejection) -> Problem {
    if let PathRejection::FailedToDeserializePathParams(error) = error
        && let ErrorKind::InvalidUtf8InPathParam { key } = error.kind()
    {
        return Problem::of_field(Code::InvalidPath, key, "is not UTF-8 when it is unescaped");
    }
    Problem::new(Code::InvalidPath, error.body_text())
}

/// The two parts of a path that a route leaves open.
pub(crate) struct TwoSegments(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for TwoSegments {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((first, second)) =
            Path::from_request_parts(parts, state).await.map_err(|error| invalid_path(&error))?;
        Ok(Self(first, second))
    }
}

/// A query string's parameters, each at most once; what nobody asked for is refused at the end.
pub(crate) struct Words {
    given: BTreeMap<String, String>,
    asked: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Words {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs: Query<Vec<(String, String)>> = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(Code::InvalidQuery, error.body_text()))?;
        let mut words = BTreeMap::new();
        for (name, value) in pairs.0 {
            if words.insert(name.clone(), value).is_some() {
                let name = masked(&name);
                return Err(Problem::of_field(Code::InvalidQuery, &name, "is given twice"));
            }
        }
        Ok(Self { given: words, asked: Vec::new() })
    }
}

impl Words {
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.asked.push(name.to_owned());
        self.given.remove(name)
    }

    pub(crate) fn required(&mut self, name: &'static str) -> Result<String, Problem> {
        self.take(name).ok_or_else(|| Problem::missing(name))
    }

    pub(crate) fn address(&mut self, name: &str) -> Result<Option<Address>, Problem> {
        self.take(name).map(|text| body::address(name, &text)).transpose()
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = plain.then(|| text.parse().ok()).flatten();
        number.map(Some).ok_or_else(|| {
            let what = format!("{} must be a whole number up to {}", quoted(&text), u64::MAX);
            Problem::of_field(Code::InvalidNumber, name, what)
        })
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => {
                let what = format!("{} must be true or false", quoted(text));
                Err(Problem::of_field(Code::InvalidQuery, name, what))
            }
        }
    }

    pub(crate) fn page(&mut self) -> Result<Page, Problem> {
        let limit = self.number("limit")?.unwrap_or(u64::from(PAGE_DEFAULT));
        let bad = || {
            let what = format!("{limit} must be from 1 to {}", Page::MAX);
            Problem::of_field(Code::InvalidLimit, "limit", what)
        };
        u32::try_from(limit).ok().and_then(|limit| Page::new(limit).ok()).ok_or_else(bad)
    }

    /// A place in a list, as an earlier page gave it.
    pub(crate) fn cursor(&mut self) -> Result<Option<TxId>, Problem> {
        let Some(text) = self.take("cursor") else { return Ok(None) };
        text.parse::<TxId>().map(Some).map_err(|_| {
            let what = format!("{} must be `next` of an earlier page", quoted(&text));
            Problem::of_field(Code::InvalidCursor, "cursor", what)
        })
    }

    pub(crate) fn seq(&mut self) -> Result<Seq, Problem> {
        let after = self.number("after")?.unwrap_or(0);
        Seq::new(after)
            .map_err(|error| Problem::of_field(Code::InvalidCursor, "after", error.problem))
    }

    /// `30s`, `500ms`, `1m`.
    pub(crate) fn wait(&mut self) -> Result<Duration, Problem> {
        let Some(text) = self.take("wait") else { return Ok(Duration::ZERO) };
        let bad = || {
            let what = format!("{} must be like 500ms, 30s or 1m, at most 60s", quoted(&text));
            Problem::of_field(Code::InvalidDuration, "wait", what)
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let number: u64 = digits.parse().map_err(|_| bad())?;
        let wait = match &text[digits.len()..] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.saturating_mul(60)),
            _ => return Err(bad()),
        };
        if wait > WAIT_MAX { Err(bad()) } else { Ok(wait) }
    }

    /// The states that a word names: a state with all its sub-states.
    pub(crate) fn states(&mut self) -> Result<Option<Vec<TxState>>, Problem> {
        let Some(text) = self.take("state") else { return Ok(None) };
        let mut states = Vec::new();
        for word in text.split(',') {
            let named = TxState::ALL.into_iter().filter(|state| state.name() == word);
            let before = states.len();
            states.extend(named);
            if states.len() == before {
                let mut known: Vec<&str> = TxState::ALL.into_iter().map(TxState::name).collect();
                known.dedup();
                let what = format!("{} must be {}", quoted(word), known.join(" or "));
                return Err(Problem::of_field(Code::InvalidState, "state", what));
            }
        }
        Ok(Some(states))
    }

    /// Everything that was given has been asked for.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.given.into_keys().next() {
            Some(name) => {
                let what = match self.asked.is_empty() {
                    true => "is not a parameter here; there are none".to_owned(),
                    false => {
                        format!("is not a parameter here; known are {}", self.asked.join(", "))
                    }
                };
                Err(Problem::of_field(Code::InvalidQuery, &masked(&name), what))
            }
            None => Ok(()),
        }
    }
}
