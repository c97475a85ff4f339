//! What kinds of settings there are, and how each is read from text.
//!
//! Errors say what is allowed. They quote what was given only where that can't be a secret.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Uri;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::batch::BatchLimits;
use tollgate_model::{GasPrice, U256, Wei};

/// The kind of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Text,
    Socket,
    HttpUrl,
    /// Its path may be a key of the receiver's.
    HookUrl,
    /// May hold a password.
    DatabaseUrl,
    Switch,
    /// From, to.
    Number(u64, u64),
    /// Above 1, with at most three decimals.
    Factor,
    /// At least so many milliseconds.
    Duration(u64),
    Choice(&'static [&'static str]),
    Finality,
    Price,
    Amount,
    /// A number from 1 on, or no limit.
    Limit,
    Path,
    Paths,
    Addresses,
    Hosts,
    Origins,
    /// Never shown.
    Secret,
    /// Never shown.
    Secrets,
    /// URLs, or tables of a URL and its limits. A path may be a provider's key.
    Endpoints,
    /// Tables of a phrase and a class.
    Answers,
    /// Tables of conditions and an action.
    Rules,
}

impl Kind {
    /// For the documents.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Socket => "`IP:PORT`".to_owned(),
            Self::HttpUrl => "`http(s)://…`".to_owned(),
            Self::HookUrl => "`http(s)://…`; a secret".to_owned(),
            Self::DatabaseUrl => "`postgres://…` or `sqlite:PATH`; a secret".to_owned(),
            Self::Switch => "`true` or `false`".to_owned(),
            Self::Number(from, to) if to == i64::MAX as u64 => format!("number from {from} on"),
            Self::Number(from, to) => format!("number, {from} to {to}"),
            Self::Factor => "number above 1".to_owned(),
            Self::Duration(_) => "duration".to_owned(),
            Self::Choice(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
            }
            Self::Finality => "`confirmations:N`, `safe` or `finalized`".to_owned(),
            Self::Price | Self::Amount => format!("amount, or `{UNLIMITED}`"),
            Self::Limit => format!("number from 1 on, or `{UNLIMITED}`"),
            Self::Path => "path".to_owned(),
            Self::Paths => "list of paths".to_owned(),
            Self::Addresses => "list of addresses".to_owned(),
            Self::Hosts => "list of host names".to_owned(),
            Self::Origins => "list of origins".to_owned(),
            Self::Secret => "text; a secret".to_owned(),
            Self::Secrets => "list; a secret".to_owned(),
            Self::Endpoints => "list of endpoints; a secret".to_owned(),
            Self::Answers => "list of `{ phrase, class }`".to_owned(),
            Self::Rules => "list of rules".to_owned(),
        }
    }

    /// Whether it takes several values.
    pub(crate) const fn is_list(self) -> bool {
        matches!(
            self,
            Self::Paths
                | Self::Addresses
                | Self::Hosts
                | Self::Origins
                | Self::Secrets
                | Self::Endpoints
                | Self::Answers
                | Self::Rules
        )
    }

    /// Whether its values are written without quotes in TOML.
    pub(crate) const fn is_bare(self) -> bool {
        matches!(self, Self::Switch | Self::Number(..) | Self::Factor)
    }

    /// Whether what was given must not be quoted.
    pub(crate) const fn is_secret(self) -> bool {
        matches!(
            self,
            Self::HookUrl | Self::DatabaseUrl | Self::Secret | Self::Secrets | Self::Endpoints
        )
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    // Beyond a hundred days it is a slip; and sums of times must not overflow anywhere.
    let most = 100 * 24 * 3_600_000;
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_millis)) {
        Some(_) if unit_millis == 0 => Err("must be like 500ms, 10s, 5m or 1h".to_owned()),
        Some(millis) if millis <= most => Ok(Duration::from_millis(millis)),
        Some(_) => Err("must be at most 2400h".to_owned()),
        None => Err("must be like 500ms, 10s, 5m or 1h".to_owned()),
    }
}

/// The same in the other direction, in the largest unit that gives a whole number.
pub(crate) fn duration_words(duration: Duration) -> String {
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
        to if to == i64::MAX as u64 => format!("must be a whole number from {from} on"),
        to => format!("must be a whole number from {from} to {to}"),
    })
}

/// `1.125`, in thousandths.
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

/// A store keeps the list of a receipt's confirmations, which may be some longer than the rule
/// needs when many blocks come at once.
const CONFIRMATIONS_MAX: u64 = BatchLimits::CONFIRMATIONS as u64 - 256;

/// `1000000000`, `100 gwei`, `0.5 ether`.
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

/// How a limit is switched off.
pub(crate) const UNLIMITED: &str = "unlimited";

/// A limit, or `None` where it is switched off.
pub(crate) fn limit<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text.trim() == UNLIMITED {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|why| format!("{why}, or {UNLIMITED}"))
}

/// Scheme, host and port of a URL with one of these schemes.
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
    fn durations_have_a_unit() {
        for (text, millis) in [("0s", 0), ("500ms", 500), ("10s", 10_000), ("1h", 3_600_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1.5s", "1d", "10 s", "99999999999999999999s"] {
            assert!(duration(text).unwrap_err().starts_with("must be like"), "{text}");
        }
        assert_eq!(duration("2401h"), Err("must be at most 2400h".to_owned()));
        for text in ["0ms", "250ms", "90s", "5m", "2h"] {
            assert_eq!(duration_words(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn a_factor_is_exact_and_above_one() {
        for (text, permille) in [("1.125", 1_125), ("1.1", 1_100), ("2", 2_000), ("10.0", 10_000)] {
            assert_eq!(factor(text), Ok(permille), "{text}");
        }
        for text in ["", "1", "1.0", "0.9", "-2", "1.0625", "1.", ".5", "1e1", "10.001", "two"] {
            assert!(factor(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_exact() {
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
    fn a_limit_is_switched_off_by_its_own_word() {
        assert_eq!(limit("unlimited", price), Ok(None));
        assert_eq!(limit("2 gwei", price), price("2 gwei").map(Some));
        for text in ["none", "0", "off", "Unlimited"] {
            assert!(limit(text, price).unwrap_err().ends_with(", or unlimited"), "{text}");
        }
    }

    #[test]
    fn of_a_url_only_its_place_is_kept() {
        let schemes = ["http", "https"];
        let place = url_place("https://me:secret@rpc.example.com:8545/v3/key?x=y", &schemes);
        assert_eq!(place, Ok("https://rpc.example.com:8545".to_owned()));
        for url in ["", "localhost:1", "ftp://a", "http://", "ws://a", "https://a b"] {
            assert!(url_place(url, &schemes).is_err(), "{url}");
        }
    }

    #[test]
    fn finality_is_a_count_or_a_tag() {
        assert_eq!(finality("confirmations:3"), Ok(FinalityRule::Confirmations(3)));
        assert_eq!(finality("safe"), Ok(FinalityRule::Safe));
        for text in ["", "confirmations", "confirmations:0", "confirmations:-1", "latest", "5"] {
            assert!(finality(text).is_err(), "{text}");
        }
    }
}
