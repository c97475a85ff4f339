//! Takes an answer out of its wrapping: JSON in the message, JSON in that, a page of HTML.
//!
//! The result is one normalised text: what stood before the JSON, then what the JSON says under
//! the keys that errors are put under. Other keys (the request's own parameters, links, ids) are
//! left out, because they are not the node's words about the transaction.

use serde_json::Value;

use super::RpcAnswer;
use super::normalise::normalise;

/// The bytes of an answer that are read. Nodes need a line; what is longer is a page or a dump.
const READ_MAX: usize = 16 * 1024;

/// The most wrappings that are taken off.
const DEPTH_MAX: usize = 5;

/// The keys under which errors say something, in the order in which they are read.
const TELLING: [&str; 13] = [
    "message",
    "error",
    "errors",
    "error_message",
    "reason",
    "detail",
    "details",
    "description",
    "title",
    "msg",
    "cause",
    "data",
    "body",
];

/// An answer, out of its wrapping.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The text in normal form.
    pub(super) text: String,
    /// The data, where it is a hexadecimal number.
    pub(super) data: Option<String>,
    /// The body is a page of HTML or XML: written by something in front of the node.
    pub(super) is_page: bool,
    /// The body is a JSON-RPC result, not an error.
    pub(super) has_result: bool,
}

impl Reading {
    /// Unwraps an answer.
    pub(super) fn of(answer: &RpcAnswer<'_>) -> Self {
        let mut reading = Self::default();
        let mut said = String::new();
        reading.take(capped(answer.message.trim()), DEPTH_MAX, &mut said);
        if let Some(data) = answer.data {
            reading.take(capped(data.trim()), DEPTH_MAX, &mut said);
        }
        if reading.is_page {
            said = without_tags(&said);
        }
        reading.text = normalise(&said);
        reading
    }

    fn take(&mut self, text: &str, depth: usize, said: &mut String) {
        if is_hex_data(text) {
            self.data.get_or_insert_with(|| text.to_owned());
            return;
        }
        if let Some((before, value, after)) = json_in(text).filter(|_| depth > 0) {
            push(said, before);
            self.take_value(&value, depth - 1, said);
            push(said, after);
            return;
        }
        // `"{\"error\":…}"`: JSON that was put into a string by hand, quotes and all.
        if depth > 0 && text.contains("\\\"") {
            return self.take(&text.replace("\\\"", "\""), depth - 1, said);
        }
        self.is_page |= is_page(text);
        push(said, text);
    }

    fn take_value(&mut self, value: &Value, depth: usize, said: &mut String) {
        match value {
            Value::String(text) => self.take(text, depth, said),
            Value::Array(items) if depth > 0 => {
                for item in items.iter().take(8) {
                    self.take_value(item, depth - 1, said);
                }
            }
            Value::Object(fields) if depth > 0 => {
                let hash = fields.get("result").and_then(Value::as_str);
                if hash.is_some_and(|hash| hash.len() == 66 && is_hex_data(hash))
                    && fields.get("error").is_none_or(Value::is_null)
                {
                    self.has_result = true;
                }
                for (_, value) in TELLING.iter().filter_map(|key| fields.get_key_value(*key)) {
                    self.take_value(value, depth - 1, said);
                }
            }
            _ => {}
        }
    }
}

/// The first JSON object in a text, with what stands before and after it.
fn json_in(text: &str) -> Option<(&str, Value, &str)> {
    // A body that is one JSON string: `"nonce too low"`.
    if text.starts_with('"')
        && let Ok(value @ Value::String(_)) = serde_json::from_str(text)
    {
        return Some(("", value, ""));
    }
    // Go and Rust print structures that look like it; a few tries are enough to get past them.
    text.match_indices('{').take(4).find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let value = values.next()?.ok().filter(is_telling)?;
        Some((&text[..at], value, &text[at + values.byte_offset()..]))
    })
}

fn is_telling(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| {
        fields.contains_key("result") || TELLING.iter().any(|key| fields.contains_key(*key))
    })
}

fn push(said: &mut String, text: &str) {
    if !said.is_empty() {
        said.push_str(" : ");
    }
    said.push_str(text);
}

fn is_hex_data(text: &str) -> bool {
    let text = text.trim_matches('"');
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_page(text: &str) -> bool {
    let start = text.trim_start();
    let start = &start.as_bytes()[..start.len().min(2048)];
    ["<html", "<!doctype html", "<head>", "<body", "<?xml"].iter().any(|tag| {
        start.windows(tag.len()).any(|window| window.eq_ignore_ascii_case(tag.as_bytes()))
    })
}

/// A page's words.
fn without_tags(page: &str) -> String {
    let mut words = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(open) = rest.find('<') {
        words.push_str(&rest[..open]);
        words.push_str(" : ");
        rest = match rest[open..].find('>') {
            Some(close) => &rest[open + close + 1..],
            None => "",
        };
    }
    words.push_str(rest);
    words
}

fn capped(text: &str) -> &str {
    &text[..text.floor_char_boundary(READ_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Reading {
        Reading::of(&RpcAnswer { message, ..RpcAnswer::default() })
    }

    #[test]
    fn json_is_taken_apart_however_deep_it_is() {
        let text = "nonce too low";
        for message in [
            r#"{"code":-32000,"message":"nonce too low"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low"}}"#,
            r#"{"error":"{\"message\":\"nonce too low\"}"}"#,
            r#""{\"error\":{\"message\":\"nonce too low\"}}""#,
            r#"[{"error":{"message":"nonce too low"}}]"#,
            r#""nonce too low""#,
        ] {
            assert_eq!(read(message).text.trim_matches([' ', '|']), text, "{message}");
        }
        let mixed = read(r#"500: {"error":{"message":"nonce too low"}} (try later)"#);
        assert_eq!(mixed.text, "500 | nonce too low | try later");
    }

    #[test]
    fn the_requests_own_parameters_are_not_read() {
        let answer = r#"{"error":{"message":"oops"},"request":{"note":"nonce too low"}}"#;
        assert_eq!(read(answer).text, "oops");
    }

    #[test]
    fn a_page_is_known_as_a_page() {
        let page = read("502: <HTML><head><title>502 Bad Gateway</title></head><hr>");
        assert!(page.is_page);
        assert_eq!(page.text, "502 | 502 bad gateway");
        assert!(!read("have 1 < want 2").is_page);
    }

    #[test]
    fn broken_json_is_read_as_text() {
        assert!(read(r#"{"error":{"message":"nonce too low"#).text.contains("nonce too low"));
    }

    #[test]
    fn a_hash_without_an_error_is_a_result() {
        let hash = format!("0x{}", "ab".repeat(32));
        assert!(read(&format!(r#"{{"id":1,"result":"{hash}"}}"#)).has_result);
        assert!(!read(&format!(r#"{{"result":"{hash}","error":{{"message":"no"}}}}"#)).has_result);
    }
}
