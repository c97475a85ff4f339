//! Parsers of settings that are one text.
//!
//! Errors say what is allowed, and never quote what was given: it may be a secret.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Uri;
use tollgate_api::{parse_amount, parse_duration};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::batch::BatchLimits;
use tollgate_model::{GasPrice, Wei};

use super::field::NUMBER_MAX;

/// More than 100 days is a mistake, and sums of durations must not overflow.
const DURATION_MAX: Duration = Duration::from_secs(100 * 24 * 3_600);

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(duration) if duration <= DURATION_MAX => Ok(duration),
        Some(_) => Err("must be at most 2400h".to_owned()),
        None => Err("must be like 500ms, 10s, 5m or 1h".to_owned()),
    }
}

/// A duration that may be given in days.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let day = Duration::from_secs(86_400);
    let days = text.strip_suffix('d').map(|days| days.parse().ok().map(|days: u32| day * days));
    match days.unwrap_or_else(|| parse_duration(text)) {
        Some(age) if age <= day * 36_500 => Ok(age),
        Some(_) => Err("must be at most 36500d".to_owned()),
        None => Err("must be like 90d, 12h or 30m".to_owned()),
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

/// Parses `1_000_000_000`, `100 gwei` or `0.5 ether`.
pub(crate) fn amount(text: &str) -> Result<Wei, String> {
    let wei = parse_amount(&text.trim().replace('_', "")).ok().filter(|wei| !wei.is_zero());
    wei.map(Wei).ok_or_else(|| {
        "must be an amount above zero in wei, or like 100 gwei or 0.5 ether".to_owned()
    })
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
    fn duration_above_2400h_is_refused() {
        assert!(duration("10").unwrap_err().starts_with("must be like"));
        assert_eq!(duration("2401h"), Err("must be at most 2400h".to_owned()));
        for text in ["0ms", "250ms", "90s", "5m", "2h", "2400h"] {
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
    fn amount_of_zero_or_beyond_a_price_is_refused() {
        assert_eq!(amount("1_000 gwei").unwrap().0.to_string(), "1000000000000");
        for text in ["", "0", "0 gwei", "1.5", "5 usd"] {
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
