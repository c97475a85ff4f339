//! Reads the `Idempotency-Key` header: a request id outside of the body.
//!
//! The quoted form of the IETF draft (a structured-field string) and the bare one mean the same.

use axum::http::HeaderMap;
use serde_json::value::RawValue;
use tollgate_api::ErrorCode;
use tollgate_api::header::IDEMPOTENCY_KEY;
use tollgate_api::limit::BATCH_ITEMS_MAX;
use tollgate_model::RequestId;
use tollgate_model::access::Tenant;

use super::body::Fields;
use super::problem::Problem;

/// The start of the request ids of a batch's items: callers' own ids begin like this only on purpose.
const BATCH_PREFIX: &str = "batch:";
/// The longest addition to the key: a colon and the place of an item.
const PLACE_BYTES_MAX: usize = 4;
const _: () = assert!(BATCH_ITEMS_MAX <= 1_000, "the place of an item has three digits at most");

/// The key of a request, if it has one.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let refused =
        |what: &str| Problem::of_field(ErrorCode::InvalidRequestId, IDEMPOTENCY_KEY, what);
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = match (given.next(), given.next()) {
        (None, _) => return Ok(None),
        (Some(_), Some(_)) => return Err(refused("is given more than once")),
        (Some(key), None) => key.to_str().map_err(|_| refused("is not printable ASCII"))?,
    };
    match key.strip_prefix('"') {
        None => Ok(Some(key.to_owned())),
        Some(rest) => {
            let bad = || refused("begins with a quote, but is not a string like \"order-17\"");
            unquoted(rest).map(Some).ok_or_else(bad)
        }
    }
}

/// The text before the closing quote, which must be the last character (RFC 9651, 4.2.5).
fn unquoted(rest: &str) -> Option<String> {
    let mut text = String::with_capacity(rest.len());
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => return letters.next().is_none().then_some(text),
            '\\' => match letters.next()? {
                escaped @ ('"' | '\\') => text.push(escaped),
                _ => return None,
            },
            letter => text.push(letter),
        }
    }
}

/// The key of a batch: each item without a request id of its own is known by it and its place.
pub(crate) struct BatchKey(String);

impl BatchKey {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let Some(key) = key_of(headers)? else { return Ok(None) };
        let most = RequestId::MAX_BYTES - BATCH_PREFIX.len() - PLACE_BYTES_MAX;
        let problem = match RequestId::new(key.as_str()) {
            Err(error) => error.problem,
            Ok(_) if key.len() > most => {
                format!("{} bytes are more than {most}, the most for a batch", key.len())
            }
            Ok(_) => return Ok(Some(Self(key))),
        };
        Err(Problem::of_field(ErrorCode::InvalidRequestId, IDEMPOTENCY_KEY, problem))
    }

    /// The request id of the item at a place.
    pub(crate) fn request_id(
        &self,
        place: usize,
        tenant: Option<&Tenant>,
    ) -> Result<RequestId, Problem> {
        let text = format!("{BATCH_PREFIX}{}:{place}", self.0);
        Ok(RequestId::in_namespace(tenant, &text)?)
    }
}

/// The longest addition to an item that is sent to another node: a request id, in which JSON may double
/// every byte, an account in the place of a pool, and the names of both fields.
pub(crate) const ADDED_BYTES_MAX: usize = 2 * RequestId::MAX_BYTES + 96;

/// An item with a request id in it, so that another node that gets it among fewer items knows it
/// by the same name.
pub(crate) fn with_request_id(item: &RawValue, id: &RequestId) -> Option<Box<RawValue>> {
    with_text(item, "requestId", id.shown())
}

/// A create with another text in one of its fields, and otherwise as it was.
pub(crate) fn with_text(item: &RawValue, field: &'static str, text: &str) -> Option<Box<RawValue>> {
    let mut fields = Fields::of(item, String::new()).ok()?;
    fields.take(field);
    let mut text = format!("{{\"{field}\":{}", serde_json::to_string(text).ok()?);
    for (name, value) in fields.rest() {
        text.push(',');
        text.push_str(&serde_json::to_string(name).ok()?);
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    RawValue::from_string(text).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn key(values: &[&str]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_str(value).unwrap());
        }
        key_of(&headers).map_err(|problem| problem.code.name())
    }

    #[test]
    fn quoted_key_means_the_same_as_the_bare_one() {
        assert_eq!(key(&[]), Ok(None));
        for (given, meant) in [
            ("order-17", "order-17"),
            ("\"order-17\"", "order-17"),
            ("\"\"", ""),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r"a\b", r"a\b"),
            ("a\"b", "a\"b"),
        ] {
            assert_eq!(key(&[given]), Ok(Some(meant.to_owned())), "{given}");
        }
    }

    #[test]
    fn broken_or_repeated_key_is_refused() {
        for bad in ["\"", "\"a", "\"a\"b", "\"a\";p=1", r#""a\n""#, r#""a\""#] {
            assert_eq!(key(&[bad]), Err("invalid_request_id"), "{bad}");
        }
        assert_eq!(key(&["a", "b"]), Err("invalid_request_id"));
        assert_eq!(key(&["a", "a"]), Err("invalid_request_id"));
    }

    #[test]
    fn item_is_renamed_and_otherwise_kept_byte_for_byte() {
        let id = RequestId::new("a\"b:7").unwrap();
        let renamed = |text: &str| {
            let item = RawValue::from_string(text.to_owned()).unwrap();
            with_request_id(&item, &id).map(|item| item.get().to_owned())
        };
        let item = r#"{ "metadata" : {"a": 1.0, "a":99999999999999999999}, "requestId": null }"#;
        let wanted = r#"{"requestId":"a\"b:7","metadata":{"a": 1.0, "a":99999999999999999999}}"#;
        assert_eq!(renamed(item).as_deref(), Some(wanted));
        assert_eq!(renamed("[]"), None);
    }
}
