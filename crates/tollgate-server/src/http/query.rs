//! Reads paths and query strings, as strictly as bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tollgate_api::limit::WAIT_MAX;
use tollgate_api::{ErrorCode, parse_duration, quoted, read_address};
use tollgate_model::port::Page;
use tollgate_model::secret::masked;
use tollgate_model::{Address, Submitter, Text, TxId, TxState};

use super::Api;
use super::access::Caller;
use super::access::sight::Sight;
use super::body::{FromFields, OptionalJson, given_reason};
use super::problem::Problem;
use super::read::parse_id;

/// Rows in a page where the caller does not say.
pub(crate) const PAGE_DEFAULT: u32 = 100;

/// The parameters of a path, in order.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = Path::from_request_parts(parts, state).await;
        params.map(|Path(params)| Self(params)).map_err(|error| invalid_path(&error))
    }
}

/// Names the parameter that can't be read.
fn invalid_path(error: &PathRejection) -> Problem {
    if let PathRejection::FailedToDeserializePathParams(error) = error
        && let ErrorKind::InvalidUtf8InPathParam { key } = error.kind()
    {
        return Problem::of_field(ErrorCode::InvalidPath, key, "is not UTF-8 when it is unescaped");
    }
    Problem::new(ErrorCode::InvalidPath, error.body_text())
}

/// A request to do something to one transaction: `POST /api/v1/tx/{txId}/…`.
pub(crate) struct TxCall<T> {
    pub(crate) api: Api,
    pub(crate) caller: Caller,
    pub(crate) tx_id: TxId,
    pub(crate) body: T,
}

impl<T: FromFields + Default> FromRequest<Api> for TxCall<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let caller = Caller::of(request.extensions())?;
        let (tx_id, body) = path_and_body(request, api).await?;
        Ok(Self { api: api.clone(), caller, tx_id: parse_id(&tx_id)?, body })
    }
}

/// A request to do something to one submitter: `POST /api/v1/submitters/{address}/…`.
pub(crate) struct SubmitterCall<T> {
    pub(crate) api: Api,
    pub(crate) caller: Caller,
    pub(crate) submitter: Submitter,
    pub(crate) body: T,
}

impl<T: FromFields + Default + Send> FromRequest<Api> for SubmitterCall<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let caller = Caller::of(request.extensions())?;
        let (address, body) = path_and_body(request, api).await?;
        let submitter = submitter_at(api, &caller, &address).await?;
        Ok(Self { api: api.clone(), caller, submitter, body })
    }
}

/// The submitter of the node's chain at an address of a path, if it is in the caller's sight.
pub(crate) async fn submitter_at(
    api: &Api,
    caller: &Caller,
    address: &str,
) -> Result<Submitter, Problem> {
    let of = Submitter::new(api.engine.chain_id(), read_address("address", address)?);
    Sight::of(api, caller).require_submitter(of).await?;
    Ok(of)
}

/// The one parameter of the path, and the body; there must be no query.
async fn path_and_body<T: FromFields + Default>(
    request: Request,
    api: &Api,
) -> Result<(String, T), Problem> {
    let (mut parts, body) = request.into_parts();
    let PathParams(param) = PathParams::from_request_parts(&mut parts, api).await?;
    QueryParams::from_request_parts(&mut parts, api).await?.end()?;
    let request = Request::from_parts(parts, body);
    let OptionalJson(body) = OptionalJson::from_request(request, api).await?;
    Ok((param, body))
}

/// Reads decimal digits; a sign is refused.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The last row of a page after which there may be more.
pub(crate) fn last_of_full_page<T>(found: &[T], page: Page) -> Option<&T> {
    found.last().filter(|_| found.len() == page.limit() as usize)
}

/// A query string's parameters, each at most once. Those that were not asked for are refused at the end.
pub(crate) struct QueryParams {
    given: BTreeMap<String, String>,
    asked: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs: Query<Vec<(String, String)>> = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(ErrorCode::InvalidQuery, error.body_text()))?;
        let mut given = BTreeMap::new();
        for (name, value) in pairs.0 {
            if given.insert(name.clone(), value).is_some() {
                let name = masked(&name);
                return Err(Problem::of_field(ErrorCode::InvalidQuery, &name, "is given twice"));
            }
        }
        Ok(Self { given, asked: Vec::new() })
    }
}

