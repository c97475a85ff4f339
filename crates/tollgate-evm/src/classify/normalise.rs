//! Normalises a text for the rules.
//!
//! Lower case; words separated by one blank; ` | ` for punctuation that ends a clause, ` , ` for a pause.
//! Without these borders, "the nonce is invalid. Sender 0x…" would match "invalid sender", which rejects
//! the transaction. Long hexadecimal numbers shrink to
//! `0x`, so that they don't fill a gap. Apostrophes within words vanish.

/// Normalises a text.
pub(super) fn normalise(text: &str) -> String {
    let chars: Vec<char> = unescape(text).chars().collect();
    let mut out = Builder::default();
    for (i, &char) in chars.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let after = chars.get(i + 1).copied().unwrap_or(' ');
        let inside = before.is_ascii_alphanumeric() && after.is_ascii_alphanumeric();
        match char {
            _ if char.is_ascii_alphanumeric() => out.word.push(char.to_ascii_lowercase()),
            '\'' | '’' | '`' if inside => {}
            // "1.5 ether", "quicknode.com", "1,000": no clause ends here.
            '.' if inside => out.blank(),
            ',' if before.is_ascii_digit() && after.is_ascii_digit() => out.blank(),
            ',' | '"' => out.border(Border::Pause),
            '.' | ';' | ':' | '!' | '?' | '[' | ']' | '{' | '}' | '|' => out.border(Border::End),
            _ => out.blank(),
        }
    }
    out.finish()
}

/// Escapes left over from JSON in a string or from HTML.
fn unescape(text: &str) -> String {
    let mut text = text.to_owned();
    for (escape, plain) in [
        ("\\n", " "),
        ("\\r", " "),
        ("\\t", " "),
        ("\\u0027", "'"),
        ("\\u003c", " "),
        ("\\u003e", " "),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&apos;", "'"),
        ("&quot;", "\""),
        ("&nbsp;", " "),
    ] {
        // One pass each; a text without a backslash or ampersand costs only the search.
        if text.contains(escape) {
            text = text.replace(escape, plain);
        }
    }
    text
}

/// The separator between two words; later variants are stronger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Border {
    #[default]
    None,
    Pause,
    End,
}

#[derive(Default)]
struct Builder {
    out: String,
    word: String,
    border: Border,
}

impl Builder {
    fn blank(&mut self) {
        if self.word.is_empty() {
            return;
        }
        if !self.out.is_empty() {
            self.out.push_str(match self.border {
                Border::None => " ",
                Border::Pause => " , ",
                Border::End => " | ",
            });
        }
        self.border = Border::None;
        let is_long_hex = self.word.len() > 18
            && self
                .word
                .strip_prefix("0x")
                .is_some_and(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()));
        self.out.push_str(if is_long_hex { "0x" } else { &self.word });
        self.word.clear();
    }

    fn border(&mut self, border: Border) {
        self.blank();
        self.border = self.border.max(border);
    }

    fn finish(mut self) -> String {
        self.blank();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_blanks_and_punctuation_are_evened_out() {
        assert_eq!(normalise("  Nonce\r\n TOO_low!  "), "nonce too low");
        assert_eq!(normalise("sender doesn't have 1.5 ETH."), "sender doesnt have 1 5 eth");
        assert_eq!(normalise("err: nonce; got 5, want 7"), "err | nonce | got 5 , want 7");
        assert_eq!(normalise("<- (a) * b"), "a b");
        assert_eq!(normalise(""), "");
    }

    #[test]
    fn a_full_stop_is_a_border() {
        assert_eq!(normalise("it is invalid. Sender x"), "it is invalid | sender x");
    }

    #[test]
    fn long_hexadecimal_numbers_shrink() {
        assert_eq!(normalise("tx 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C ok"), "tx 0x ok");
        assert_eq!(normalise("nonce 0x1f"), "nonce 0x1f");
    }

    #[test]
    fn escapes_left_over_from_json_are_read() {
        assert_eq!(normalise(r"doesn\u0027t\nhave"), "doesnt have");
        assert_eq!(normalise("doesn&#39;t"), "doesnt");
    }
}
