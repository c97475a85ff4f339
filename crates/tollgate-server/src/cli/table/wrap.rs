//! Breaks text into lines of a width. Pure.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The lines of a text; one line for an empty text. A word stays whole, as hashes and URLs must, unless it has
/// characters that are two columns wide: texts in these scripts have no blanks.
pub(in crate::cli) fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + word.width() > width {
            lines.push(String::new());
            used = 0;
        }
        let breaks = word.width() > width && word.chars().any(is_wide);
        let Some(mut line) = lines.pop() else { break };
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for char in word.chars() {
            let columns = char.width().unwrap_or_default();
            if breaks && used + columns > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(char);
            used += columns;
        }
        lines.push(line);
    }
    lines
}

fn is_wide(char: char) -> bool {
    char.width() == Some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_the_width_and_words_stay_whole() {
        let lines = wrapped(&"word ".repeat(60), 20);
        assert!(lines.iter().all(|line| line == "word word word word"), "{lines:?}");
        assert_eq!(lines.len(), 15);
        let long = "x".repeat(200);
        assert_eq!(wrapped(&long, 20), std::slice::from_ref(&long));
        assert_eq!(wrapped(&format!("see {long} there"), 20), ["see", &long, "there"]);
        assert_eq!(wrapped("", 20), [""]);
        assert_eq!(wrapped("a  b", 20), ["a  b"], "what fits stays as it is");
    }

    #[test]
    fn text_in_a_wide_script_is_broken_between_characters() {
        let lines = wrapped(&"提币".repeat(12), 20);
        assert_eq!(lines, ["提币".repeat(5), "提币".repeat(5), "提币".repeat(2)]);
    }
}