impl QueryParams {
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.asked.push(name.to_owned());
        self.given.remove(name)
    }

    pub(crate) fn required(&mut self, name: &'static str) -> Result<String, Problem> {
        self.take(name).ok_or_else(|| Problem::missing(name))
    }

    pub(crate) fn address(&mut self, name: &str) -> Result<Option<Address>, Problem> {
        Ok(self.take(name).map(|text| read_address(name, &text)).transpose()?)
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name) else { return Ok(None) };
        decimal(&text).map(Some).ok_or_else(|| {
            let what = format!("{} must be a whole number up to {}", quoted(&text), u64::MAX);
            Problem::of_field(ErrorCode::InvalidNumber, name, what)
        })
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => {
                let what = format!("{} must be true or false", quoted(text));
                Err(Problem::of_field(ErrorCode::InvalidQuery, name, what))
            }
        }
    }

    /// The reason of a change that has no body.
    pub(crate) fn reason(&mut self) -> Result<Option<Text<500>>, Problem> {
        given_reason(self.take("reason"))
    }

    pub(crate) fn page(&mut self) -> Result<Page, Problem> {
        let limit = self.number("limit")?.unwrap_or(u64::from(PAGE_DEFAULT));
        let bad = || {
            let what = format!("{limit} must be from 1 to {}", Page::MAX);
            Problem::of_field(ErrorCode::InvalidLimit, "limit", what)
        };
        u32::try_from(limit).ok().and_then(|limit| Page::new(limit).ok()).ok_or_else(bad)
    }

    /// The place where a page begins: `next` of the page before it.
    pub(crate) fn cursor<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.take(name) else { return Ok(None) };
        parse(&text).map(Some).ok_or_else(|| {
            let what = format!("{} must be `next` of an earlier page", quoted(&text));
            Problem::of_field(ErrorCode::InvalidCursor, name, what)
        })
    }

    /// The number after which a page begins; the lowest if it is left out.
    pub(crate) fn after<T: Default>(
        &mut self,
        new: impl FnOnce(u64) -> Option<T>,
    ) -> Result<T, Problem> {
        let after = self.cursor("after", |text| new(decimal(text)?))?;
        Ok(after.unwrap_or_default())
    }

    /// `30s`, `500ms`, `1m`.
    pub(crate) fn wait(&mut self) -> Result<Duration, Problem> {
        let Some(text) = self.take("wait") else { return Ok(Duration::ZERO) };
        let bad = || {
            let what = format!("{} must be like 500ms, 30s or 1m, at most 60s", quoted(&text));
            Problem::of_field(ErrorCode::InvalidDuration, "wait", what)
        };
        parse_duration(&text).filter(|wait| *wait <= WAIT_MAX).ok_or_else(bad)
    }

    /// The named states, each with all its sub-states.
    pub(crate) fn states(&mut self) -> Result<Option<Vec<TxState>>, Problem> {
        let Some(text) = self.take("state") else { return Ok(None) };
        let mut states = Vec::new();
        for name in text.split(',') {
            let named = TxState::ALL.into_iter().filter(|state| state.name() == name);
            let before = states.len();
            states.extend(named);
            if states.len() == before {
                let mut known: Vec<&str> = TxState::ALL.into_iter().map(TxState::name).collect();
                known.dedup();
                let what = format!("{} must be {}", quoted(name), known.join(" or "));
                return Err(Problem::of_field(ErrorCode::InvalidState, "state", what));
            }
        }
        Ok(Some(states))
    }

    /// Refuses a parameter that was not asked for.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.given.into_keys().next() {
            Some(name) => {
                let what = match self.asked.is_empty() {
                    true => "is not a parameter here; there are none".to_owned(),
                    false => {
                        format!("is not a parameter here; known are {}", self.asked.join(", "))
                    }
                };
                Err(Problem::of_field(ErrorCode::InvalidQuery, &masked(&name), what))
            }
            None => Ok(()),
        }
    }
}
