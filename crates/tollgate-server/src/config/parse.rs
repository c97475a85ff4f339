//! Parsers of settings that are one text.
//!
//! Errors say what is allowed, and never quote what was given: it may be a secret.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Uri;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::batch::BatchLimits;
use tollgate_model::{GasPrice, U256, Wei};

use super::field::NUMBER_MAX;

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    // More than 100 days is a mistake, and sums of durations must not overflow.
    let most = 100 * 24 * 3_600_000;
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_millis)) {
        Some(_) if unit_millis == 0 => Err("must be like 500ms, 10s, 5m or 1h".to_owned()),
        Some(millis) if millis <= most => Ok(Duration::from_millis(millis)),
        Some(_) => Err("must be at most 2400h".to_owned()),
        None => Err("must be like 500ms, 10s, 5m or 1h".to_owned()),
    }
}

/// The duration as text, in the largest unit that gives a whole number.
pub(crate) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((unit, word)) => format!("{}{word}", millis / unit),
        None => format!("{millis}ms"),
    }
}

pub(crate) fn number(text: &str, from: u64, to: u64) -> Result<u64, String> {
    let number: Option<u64> = text.replace('_', "").parse().ok();
    number.filter(|number| (from..=to).contains(number)).ok_or_else(|| match to {
        NUMBER_MAX => format!("must be a whole number, at least {from}"),
        to => format!("must be a whole number from {from} to {to}"),
    })
}

/// Parses `1.125` into thousandths.
pub(crate) fn factor(text: &str) -> Result<u32, String> {
    let wrong = || "must be a number like 1.125: above 1, at most 10, three decimals".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return Err(wrong());
    }
    let permille = format!("{whole}{part:0<3}").parse().ok();
    permille.filter(|permille| (1_001..=10_000).contains(permille)).ok_or_else(wrong)
}

pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

pub(crate) fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be IP:PORT, like 127.0.0.1:8550 or [::1]:8550".to_owned())
}

pub(crate) fn finality(text: &str) -> Result<FinalityRule, String> {
    match text {
        "safe" => Ok(FinalityRule::Safe),
        "finalized" => Ok(FinalityRule::Finalized),
        other => match other.strip_prefix("confirmations:").map(|n| n.trim().parse()) {
            Some(Ok(count)) if (1..=CONFIRMATIONS_MAX).contains(&count) => {
                Ok(FinalityRule::Confirmations(count))
            }
            _ => Err(format!(
                "must be confirmations:N (N from 1 to {CONFIRMATIONS_MAX}), safe or finalized"
            )),
        },
    }
}

/// Stores limit the list of a receipt's confirmations. It may be longer than the rule needs when
/// many blocks arrive at once.
const CONFIRMATIONS_MAX: u64 = BatchLimits::CONFIRMATIONS as u64 - 256;

/// Parses `1000000000`, `100 gwei` or `0.5 ether`.
pub(crate) fn amount(text: &str) -> Result<Wei, String> {
    let wrong = || "must be an amount above zero in wei, or like 100 gwei or 0.5 ether".to_owned();
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let places = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "wei" => 0,
        "gwei" => 9,
        "ether" | "eth" => 18,
        _ => return Err(wrong()),
    };
    let digits = digits.trim_end().replace('_', "");
    let (whole, part) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || (digits.contains('.') && !is_number(part)) || part.len() > places {
        return Err(wrong());
    }
    let wei = format!("{whole}{part:0<places$}");
    match U256::from_str_radix(&wei, 10) {
        Ok(wei) if !wei.is_zero() => Ok(Wei(wei)),
        _ => Err(wrong()),
    }
}

pub(crate) fn price(text: &str) -> Result<GasPrice, String> {
    let Wei(wei) = amount(text)?;
    let wei = u128::try_from(wei).ok().and_then(|wei| GasPrice::from_wei(wei).ok());
    wei.ok_or_else(|| "must be at most 9.2 ether for one unit of gas".to_owned())
}

