//! Times on pages: RFC 3339 as people read it, and as fields of forms take it.

/// A time in UTC for people: `2026-11-18 21:24:56 UTC`. What is no such time stays as it is. The script
/// replaces it by an age; the title has the exact time.
pub(crate) fn moment(at: impl AsRef<str>) -> String {
    let at = at.as_ref();
    match parts(at) {
        Some((day, time)) => format!("{day} {time} UTC"),
        None => at.to_owned(),
    }
}

/// The value of a field of a form for a time in UTC: `2026-11-18T21:24:56`. What is no such time stays as it is.
pub(crate) fn field(at: &str) -> String {
    let at = normalised(at);
    match parts(&at) {
        Some((day, time)) => format!("{day}T{time}"),
        None => at,
    }
}

/// The time that a field of a form means: browsers send `2026-11-18T21:24`, with or without seconds and never
/// with a zone. RFC 3339 is taken too, so that addresses may be written by hand.
pub(crate) fn of_field(text: &str) -> String {
    let time = text.split_once('T').map_or("", |(_, time)| time);
    let is_plain = |c: char| c.is_ascii_digit() || c == ':' || c == '.';
    match time.matches(':').count() {
        1 if time.chars().all(is_plain) => format!("{text}:00Z"),
        2 if time.chars().all(is_plain) => format!("{text}Z"),
        _ => text.to_owned(),
    }
}

/// A time with an offset, in UTC.
fn normalised(at: &str) -> String {
    let parsed = tollgate_api::parse_time(&of_field(at));
    parsed.map_or_else(|| at.to_owned(), tollgate_api::format_time)
}

/// Day and time to the second of a time in UTC.
fn parts(at: &str) -> Option<(&str, &str)> {
    let at = at.strip_suffix('Z')?;
    let (day, time) = at.split_once('T')?;
    let time = time.get(..8)?;
    (day.len() >= 10).then_some((day, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_for_people_and_other_text_stays() {
        assert_eq!(moment("2026-11-18T21:24:56.219511Z"), "2026-11-18 21:24:56 UTC");
        assert_eq!(moment("2026-11-18T21:24:56Z"), "2026-11-18 21:24:56 UTC");
        for text in ["", "soon", "é-T€€€Z", "2026-11-18T21:24Z"] {
            assert_eq!(moment(text), text);
        }
    }

    #[test]
    fn field_of_a_form_is_a_time_in_utc_both_ways() {
        for (given, meant, shown) in [
            ("2026-11-18T21:24", "2026-11-18T21:24:00Z", "2026-11-18T21:24:00"),
            ("2026-11-18T21:24:56", "2026-11-18T21:24:56Z", "2026-11-18T21:24:56"),
            ("2026-11-18T21:24:56Z", "2026-11-18T21:24:56Z", "2026-11-18T21:24:56"),
            ("2026-11-18T21:24:56+01:00", "2026-11-18T21:24:56+01:00", "2026-11-18T20:24:56"),
            ("tomorrow", "tomorrow", "tomorrow"),
            ("", "", ""),
        ] {
            assert_eq!(
                (of_field(given).as_str(), field(given).as_str()),
                (meant, shown),
                "{given}"
            );
        }
    }
}
