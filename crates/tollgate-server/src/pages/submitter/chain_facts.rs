//! The facts that the page of a submitter tells about its chain: the price of a transaction now, how long the balance
//! lasts, and the endpoints.

use std::time::Duration;

use tollgate_engine::Engine;
use tollgate_metrics::BalanceReading;
use tollgate_model::Submitter;
use tollgate_model::port::chain::FeeQuote;

use super::super::coin::per_day;
use super::super::endpoints::{EndpointRow, endpoint_rows};
use super::super::format::{age, count, gwei};
use crate::http::ServedChain;

/// The longest wait for the price: the page is of use without it.
const PATIENCE: Duration = Duration::from_secs(2);
const DAY: f64 = 86_400.0;
/// A rate that was measured over less time says nothing about days, and is not shown; nor does an alert tell it
/// (`tollgate_model::alert::balance`).
const MEASURED_MIN: f64 = 3_600.0;
/// A balance that lasts for less is marked.
const LOW_DAYS: f64 = 3.0;
/// More days than this are as good as for ever.
const DAYS_MAX: f64 = 3_650.0;

/// The facts about a chain that concern one account.
#[derive(Default)]
pub(super) struct ChainFacts {
    pub(super) head: Option<String>,
    pub(super) price: Option<Price>,
    pub(super) burn: Option<Burn>,
    pub(super) endpoints: Vec<EndpointRow>,
}

/// The price of a transaction now, in gwei per unit of gas.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Price {
    pub(super) base_fee: Option<String>,
    pub(super) tip: Option<String>,
    /// The most that a new transaction would offer, before caps.
    pub(super) max_fee: String,
}

/// The spending of an account, and the time that its balance lasts at that rate.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Burn {
    pub(super) rate: String,
    pub(super) left: Option<String>,
    pub(super) is_low: bool,
}

impl ChainFacts {
    /// Reads the facts that this node knows about an account of one of its chains.
    pub(super) async fn read(chain: Option<&ServedChain>, of: Submitter) -> Self {
        let Some(chain) = chain else { return Self::default() };
        let endpoints = endpoint_rows(&chain.endpoints());
        let Ok(started) = chain.started() else { return Self { endpoints, ..Self::default() } };
        let engine = &started.api.engine;
        let quote = tokio::time::timeout(PATIENCE, engine.fee_quote()).await;
        Self {
            head: engine.view().head().map(|head| count(head.number)),
            price: quote.ok().and_then(Result::ok).map(|quote| price(&quote)),
            burn: reading(engine, of).and_then(|reading| burn(reading, of.chain_id.get())),
            endpoints,
        }
    }
}

fn reading(engine: &Engine, of: Submitter) -> Option<BalanceReading> {
    let all = engine.metrics().accounts.balances();
    all.into_iter().find(|(account, _)| *account == of.address).map(|(_, reading)| reading)
}

fn price(quote: &FeeQuote) -> Price {
    let shown = |wei: u128| gwei(&wei.to_string());
    Price {
        base_fee: quote.base_fee.map(|fee| shown(fee.wei())),
        tip: quote.max_priority_fee.map(|tip| shown(tip.wei())),
        max_fee: shown(quote.max_fee.wei()),
    }
}

fn burn(reading: BalanceReading, chain_id: u64) -> Option<Burn> {
    if reading.measured_seconds < MEASURED_MIN {
        return None;
    }
    let Some(seconds) = reading.left_seconds.filter(|seconds| *seconds > 0.0) else {
        return Some(Burn { rate: per_day(0.0, chain_id), left: None, is_low: false });
    };
    let days = seconds / DAY;
    let left = match days {
        days if days > DAYS_MAX => "more than 10 years".to_owned(),
        days if days >= 2.0 => format!("{days:.0} days"),
        _ if seconds < 60.0 => "< 1 min".to_owned(),
        _ => age(Duration::from_secs(seconds as u64)),
    };
    let rate = per_day(reading.ether / seconds * DAY, chain_id);
    Some(Burn { rate, left: Some(left), is_low: days < LOW_DAYS })
}

#[cfg(test)]
mod tests {
    use tollgate_model::GasPrice;

    use super::*;

    #[test]
    fn balance_that_is_spent_lasts_for_days_and_one_that_is_not_has_no_end() {
        let of = |ether, left_seconds| {
            burn(BalanceReading { ether, left_seconds, measured_seconds: 3_600.0 }, 1)
        };
        let expected = |rate: &str, left: Option<&str>, is_low| {
            let (rate, left) = (rate.to_owned(), left.map(str::to_owned));
            Some(Burn { rate, left, is_low })
        };
        assert_eq!(of(4.0, Some(8.0 * DAY)), expected("0.500 ETH a day", Some("8 days"), false));
        assert_eq!(of(1.0, Some(0.5 * DAY)), expected("2.00 ETH a day", Some("12 h"), true));
        assert_eq!(of(4.0, None), expected("0 ETH a day", None, false));
        assert_eq!(of(4.0, Some(1e12)).unwrap().left.as_deref(), Some("more than 10 years"));
        assert_eq!(of(0.1, Some(5.0)).unwrap().left.as_deref(), Some("< 1 min"));
        let early = BalanceReading { ether: 4.0, left_seconds: Some(9.0), measured_seconds: 900.0 };
        assert_eq!(burn(early, 1), None, "too early to tell");
    }

    #[test]
    fn price_of_a_chain_without_a_base_fee_has_none() {
        let wei = |wei| GasPrice::from_wei(wei).unwrap();
        let quote = FeeQuote {
            base_fee: Some(wei(20_000_000_000)),
            max_fee: wei(41_500_000_000),
            max_priority_fee: Some(wei(1_500_000_000)),
        };
        let shown = price(&quote);
        assert_eq!(shown.base_fee.as_deref(), Some("20 gwei"));
        assert_eq!((shown.tip.as_deref(), shown.max_fee.as_str()), (Some("1.5 gwei"), "41.5 gwei"));
        let legacy = price(&FeeQuote { base_fee: None, max_priority_fee: None, ..quote });
        assert_eq!((legacy.base_fee, legacy.tip), (None, None));
    }
}