/// The word that turns a limit off.
pub(crate) const UNLIMITED: &str = "unlimited";

/// Parses a limit; `None` if it is turned off.
pub(crate) fn limit<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text.trim() == UNLIMITED {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|why| format!("{why}, or {UNLIMITED}"))
}

/// The scheme, host and port of a URL with one of these schemes.
pub(crate) fn url_place(url: &str, schemes: &[&str]) -> Result<String, String> {
    let wrong = || format!("must be a URL that starts with {}://", schemes.join(":// or "));
    let uri: Uri = url.trim().parse().map_err(|_| wrong())?;
    let scheme = uri.scheme_str().filter(|scheme| schemes.contains(scheme)).ok_or_else(wrong)?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    Ok(match uri.port() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_without_a_unit_is_refused() {
        for (text, millis) in [("0s", 0), ("500ms", 500), ("10s", 10_000), ("1h", 3_600_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1.5s", "1d", "10 s", "99999999999999999999s"] {
            assert!(duration(text).unwrap_err().starts_with("must be like"), "{text}");
        }
        assert_eq!(duration("2401h"), Err("must be at most 2400h".to_owned()));
        for text in ["0ms", "250ms", "90s", "5m", "2h"] {
            assert_eq!(duration_text(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn factor_outside_1_to_10_or_with_four_decimals_is_refused() {
        for (text, permille) in [("1.125", 1_125), ("1.1", 1_100), ("2", 2_000), ("10.0", 10_000)] {
            assert_eq!(factor(text), Ok(permille), "{text}");
        }
        for text in ["", "1", "1.0", "0.9", "-2", "1.0625", "1.", ".5", "1e1", "10.001", "two"] {
            assert!(factor(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amount_is_parsed_without_rounding() {
        let wei = |text: &str| amount(text).unwrap().0;
        assert_eq!(wei("7"), U256::from(7));
        assert_eq!(wei("1_000"), U256::from(1_000));
        assert_eq!(wei("100 gwei"), U256::from(100_000_000_000_u64));
        assert_eq!(wei("0.5ether"), U256::from(500_000_000_000_000_000_u64));
        assert_eq!(wei("1.000000001 gwei"), U256::from(1_000_000_001));
        for text in
            ["", "0", "0 gwei", "-1", "1.5", "1. gwei", ".5 ether", "1.0000000001 gwei", "5 usd"]
        {
            assert!(amount(text).is_err(), "{text}");
        }
        assert!(price("10 ether").is_err());
        assert_eq!(price("2 gwei").unwrap().wei(), 2_000_000_000);
    }

    #[test]
    fn only_the_word_unlimited_turns_a_limit_off() {
        assert_eq!(limit("unlimited", price), Ok(None));
        assert_eq!(limit("2 gwei", price), price("2 gwei").map(Some));
        for text in ["none", "0", "off", "Unlimited"] {
            assert!(limit(text, price).unwrap_err().ends_with(", or unlimited"), "{text}");
        }
    }

    #[test]
    fn url_place_keeps_scheme_host_and_port_only() {
        let schemes = ["http", "https"];
        let place = url_place("https://me:secret@rpc.example.com:8545/v3/key?x=y", &schemes);
        assert_eq!(place, Ok("https://rpc.example.com:8545".to_owned()));
        for url in ["", "localhost:1", "ftp://a", "http://", "ws://a", "https://a b"] {
            assert!(url_place(url, &schemes).is_err(), "{url}");
        }
    }

    #[test]
    fn finality_is_a_positive_count_or_a_tag() {
        assert_eq!(finality("confirmations:3"), Ok(FinalityRule::Confirmations(3)));
        assert_eq!(finality("safe"), Ok(FinalityRule::Safe));
        for text in ["", "confirmations", "confirmations:0", "confirmations:-1", "latest", "5"] {
            assert!(finality(text).is_err(), "{text}");
        }
    }
}
