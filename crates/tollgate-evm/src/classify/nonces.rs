//! Nonce errors whose direction is in their numbers: "invalid nonce; got 5, expected 7".
//!
//! The two numbers are searched next to the words that name them. Used only after the rules for phrases.

use tollgate_model::answer::AnswerClass;

use super::pattern::occurs;

/// Words before the transaction's own nonce.
const OURS: [&str; 19] = [
    "got",
    "actual",
    "provided",
    "have",
    "given",
    "received",
    "found",
    "tx",
    "txn",
    "transaction",
    "transactions",
    "rejected",
    "supplied",
    "submitted",
    "message",
    "sent",
    "was",
    "txnonce",
    "trx",
];

/// Words before the nonce that the node expects.
const WANTED: [&str; 17] = [
    "expected",
    "expecting",
    "expects",
    "expect",
    "current",
    "state",
    "want",
    "wanted",
    "next",
    "account",
    "accounts",
    "required",
    "should",
    "correct",
    "onchain",
    "statenonce",
    "acc",
];

/// The most words between a name and its number.
const WORDS_MAX: usize = 5;

/// The class, the transaction's nonce and the expected one.
pub(super) fn compare(text: &str) -> Option<(AnswerClass, u64, u64)> {
    if !occurs(text, "^nonce") && !occurs(text, "^sequence") {
        return None;
    }
    let words: Vec<&str> = text.split(' ').filter(|word| !["|", ","].contains(word)).collect();
    let wanted = named(&words, &WANTED)?;
    let ours = named(&words, &OURS).or_else(|| named(&words, &["nonce", "sequence"]))?;
    match ours.cmp(&wanted) {
        std::cmp::Ordering::Less => Some((AnswerClass::NonceTooLow, ours, wanted)),
        std::cmp::Ordering::Greater => Some((AnswerClass::NonceTooHigh, ours, wanted)),
        // Equal numbers are no mismatch: the text means something else.
        std::cmp::Ordering::Equal => None,
    }
}

/// The number that follows one of these names, before any other name.
fn named(words: &[&str], names: &[&str]) -> Option<u64> {
    let is_name = |word: &str| OURS.contains(&word) || WANTED.contains(&word);
    words.iter().enumerate().filter(|(_, word)| names.contains(word)).find_map(|(at, _)| {
        words[at + 1..]
            .iter()
            .take(WORDS_MAX)
            .take_while(|word| !is_name(word))
            .find_map(|word| number(word))
    })
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::normalise::normalise;
    use super::*;

    fn compared(text: &str) -> Option<(AnswerClass, u64, u64)> {
        compare(&normalise(text))
    }

    #[test]
    fn the_numbers_decide() {
        let low = Some((AnswerClass::NonceTooLow, 5, 7));
        let high = Some((AnswerClass::NonceTooHigh, 7, 5));
        assert_eq!(compared("invalid nonce; got 5, expected 7"), low);
        assert_eq!(compared("invalid nonce; got 7, expected 5"), high);
        assert_eq!(compared("account sequence mismatch, expected 7, got 5"), low);
        assert_eq!(compared("account sequence mismatch, expected 5, got 7"), high);
        assert_eq!(
            compared(
                "the tx doesn't have the correct nonce. account has nonce of: 7 tx has nonce of: 5"
            ),
            low
        );
        assert_eq!(compared("Expected nonce to be 5 but got 7"), high);
        assert_eq!(compared("current nonce (7) > tx nonce (5)"), low);
        assert_eq!(compared("nonce mismatch: tx 0x5, state 0x7"), low);
        assert_eq!(compared("invalid nonce 5 for 0x01: expected 7"), low);
    }

    #[test]
    fn equal_or_missing_numbers_decide_nothing() {
        assert_eq!(compared("invalid nonce; got 5, expected 5"), None);
        assert_eq!(compared("invalid nonce; got 5"), None);
        assert_eq!(compared("got 5, expected 7"), None);
    }
}
