//! The fuzz targets of requests (`docs/fuzzing.md`): whatever a caller sends is read without a panic.

#![cfg_attr(
    not(feature = "fuzzing"),
    allow(unreachable_pub, reason = "the feature makes it public")
)]

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use futures_util::FutureExt;
use serde_json::value::RawValue;
use tollgate_api::header::IDEMPOTENCY_KEY;
use tollgate_api::{
    AccountChange, Create, FillNonces, NewAccount, NewApiKey, NewCursor, NewMode, NewPool, Reason,
    Replacement, Reserve, ReturnedNonce, RotateApiKey, UsedNonce, WaitPreference, read_address,
    read_hash,
};
use tollgate_model::access::{KeySecret, SECRET_PREFIX};
use tollgate_model::account_pool::PoolName;
use tollgate_model::ids::parse_address;
use tollgate_model::{ChainId, Nonce, RequestId, Seq, Timestamp, TxId};

use super::access::{read_caller, secret_in};
use super::api_keys::{read as read_new_key, read_grace};
use super::batch::{BatchItems, check_size};
use super::body::{FromFields, given_reason, raw, read_nonce, read_object, required_reason};
use super::costs::Grouping;
use super::create_request::{CreateRequest, read_time};
use super::events::{EventFilter, LAST_EVENT_ID, last_event_id};
use super::idempotency::{BatchKey, key_of, with_request_id};
use super::problem::Problem;
use super::query::{QueryParams, decimal};
use super::read::parse_id;

/// Reads bytes as the body of a request. The first byte chooses the request.
///
/// # Panics
/// If a reader does, or if what it reads is not what it would write.
pub fn json_bodies(data: &[u8]) {
    let [choice, body @ ..] = data else { return };
    let Ok(body) = raw(body) else { return };
    let read = match choice % 12 {
        0..=2 => create(body),
        3 => batch(body),
        4 => read_as(body, |replacement: Replacement| {
            let prices = [replacement.max_fee_per_gas, replacement.max_priority_fee_per_gas];
            for price in prices.into_iter().flatten() {
                price.read_price("maxFeePerGas")?;
            }
            replacement.payload.map(|payload| payload.read()).transpose()?;
            given_reason(replacement.reason).map(drop)
        }),
        5 => read_as(body, |body: Reason| required_reason(body.reason).map(drop)),
        6 => read_as(body, |fill: FillNonces| {
            read_nonce("first", fill.first.as_ref())?;
            read_nonce("last", fill.last.as_ref()).map(drop)
        }),
        7 => read_as(body, |cursor: NewCursor| {
            read_nonce("nextNonce", cursor.next_nonce.as_ref()).map(drop)
        }),
        8 => read_as(body, |used: UsedNonce| Ok(read_hash("txHash", &used.tx_hash).map(|_| ())?)),
        9 => read_as(body, |_: ReturnedNonce| Ok(()))
            .and_then(|()| read_as(body, |_: NewMode| Ok(()))),
        10 => read_as(body, |_: NewAccount| Ok(()))
            .and_then(|()| read_as(body, |_: AccountChange| Ok(()))),
        _ => read_as(body, |pool: NewPool| {
            for member in &pool.members {
                read_address("members", member)?;
            }
            Ok(())
        })
        .and_then(|()| read_as(body, |_: Reserve| Ok(()))),
    };
    answer(read);
}

fn create(body: &RawValue) -> Result<(), Problem> {
    let create: Create = read_object(body)?;
    let chain = ChainId::new(31_337)?;
    let request = CreateRequest::read(create, chain, None, None)?;
    let id = RequestId::new("request")?;
    let Some(changed) = with_request_id(body, &id) else {
        unreachable!("a create that can be read can be forwarded");
    };
    let again = CreateRequest::read(read_object(&changed)?, chain, None, None)?;
    assert_eq!(again.submitter, request.submitter);
    assert_eq!(again.request_id, Some(id));
    Ok(())
}

fn batch(body: &RawValue) -> Result<(), Problem> {
    let BatchItems(items) = read_object(body)?;
    check_size(&items)?;
    items.iter().for_each(|item| answer(create(item)));
    Ok(())
}

fn read_as<T: FromFields>(
    body: &RawValue,
    check: impl FnOnce(T) -> Result<(), Problem>,
) -> Result<(), Problem> {
    check(read_object(body)?)
}

/// Writes the answer to a refused request.
fn answer(read: Result<(), Problem>) {
    if let Err(problem) = read {
        let status = problem.status();
        assert!(status.is_client_error(), "{status} for bytes of a caller");
        let body = serde_json::to_string(&problem.with_trace_id("trace"));
        assert!(body.is_ok_and(|body| body.len() < 64 * 1024), "answers are short");
    }
}

