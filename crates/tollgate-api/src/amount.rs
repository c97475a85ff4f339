//! Amounts as people write them: `1.5eth`, `20gwei`, plain wei.

use tollgate_model::U256;

use crate::number::parse_number;

/// Units with the digits behind their point, longest names first.
const UNITS: [(&str, u32); 4] = [("ether", 18), ("gwei", 9), ("eth", 18), ("wei", 0)];

/// Reads an amount, in wei. Nothing is rounded.
///
/// # Errors
/// Why the text is no amount.
pub fn parse_amount(text: &str) -> Result<U256, String> {
    let bad = || format!("{text:?} is not an amount: write 1.5eth, 20gwei, or wei");
    if text.starts_with("0x") {
        return parse_number(text).map_err(|_| bad());
    }
    let lower = text.to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(name, digits)| Some((lower.strip_suffix(name)?, *digits)));
    let (number, scale) = unit.unwrap_or((&lower, 0));
    let (whole, part) = match number.trim_end().split_once('.') {
        Some((_, "")) => return Err(bad()),
        Some(parts) => parts,
        None => (number.trim_end(), ""),
    };
    let is_number =
        !whole.is_empty() && whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit());
    if !is_number {
        return Err(bad());
    }
    let part = part.trim_end_matches('0');
    let missing = scale.checked_sub(u32::try_from(part.len()).unwrap_or(u32::MAX));
    let missing = missing.ok_or_else(|| format!("{text:?} is not a whole number of wei"))?;
    let digits = format!("{whole}{part}{}", "0".repeat(missing as usize));
    parse_number(&digits).map_err(|_| format!("{text:?} is too large"))
}

/// Writes wei as eth, without rounding.
pub fn format_eth(wei: &str) -> String {
    let padded = format!("{wei:0>19}");
    let (whole, part) = padded.split_at(padded.len() - 18);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{whole} eth") } else { format!("{whole}.{part} eth") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_is_read_in_its_unit() {
        for (text, expected) in [
            ("0", "0"),
            ("17", "17"),
            ("17wei", "17"),
            ("0x10", "16"),
            ("20gwei", "20000000000"),
            ("0.5gwei", "500000000"),
            ("1.5eth", "1500000000000000000"),
            ("1.50 ETH", "1500000000000000000"),
            ("1ether", "1000000000000000000"),
            ("1.000000001 gwei", "1000000001"),
            ("0.000000000000000001eth", "1"),
        ] {
            assert_eq!(parse_amount(text).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_whole_number_of_wei_is_refused() {
        let huge = "9".repeat(90);
        for text in [
            "",
            "eth",
            ".5eth",
            "1.",
            "1. gwei",
            "5 usd",
            "1.0000000001 gwei",
            "-1",
            "1e18",
            "1.5",
            "1,5eth",
            "0x",
            "1.5wei",
            "1 000",
            &huge,
        ] {
            assert!(parse_amount(text).is_err(), "{text}");
        }
        assert!(
            parse_amount("0.0000000000000000001eth").unwrap_err().contains("whole number of wei")
        );
    }

    #[test]
    fn wei_are_written_as_eth_without_rounding() {
        assert_eq!(format_eth("0"), "0 eth");
        assert_eq!(format_eth("1"), "0.000000000000000001 eth");
        assert_eq!(format_eth("1500000000000000000"), "1.5 eth");
        assert_eq!(format_eth("10000000000000000000000"), "10000 eth");
    }
}
