//! Comparison of callers' metadata (I7).
//!
//! Metadata is stored and returned byte for byte. A repeat of a request may use other white space, another
//! order of names, or `1.10` for `1.1`; it may not change any digit of a number or add a duplicate name.

use serde_json::Value;
use serde_json::value::RawValue;

/// The form by which metadata is compared: no white space, names in order, numbers in their shortest
/// exact form. `None` if the text is not JSON.
///
/// If no digit is lost by reading the numbers as 64 bits and no name is duplicated, this is what older
/// versions stored instead of the original text, so repeats of their requests still match.
pub fn canonical(text: &str) -> Option<String> {
    let mut written = String::with_capacity(text.len());
    write(serde_json::from_str(text).ok()?, &mut written)?;
    Some(written)
}

fn write(value: &RawValue, written: &mut String) -> Option<()> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'{' => {
            let mut entries = entries(value)?;
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            written.push('{');
            for (place, (name, value)) in entries.into_iter().enumerate() {
                if place > 0 {
                    written.push(',');
                }
                written.push_str(&Value::String(name).to_string());
                written.push(':');
                write(value, written)?;
            }
            written.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            written.push('[');
            for (place, value) in items.into_iter().enumerate() {
                if place > 0 {
                    written.push(',');
                }
                write(value, written)?;
            }
            written.push(']');
        }
        b'-' | b'0'..=b'9' => {
            let short = serde_json::from_str::<Value>(text).ok()?.to_string();
            written.push_str(if decimal(&short) == decimal(text) { &short } else { text });
        }
        _ => written.push_str(&serde_json::from_str::<Value>(text).ok()?.to_string()),
    }
    Some(())
}

/// An object's names and values in order, including duplicates; `None` if it is not an object.
pub fn entries(object: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    struct OfMap;

    impl<'de> serde::de::Visitor<'de> for OfMap {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(object.get());
    serde::Deserializer::deserialize_map(&mut reader, OfMap).ok()
}

/// A JSON number as its sign, its digits without zeros at either end, and the power of ten of the last
/// digit: equal if and only if the numbers are equal. `None` if the power is out of range.
fn decimal(number: &str) -> Option<(bool, String, i64)> {
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (number, power) = match number.split_once(['e', 'E']) {
        Some((number, power)) => (number, power.parse::<i64>().ok()?),
        None => (number, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    let power = power.checked_sub(i64::try_from(part.len()).ok()?)?;
    let digits = digits.trim_start_matches('0');
    let short = digits.trim_end_matches('0');
    if short.is_empty() {
        return Some((false, String::new(), 0));
    }
    let power = power.checked_add(i64::try_from(digits.len() - short.len()).ok()?)?;
    Some((is_negative, short.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lossless_json_keeps_the_form_of_earlier_versions() {
        for text in [
            "null",
            "true",
            "0",
            "-0",
            "7",
            "-7",
            "18446744073709551615",
            "1.5",
            "1.10",
            "1e2",
            "-1E-2",
            "0.1",
            "1e20",
            "100000000000000000000",
            "\"a\\u0041\\/\\n\"",
            "[ 1, [ ], { } ]",
            "{ \"b\" : 1 , \"a\" : [ null , \"\u{e9}\" ] , \"\" : { \"z\" : 0.50 } }",
        ] {
            let before = serde_json::from_str::<Value>(text).unwrap().to_string();
            assert_eq!(canonical(text).as_deref(), Some(before.as_str()), "{text}");
        }
    }

    #[test]
    fn json_that_differs_in_a_digit_or_a_name_has_another_form() {
        for (one, other) in [
            ("18446744073709551616", "18446744073709551617"),
            ("100000000000000000001", "100000000000000000000"),
            ("0.1000000000000000055", "0.1"),
            ("1.00000000000000000001", "1"),
            ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
            ("{\"a\":1,\"a\":2}", "{\"a\":2,\"a\":1}"),
            ("[1,2]", "[2,1]"),
            ("1", "\"1\""),
        ] {
            assert_ne!(canonical(one), canonical(other), "{one} {other}");
        }
    }

    #[test]
    fn invalid_json_has_no_canonical_form() {
        for text in ["", "{", "[1", "1 2", "nul", "\"\\ud800\""] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
