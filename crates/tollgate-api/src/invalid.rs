//! A value that can't be used: which field, which value, what is allowed.

use std::fmt;

use tollgate_model::secret::masked;

use crate::code::ErrorCode;

/// The most characters of a refused value that are quoted.
const QUOTED_CHARS_MAX: usize = 60;

/// The reason why a field of a request can't be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// The code of the problem that it becomes.
    pub code: ErrorCode,
    /// The path of the field, like `payload.value`.
    pub field: String,
    /// The refused value, if it may be repeated: shortened, and without what may be a secret.
    pub value: Option<String>,
    /// The rest of a sentence about the field: the mistake, or the allowed values.
    pub what: String,
}

impl Invalid {
    /// A field with a value that is not allowed.
    pub fn value(code: ErrorCode, field: &str, value: &str, what: impl Into<String>) -> Self {
        let value = Some(quoted(value));
        Self { code, field: field.to_owned(), value, what: what.into() }
    }

    /// A field whose value is not repeated.
    pub fn field(code: ErrorCode, field: &str, what: impl Into<String>) -> Self {
        Self { code, field: field.to_owned(), value: None, what: what.into() }
    }
}

/// Names the field, the value and what is allowed.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {value} {}", self.field, self.what),
            None => write!(f, "{}: {}", self.field, self.what),
        }
    }
}

impl std::error::Error for Invalid {}

/// A value for an error text: in quotes, masked and shortened.
pub fn quoted(text: &str) -> String {
    shortened(&format!("{text:?}"))
}

/// Text from outside for an error text: masked and shortened.
pub fn shortened(text: &str) -> String {
    let text = masked(text);
    let start: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}
