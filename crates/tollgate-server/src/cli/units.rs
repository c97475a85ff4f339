//! Prices, times and ages as people read them in tables. Exact values are in `--json`.

use std::time::Duration;

use tollgate_api::parse_time;
use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

use crate::clock::SystemClock;

/// Wei in one thousandth of a gwei.
const MILLI_GWEI: u128 = 1_000_000;

/// A price in gwei, rounded to three decimals; one below them stays in wei. A text that is no number stays as it is.
pub(super) fn gwei(wei: &str) -> String {
    let Ok(price) = wei.parse::<u128>() else { return wei.to_owned() };
    if price < MILLI_GWEI && price > 0 {
        return format!("{price} wei");
    }
    let rounded = price.saturating_add(MILLI_GWEI / 2) / MILLI_GWEI;
    let (whole, part) = (rounded / 1_000, format!("{:03}", rounded % 1_000));
    match part.trim_end_matches('0') {
        "" => format!("{whole} gwei"),
        part => format!("{whole}.{part} gwei"),
    }
}

/// The time since an RFC 3339 time: `12s`, `5m`, `3h`, `2d`. `0s` for one that is to come.
pub(super) fn age(time: &str) -> String {
    age_at(time, SystemClock.now())
}

fn age_at(time: &str, now: Timestamp) -> String {
    match parse_time(time) {
        Some(time) => short_duration(now.since(time)),
        None => time.to_owned(),
    }
}

/// The time until an RFC 3339 time, in the same way. `0s` for one that has passed.
pub(super) fn time_until(time: &str) -> String {
    match parse_time(time) {
        Some(time) => short_duration(time.since(SystemClock.now())),
        None => time.to_owned(),
    }
}

/// A time to the second, and how long ago it was.
pub(super) fn moment(time: &str) -> String {
    format!("{} ({} ago)", to_the_second(time), age(time))
}

/// The largest whole unit of a duration.
pub(super) fn short_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The time of day of an RFC 3339 time, to the millisecond.
pub(super) fn clock(time: &str) -> String {
    let of_day = time.split_once('T').map_or(time, |(_, of_day)| of_day).trim_end_matches('Z');
    let (seconds, part) = of_day.split_once('.').unwrap_or((of_day, ""));
    let millis: String = part.chars().chain("000".chars()).take(3).collect();
    format!("{seconds}.{millis}")
}

/// An RFC 3339 time in UTC without its fraction.
pub(super) fn to_the_second(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_is_shown_in_gwei_with_three_decimals_and_dust_in_wei() {
        for (wei, shown) in [
            ("0", "0 gwei"),
            ("7", "7 wei"),
            ("999999", "999999 wei"),
            ("1000000", "0.001 gwei"),
            ("1500000000", "1.5 gwei"),
            ("1000000007", "1 gwei"),
            ("1999500000", "2 gwei"),
            ("300000000000", "300 gwei"),
            ("x", "x"),
        ] {
            assert_eq!(gwei(wei), shown, "{wei}");
        }
    }

    #[test]
    fn age_is_shown_in_its_largest_unit() {
        let now = parse_time("2026-11-19T12:00:00Z").unwrap();
        for (time, shown) in [
            ("2026-11-19T12:00:00Z", "0s"),
            ("2026-11-19T12:00:30Z", "0s"),
            ("2026-11-19T11:59:00.5Z", "59s"),
            ("2026-11-19T11:59:00Z", "1m"),
            ("2026-11-19T09:01:00Z", "2h"),
            ("2026-11-01T12:00:00Z", "18d"),
            ("soon", "soon"),
        ] {
            assert_eq!(age_at(time, now), shown, "{time}");
        }
    }

    #[test]
    fn time_is_shown_to_the_millisecond_or_to_the_second() {
        assert_eq!(clock("2026-11-16T09:30:00.123456Z"), "09:30:00.123");
        assert_eq!(clock("2026-11-16T09:30:00Z"), "09:30:00.000");
        assert_eq!(clock("2026-11-16T09:30:00.5Z"), "09:30:00.500");
        assert_eq!(to_the_second("2026-11-16T09:30:00.5Z"), "2026-11-16T09:30:00Z");
        assert_eq!(to_the_second("2026-11-16T09:30:00Z"), "2026-11-16T09:30:00Z");
    }
}
