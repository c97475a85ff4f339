//! Amounts as people write them: `1.5eth`, `20gwei`, plain wei.

use tollgate_model::U256;

/// Units with the digits behind their point, longest names first.
const UNITS: [(&str, u32); 4] = [("ether", 18), ("gwei", 9), ("eth", 18), ("wei", 0)];

/// An amount in wei.
pub(super) fn wei(text: &str) -> Result<U256, String> {
    let bad = || format!("{text:?} is not an amount: write 1.5eth, 20gwei, or wei");
    if let Some(digits) = text.strip_prefix("0x") {
        let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        return is_hex.then(|| U256::from_str_radix(digits, 16).ok()).flatten().ok_or_else(bad);
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
    U256::from_str_radix(&digits, 10).map_err(|_| format!("{text:?} is too large"))
}

/// Wei as eth, exactly.
pub(super) fn in_eth(wei: &str) -> String {
    let padded = format!("{wei:0>19}");
    let (whole, part) = padded.split_at(padded.len() - 18);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{whole} eth") } else { format!("{whole}.{part} eth") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_in_their_units() {
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
            ("0.000000000000000001eth", "1"),
        ] {
            assert_eq!(wei(text).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_and_nothing_is_rounded() {
        let huge = "9".repeat(90);
        for text in [
            "", "eth", ".5eth", "1.", "-1", "1e18", "1.5", "1,5eth", "0x", "1.5wei", "1 000", &huge,
        ] {
            assert!(wei(text).is_err(), "{text}");
        }
        assert!(wei("0.0000000000000000001eth").unwrap_err().contains("whole number of wei"));
    }

    #[test]
    fn eth_is_shown_exactly() {
        assert_eq!(in_eth("0"), "0 eth");
        assert_eq!(in_eth("1"), "0.000000000000000001 eth");
        assert_eq!(in_eth("1500000000000000000"), "1.5 eth");
        assert_eq!(in_eth("10000000000000000000000"), "10000 eth");
    }
}
