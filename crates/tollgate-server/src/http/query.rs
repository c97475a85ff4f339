//! Query strings: strict about what they say, like bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use tollgate_model::ids::parse_address;
use tollgate_model::port::Page;
use tollgate_model::{Address, Seq, TxId, TxState};

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
        let Path(text) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(Code::InvalidPath, error.body_text()))?;
        Ok(Self(text))
    }
}

/// The two parts of a path that a route leaves open.
pub(crate) struct TwoSegments(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for TwoSegments {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((first, second)) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(Code::InvalidPath, error.body_text()))?;
        Ok(Self(first, second))
    }
}

/// A query string's parameters, each at most once; what nobody asked for is refused at the end.
pub(crate) struct Words(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Words {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs: Query<Vec<(String, String)>> = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(Code::InvalidQuery, error.body_text()))?;
        let mut words = BTreeMap::new();
        for (name, value) in pairs.0 {
            if words.insert(name.clone(), value).is_some() {
                return Err(Problem::new(Code::InvalidQuery, format!("{name} is given twice")));
            }
        }
        Ok(Self(words))
    }
}

impl Words {
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    pub(crate) fn required(&mut self, name: &'static str) -> Result<String, Problem> {
        let missing = || Problem::new(Code::MissingField, format!("{name} is missing"));
        self.take(name).ok_or_else(missing)
    }

    pub(crate) fn address(&mut self, name: &str) -> Result<Option<Address>, Problem> {
        let text = self.take(name);
        text.as_deref()
            .map(parse_address)
            .transpose()
            .map_err(|error| Problem::new(Code::InvalidAddress, error.to_string()))
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = plain.then(|| text.parse().ok()).flatten();
        let bad = || Problem::new(Code::InvalidNumber, format!("{name}: not a whole number"));
        number.map(Some).ok_or_else(bad)
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                let detail = format!("{name}: must be true or false");
                Err(Problem::new(Code::InvalidQuery, detail))
            }
        }
    }

    pub(crate) fn page(&mut self) -> Result<Page, Problem> {
        let limit = self.number("limit")?.unwrap_or(u64::from(PAGE_DEFAULT));
        let bad = || Problem::new(Code::InvalidLimit, format!("limit: must be 1 to {}", Page::MAX));
        u32::try_from(limit).ok().and_then(|limit| Page::new(limit).ok()).ok_or_else(bad)
    }

    /// A place in a list, as an earlier page gave it.
    pub(crate) fn cursor(&mut self) -> Result<Option<TxId>, Problem> {
        let bad = || Problem::new(Code::InvalidCursor, "cursor: not one of an earlier page");
        let cursor = self.take("cursor").map(|text| text.parse::<TxId>());
        cursor.transpose().map_err(|_| bad())
    }

    pub(crate) fn seq(&mut self) -> Result<Seq, Problem> {
        let after = self.number("after")?.unwrap_or(0);
        Seq::new(after).map_err(|error| Problem::new(Code::InvalidCursor, error.to_string()))
    }

    /// `30s`, `500ms`, `1m`.
    pub(crate) fn wait(&mut self) -> Result<Duration, Problem> {
        let Some(text) = self.take("wait") else { return Ok(Duration::ZERO) };
        let bad = || Problem::new(Code::InvalidDuration, "wait: must be like 30s, at most 60s");
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
                let detail = format!("state: {word:?} is not a state");
                return Err(Problem::new(Code::InvalidState, detail));
            }
        }
        Ok(Some(states))
    }

    /// Everything that was given has been asked for.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.0.into_keys().next() {
            Some(name) => {
                Err(Problem::new(Code::InvalidQuery, format!("{name:?} is not a parameter here")))
            }
            None => Ok(()),
        }
    }
}
