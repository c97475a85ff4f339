//! The pattern language of the rules: phrases that are searched in normalised text.
//!
//! - a blank matches a blank or nothing, so `nonce too low` also finds `NonceTooLow`;
//! - `a/b` within a word matches either;
//! - `..` matches a few words, or none, within one clause (`tx fee .. exceeds`);
//! - `|` is the border between clauses, `,` a pause within one, which only a `..` passes over;
//! - `^` at the start requires the start of a word, `$` at the end the end of one.
//!
//! Not regular expressions: no pattern takes more than text length × phrase length steps for each `..`.

/// The longest text that `..` matches: an address, two numbers and the words around them.
const GAP_MAX: usize = 80;

/// Returns where the phrase begins in the text, if it occurs.
pub(super) fn find(text: &str, phrase: &str) -> Option<usize> {
    let (wants_start, phrase) = match phrase.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, phrase),
    };
    let text = text.as_bytes();
    let phrase = phrase.as_bytes();
    let &start = phrase.first()?;
    let has_choices = phrase.contains(&b'/');
    let mut starts = [false; 256];
    let choices = first_word(phrase).split(|byte| *byte == b'/').filter(|_| has_choices);
    for byte in choices.filter_map(<[u8]>::first) {
        starts[usize::from(*byte)] = true;
    }
    (0..text.len()).find(|&at| {
        if text[at] != start && !starts[usize::from(text[at])] {
            return false;
        }
        let starts_word = at == 0 || text[at - 1] == b' ';
        (starts_word || !wants_start) && matches_at(text, at, phrase, has_choices)
    })
}

/// Returns whether the phrase occurs in the text.
pub(super) fn occurs(text: &str, phrase: &str) -> bool {
    find(text, phrase).is_some()
}

/// The part of a phrase before its first blank.
fn first_word(phrase: &[u8]) -> &[u8] {
    phrase.split(|byte| *byte == b' ').next().unwrap_or(phrase)
}

fn matches_at(text: &[u8], mut at: usize, phrase: &[u8], has_choices: bool) -> bool {
    for (i, &wanted) in phrase.iter().enumerate() {
        if has_choices && (i == 0 || phrase[i - 1] == b' ') {
            let word = first_word(&phrase[i..]);
            if word.contains(&b'/') {
                let rest = &phrase[i + word.len()..];
                return word.split(|byte| *byte == b'/').any(|choice| {
                    text[at..].starts_with(choice)
                        && matches_at(text, at + choice.len(), rest, has_choices)
                });
            }
        }
        match wanted {
            b'.' => {
                // `..`, with the blanks around it.
                let rest = phrase[i..].trim_ascii_start();
                let rest = rest.strip_prefix(b"..").unwrap_or(rest).trim_ascii_start();
                let gap = &text[at..text.len().min(at + GAP_MAX)];
                let gap = gap.iter().position(|&byte| byte == b'|').unwrap_or(gap.len());
                return (at..=at + gap).any(|next| matches_at(text, next, rest, has_choices));
            }
            b'$' => return text.get(at).is_none_or(|&byte| byte == b' '),
            b' ' => {
                if text.get(at) == Some(&b' ') {
                    at += 1;
                }
            }
            wanted => {
                if text.get(at) != Some(&wanted) {
                    return false;
                }
                at += 1;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_may_be_missing_in_the_text() {
        assert_eq!(find("x nonce too low", "nonce too low"), Some(2));
        assert!(occurs("noncetoolow", "nonce too low"));
        assert!(!occurs("nonce too | low", "nonce too low"));
    }

    #[test]
    fn a_gap_stays_within_its_clause() {
        assert!(occurs("nonce 5 is too low", "nonce .. too low"));
        assert!(occurs("nonce too low", "nonce .. too low"));
        assert!(!occurs("nonce 5 | gas price too low", "nonce .. too low"));
        assert!(occurs("a b c d", "a .. b .. d"));
    }

    #[test]
    fn one_of_several_words_is_enough() {
        assert!(occurs("cannot recover signer", "could/cannot recover sender/signer"));
        assert!(occurs("xcannotrecoversender", "could/cannot recover sender/signer"));
        assert!(!occurs("cannot recover it", "could/cannot recover sender/signer"));
        assert!(occurs("fee 5 was below", "fee .. above/below"));
        assert!(!occurs("generate", "^rate/mate limit"));
    }

    #[test]
    fn borders_of_words_can_be_asked_for() {
        assert!(!occurs("generate limit", "^rate limit"));
        assert!(occurs("the rate limit", "^rate limit"));
        assert!(!occurs("stalemate", "^stale$"));
        assert!(occurs("is stale", "^stale$"));
        assert!(occurs("invalid transaction | stale", "invalid transaction | stale"));
    }
}
