//! The fuzz targets of answers before their results are read.

use super::answer::{health_sign, read_body};
use super::config::Target;
pub use super::ws::fuzzing::web_socket;
use crate::classify::{Overrides, judge};
use crate::explain::explain_line;

/// The number of the call that the answer is for.
const ID: u64 = 7;

/// Reads bytes as the HTTP answer to a send and classifies it. The first two bytes choose the status.
///
/// # Panics
/// If the reader or a rule does.
pub fn send_answer(data: &[u8]) {
    let [first, second, body @ ..] = data else { return };
    let status = match *first {
        b'2' => 200,
        b'4' => 429,
        b'5' => 503,
        other => u16::from_be_bytes([other, *second]),
    };
    if let Err(error) = read_body(ID, status, body) {
        let verdict = judge(&error.as_answer(), &Overrides::default());
        let _ = verdict.reason.to_string();
        let _ = health_sign(&error);
        let _ = (error.is_method_missing(), error.is_argument_too_many(), error.to_string());
        if let Ok(target) = Target::parse("https://user:password-of-it@rpc.test/key-of-the-path") {
            let shown = target.redact(&error.message);
            assert!(!shown.contains("key-of-the-path") && !shown.contains("password-of-it"));
        }
    }
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = explain_line(text, &Overrides::default());
        let _ = Target::parse(text).map(|target| target.redact(text));
    }
}
