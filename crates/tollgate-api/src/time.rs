//! Times on the wire: RFC 3339, written in UTC.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;
use tollgate_model::Timestamp;

const UNIX_EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// A time in UTC.
pub fn format_time(at: Timestamp) -> String {
    match UNIX_EPOCH.checked_add(SignedDuration::from_micros(at.unix_micros())) {
        Ok(time) => format!("{time}Z"),
        Err(_) => "out of range".to_owned(),
    }
}

/// Reads a time up to the end of the year 9999; `None` if it is none.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp::from_unix_micros(time.as_microsecond()));
    }
    // The last day of 9999 is a common way to say "for ever", and beyond what the library's instants
    // hold, because these allow for every offset.
    let pieces = Pieces::parse(text).ok()?;
    let local = DateTime::from_parts(pieces.date(), pieces.time()?);
    let offset = SignedDuration::from_secs(pieces.to_numeric_offset()?.seconds().into());
    let utc = local.checked_sub(offset).ok()?;
    let micros = i64::try_from(utc.duration_since(UNIX_EPOCH).as_micros()).ok()?;
    Some(Timestamp::from_unix_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_with_any_offset_and_written_in_utc() {
        for (text, written) in [
            ("2026-11-16T09:30:00Z", "2026-11-16T09:30:00Z"),
            ("2026-11-16T09:30:00.5+01:00", "2026-11-16T08:30:00.5Z"),
            ("2026-11-16T09:30:00.123456789Z", "2026-11-16T09:30:00.123456Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
            ("9999-12-31T23:59:59+02:00", "9999-12-31T21:59:59Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            // A leap second is read as the second before it.
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ] {
            assert_eq!(parse_time(text).map(format_time).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_instant_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-11-16",
            "2026-11-16T09:30:00",
            "9999-12-31T23:59:59",
            "9999-12-31T23:59:59-02:00",
            "9999-12-31T23:59:60.5",
            "10000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
