//! Formats of values on pages: ages, amounts, shortened ids, and states as badges.

use std::fmt::Write as _;
use std::time::Duration;

/// Characters of an id that stay before and after the ellipsis.
const ID_HEAD: usize = 8;
const ID_TAIL: usize = 6;
/// Digits after the point that prices show at most.
const DECIMALS_MAX: usize = 6;

/// A state as a page shows it: a class for its colour, and a sign and words, so that colour is never alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Badge {
    pub(crate) class: &'static str,
    pub(crate) sign: &'static str,
    pub(crate) words: &'static str,
}

impl Badge {
    const fn new(class: &'static str, sign: &'static str, words: &'static str) -> Self {
        Self { class, sign, words }
    }

    /// The badge of a transaction's state, by the names of the API.
    pub(crate) fn of_state(state: &str, sub_state: Option<&str>) -> Self {
        match (state, sub_state.unwrap_or_default()) {
            ("CONFIRMED", _) => Self::new("confirmed", "✓", "confirmed"),
            ("FAILED_FINAL", "REVERTED") => Self::new("failed", "✕", "reverted"),
            ("FAILED_FINAL", "CANCELLED") => Self::new("cancelled", "–", "cancelled"),
            ("FAILED_FINAL", "NONCE_TAKEN") => Self::new("failed", "✕", "nonce taken"),
            ("FAILED_FINAL", _) => Self::new("failed", "✕", "rejected"),
            ("STUCK", _) => Self::new("stuck", "!", "stuck"),
            ("QUEUED", "HELD") => Self::new("queued", "‖", "held"),
            ("QUEUED", _) => Self::new("queued", "…", "queued"),
            ("ALLOCATED", "UNSENT") => Self::new("allocated", "○", "signed"),
            ("ALLOCATED", "INSUFFICIENT_FUNDS") => Self::new("unclear", "$", "no funds"),
            ("ALLOCATED", _) => Self::new("unclear", "?", "outcome unknown"),
            ("TRACKING", "MINED") => Self::new("mined", "■", "mined"),
            ("TRACKING", "STALE") => Self::new("stale", "↻", "sent again"),
            ("TRACKING", _) => Self::new("sent", "→", "sent"),
            _ => Self::new("queued", "·", "other"),
        }
    }

    /// The badge of a submitter's status.
    pub(crate) fn of_status(status: &str) -> Self {
        match status {
            "ACTIVE" => Self::new("confirmed", "✓", "active"),
            "PAUSED" => Self::new("stale", "‖", "paused"),
            "PROTECT" => Self::new("stuck", "!", "protect"),
            _ => Self::new("queued", "·", "other"),
        }
    }
}

/// An id with its middle left out. Short ones stay as they are.
pub(crate) fn short(id: &str) -> String {
    let chars: Vec<char> = id.chars().collect();
    if chars.len() <= ID_HEAD + ID_TAIL + 1 {
        return id.to_owned();
    }
    let head: String = chars.iter().take(ID_HEAD).collect();
    let tail: String = chars.iter().skip(chars.len() - ID_TAIL).collect();
    format!("{head}…{tail}")
}

/// Text of a caller with the characters shown that have no form of their own: those that turn the direction of what
/// follows, and those without a width, make one id look like another.
pub(crate) fn visible(text: &str) -> String {
    let is_hidden = |c: char| {
        matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
            || (c.is_control() && c != '\n' && c != '\t')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c)),
            false => shown.push(c),
        }
    }
    shown
}

/// A duration in its two largest units: `4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn age(of: Duration) -> String {
    let seconds = of.as_secs();
    let pair = |first: u64, unit: &str, second: u64, smaller: &str| match second {
        0 => format!("{first} {unit}"),
        second => format!("{first} {unit} {second} {smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// Milliseconds as people say them: `240 ms`, `3.2 s`, `2 min 4 s`.
pub(crate) fn latency(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => age(Duration::from_millis(ms)),
    }
}

/// A count with its thousands apart: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Wei as gwei, with up to six digits after the point.
pub(crate) fn gwei(wei: &str) -> String {
    format!("{} gwei", shifted(wei, 9, DECIMALS_MAX))
}

/// A decimal number divided by a power of ten, with at most so many digits after the point; what the last one
/// leaves out is cut, and told by `…`.
pub(crate) fn shifted(digits: &str, places: usize, decimals_max: usize) -> String {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.to_owned();
    }
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    let part = part.trim_end_matches('0');
    let mut text = whole.parse::<u64>().map_or_else(|_| whole.to_owned(), count);
    if part.is_empty() {
        return text;
    }
    // Leading zeros don't count: a small amount keeps its first digits.
    let zeros = part.len() - part.trim_start_matches('0').len();
    let kept = (zeros + 2).max(decimals_max).min(part.len());
    let _ = write!(text, ".{}", &part[..kept]);
    if kept < part.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ids_are_cut_in_the_middle_and_short_ones_are_not() {
        assert_eq!(short("0xac0974bec39a17e36ba4a6b4d238ff944bacb478"), "0xac0974…acb478");
        assert_eq!(short("order-1"), "order-1");
        assert_eq!(short("提币提币提币提币提币提币提币提币"), "提币提币提币提币…提币提币提币");
    }

    #[test]
    fn characters_without_a_form_are_shown_by_their_numbers() {
        assert_eq!(visible("rent-\u{202e}1\u{200b}"), "rent-⟨U+202E⟩1⟨U+200B⟩");
        assert_eq!(visible("提币 17 – ok\nשלום"), "提币 17 – ok\nשלום");
    }

    #[test]
    fn ages_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (200, "3 min 20 s"),
            (7_500, "2 h 5 min"),
            (86_400, "1 d"),
            (273_600, "3 d 4 h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
        assert_eq!((latency(240), latency(3_290)), ("240 ms".to_owned(), "3.2 s".to_owned()));
    }

    #[test]
    fn amounts_keep_their_first_digits_and_tell_what_they_leave_out() {
        assert_eq!(gwei("30000000000"), "30 gwei");
        assert_eq!(gwei("1500000001"), "1.5 gwei".replace("1.5", "1.500000…"));
        let coins = |wei| shifted(wei, 18, 6);
        assert_eq!(coins("1500000000000000000"), "1.5");
        assert_eq!(coins("10000000000000000000000"), "10,000");
        assert_eq!(coins("21000000000"), "0.000000021");
        assert_eq!(coins("0"), "0");
        assert_eq!(coins("<b>"), "<b>", "what is no number is left as it is");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
