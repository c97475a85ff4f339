//! Text with a length limit, for reasons, errors and notes (I13).

use std::fmt;

use crate::ids::InvalidValue;

/// At most `MAX` bytes of text that every store can save (PostgreSQL does not allow NUL).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// Takes text from a caller: too long or with a NUL is the caller's error.
    pub fn new(field: &'static str, text: impl Into<String>) -> Result<Self, InvalidValue> {
        let text = text.into();
        if text.len() > MAX {
            return Err(InvalidValue::new(
                field,
                format!("{} bytes are more than {MAX}", text.len()),
            ));
        }
        if text.contains('\0') {
            return Err(InvalidValue::new(field, "must not hold NUL"));
        }
        Ok(Self(text))
    }

    /// Takes text from outside, such as a node's answer: NULs and what is too long are cut off.
    pub fn lossy(text: &str) -> Self {
        let mut kept = text.replace('\0', "\u{fffd}");
        if kept.len() > MAX {
            let mut end = MAX;
            while !kept.is_char_boundary(end) {
                end -= 1;
            }
            kept.truncate(end);
        }
        Self(kept)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_text_is_refused_when_it_does_not_fit() {
        assert!(Text::<4>::new("reason", "four").is_ok());
        assert_eq!(Text::<4>::new("reason", "fives").unwrap_err().field, "reason");
        assert_eq!(Text::<4>::new("reason", "a\0b").unwrap_err().field, "reason");
    }

    #[test]
    fn text_from_outside_is_cut_at_a_character_boundary() {
        assert_eq!(Text::<4>::lossy("ab€€").as_str(), "ab");
        assert_eq!(Text::<8>::lossy("a\0b").as_str(), "a\u{fffd}b");
    }
}
