//! Explains the class of an answer and Tollgate's action, for people and for pipes.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_model::answer::{action_for, may_be_with_a_node};

use crate::classify::{Overrides, RpcAnswer, judge};

/// The longest line that is read, in bytes.
const LINE_MAX: usize = 4 * 1024 * 1024;

/// The class of an answer, the action that follows, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The class, as [`AnswerClass::name`](tollgate_model::answer::AnswerClass::name) writes it.
    pub class: &'static str,
    /// The action, as [`AnswerAction::name`](tollgate_model::answer::AnswerAction::name) writes it.
    pub action: &'static str,
    /// A node may have the transaction all the same.
    pub possibly_sent: bool,
    /// The basis of the class.
    pub why: String,
}

/// Explains an answer.
pub fn explain(answer: &RpcAnswer<'_>) -> Explanation {
    explain_with(answer, &Overrides::default())
}

/// Explains an answer on a chain with overrides.
pub fn explain_with(answer: &RpcAnswer<'_>, overrides: &Overrides) -> Explanation {
    let verdict = judge(answer, overrides);
    Explanation {
        class: verdict.class.name(),
        action: action_for(verdict.class).name(),
        possibly_sent: may_be_with_a_node(verdict.class),
        why: verdict.reason.to_string(),
    }
}

/// A line of input: the answer's parts, as far as they are known.
#[derive(Deserialize)]
struct Line {
    code: Option<i64>,
    status: Option<u16>,
    message: String,
    data: Option<Value>,
}

/// The output for a line that can't be read.
#[derive(Serialize)]
struct LineError {
    error: String,
}

/// Explains one JSON line `{code?, status?, message, data?}` as one JSON line, without its end.
/// A line that can't be read gives `{"error": …}`.
pub fn explain_line(line: &str, overrides: &Overrides) -> String {
    let written = match serde_json::from_str::<Line>(line) {
        Ok(Line { code, status, message, data }) => {
            let data = data.map(|data| match data {
                Value::String(text) => text,
                other => other.to_string(),
            });
            let answer = RpcAnswer { code, status, message: &message, data: data.as_deref() };
            serde_json::to_string(&explain_with(&answer, overrides))
        }
        Err(error) => serde_json::to_string(&LineError { error: error.to_string() }),
    };
    // Strings and booleans can always be written as JSON; should that ever fail, the line says so.
    written.unwrap_or_else(|_| r#"{"error":"can't be written as JSON"}"#.to_owned())
}

/// Explains JSON lines, one for one; blank lines are passed over.
///
/// # Errors
/// Only those of reading and writing; a broken line is an answer like any other.
pub fn explain_lines(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    overrides: &Overrides,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if !read_line(input, &mut line)? {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            writeln!(output, "{}", explain_line(&text, overrides))?;
        }
    }
}

/// Reads up to the end of the line, keeping no more than [`LINE_MAX`] of it. False at the end.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let mut any = false;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        // The rest is dropped: what is left is no JSON, and is answered as a broken line.
        line.extend_from_slice(&part[..part.len().min(LINE_MAX - line.len())]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}
