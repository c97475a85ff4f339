//! Durations as people write them: `500ms`, `30s`, `5m`, `1h`.

use std::time::Duration;

/// Units, in milliseconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Reads a whole number with a unit; `None` if it is no duration, or too long to count.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, millis) = UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    number.checked_mul(*millis).map(Duration::from_millis)
}

/// Writes a duration in its largest whole unit; what is below a millisecond is left out.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let is_whole =
        |(_, unit): &&(&str, u64)| millis > 0 && millis.is_multiple_of(u128::from(*unit));
    let (unit, size) = UNITS.iter().rev().find(is_whole).unwrap_or(&UNITS[1]);
    format!("{}{unit}", millis / u128::from(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_duration_is_read_as_the_same() {
        for text in ["0s", "1ms", "1500ms", "90s", "10m", "25h"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::from_secs(120)), "2m");
    }

    #[test]
    fn duration_needs_a_whole_number_and_a_unit() {
        for (text, millis) in [("0s", 0), ("500ms", 500), ("10s", 10_000), ("1h", 3_600_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "10", "s", "-1s", "+1s", "1.5s", "1d", "10 s", "1S", "99999999999999999999s"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