/// Reads text as the query string of every list, as cursors, as ids in a path, and as the headers of a
/// request.
///
/// # Panics
/// If a reader does.
pub fn query_strings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for read in [list, feed, history, costs, cursors] {
        answer(params(text).and_then(read));
    }
    answer(parse_id(text).map(drop));
    answer(read_time("from", text).map(drop));
    let _ = parse_address(text);
    let _ = WaitPreference::read([text]);
    if let Ok(value) = HeaderValue::from_bytes(data) {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, value);
        answer(key_of(&headers).map(drop));
        let key = BatchKey::of(&headers);
        answer(key.and_then(|key| key.map(|key| key.request_id(999, None)).transpose()).map(drop));
    }
}

fn params(text: &str) -> Result<QueryParams, Problem> {
    let nothing = || Problem::missing("query");
    let request = Request::builder().uri(format!("/api/v1/tx?{text}")).body(());
    let (mut parts, ()) = request.map_err(|_| nothing())?.into_parts();
    let read = QueryParams::from_request_parts(&mut parts, &()).now_or_never();
    read.unwrap_or_else(|| Err(nothing()))
}

fn list(mut params: QueryParams) -> Result<(), Problem> {
    params.address("submitter")?;
    params.states()?;
    params.page()?;
    params.cursor("cursor", |text| text.parse::<TxId>().ok())?;
    params.flag("logs")?;
    params.end()
}

fn feed(mut params: QueryParams) -> Result<(), Problem> {
    params.cursor("after", |text| Seq::new(decimal(text)?).ok())?;
    params.wait()?;
    params.number("chainId")?;
    params.end()
}

fn history(mut params: QueryParams) -> Result<(), Problem> {
    params.after(|number| u32::try_from(number).ok())?;
    params.page()?;
    params.end()
}

fn costs(mut params: QueryParams) -> Result<(), Problem> {
    read_time("from", &params.required("from")?)?;
    params.take("groupBy").map(|names| Grouping::read(&names)).transpose()?;
    params.end()
}

fn cursors(mut params: QueryParams) -> Result<(), Problem> {
    let pool = params.cursor("pool", |text| PoolName::new(text).ok())?;
    let nonce = params.cursor("nonce", |text| Nonce::new(decimal(text)?).ok())?;
    params.cursor("cursor", |text| parse_address(text).ok())?;
    drop((pool, nonce));
    params.end()
}

/// Reads bytes as the body of a request that makes or replaces an API key, as a key, and as the headers in
/// which callers and other nodes name one. The first byte chooses.
///
/// # Panics
/// If a reader does, if a key is accepted that would not be written so, or if a refusal repeats a key.
pub fn api_keys(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    match choice % 4 {
        0 => {
            let now = Timestamp::from_unix_micros(1_790_000_000_000_000);
            let read = raw(rest).and_then(read_object::<NewApiKey>);
            answer(read.and_then(|body| read_new_key(body, now).map(drop)));
        }
        1 => {
            let read = raw(rest).and_then(read_object::<RotateApiKey>);
            answer(read.and_then(|body| {
                body.grace.as_deref().map_or(Ok(()), |grace| read_grace(grace).map(drop))
            }));
        }
        2 => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            match KeySecret::parse(text) {
                Ok(secret) => assert_eq!(secret.reveal(), text, "a key has one form"),
                Err(bad) => assert_not_repeated(text, &bad.problem),
            }
        }
        _ => {
            let Ok(value) = HeaderValue::from_bytes(rest) else { return };
            let _ = read_caller(&value);
            let headers = one_header(header::AUTHORIZATION, value);
            match secret_in(&headers) {
                Ok(secret) => drop(KeySecret::parse(secret)),
                Err(problem) => {
                    for part in String::from_utf8_lossy(rest).split(' ') {
                        assert_not_repeated(part, &problem.body.detail);
                    }
                    answer(Err(problem));
                }
            }
        }
    }
}

/// Refusals are logged, so that they must not hold what may be a key: a long text without blanks.
fn assert_not_repeated(given: &str, refusal: &str) {
    let may_be_key = given.len() > SECRET_PREFIX.len() + 12 && !given.contains(' ');
    assert!(!may_be_key || !refusal.contains(given), "a refusal repeats what was given");
}

/// Reads text as the query string of the events, and as the position of an event source that connects again.
///
/// # Panics
/// If a reader does.
pub fn events(data: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(data) {
        answer(last_event_id(&one_header(HeaderName::from_static(LAST_EVENT_ID), value)).map(drop));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    answer(params(text).and_then(|mut params| {
        params.cursor("after", |text| Seq::new(decimal(text)?).ok())?;
        params.take("from");
        params.page()?;
        params.wait()?;
        EventFilter::read(&mut params, &HeaderMap::new())?;
        params.end()
    }));
}

fn one_header(name: HeaderName, value: HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(name, value)])
}

#[cfg(test)]
mod tests {
    #[test]
    fn json_bodies_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("json_bodies", super::json_bodies);
    }

    #[test]
    fn api_keys_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("api_keys", super::api_keys);
    }

    #[test]
    fn events_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("events", super::events);
    }

    #[test]
    fn query_strings_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("query_strings", super::query_strings);
    }
}
