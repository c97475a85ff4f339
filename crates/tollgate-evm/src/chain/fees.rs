//! What a transaction has to pay now.
//!
//! Owns a quote for a short time. Knows no caps: what is too dear is the engine's business. Finds
//! out by itself what the chain and its nodes have: a base fee or none, `eth_feeHistory` or not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_model::GasPrice;
use tollgate_model::fee_agreement::{Agreement, RecentPrice, agree};
use tollgate_model::port::chain::{BlockRef, ChainUnavailable, FeeQuote, Speed};

use super::member::Member;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::wire::{FeeHistoryWire, Quantity};
use crate::endpoint::{Ability, RpcError};

/// Endpoints that are asked for one quote, where there are as many: with three, one that lies or is
/// wrong decides nothing (I16).
const VOICES_MAX: usize = 3;
/// How long the others have once one endpoint has answered.
const FURTHER_VOICES_PATIENCE: Duration = Duration::from_millis(500);
/// How many blocks are looked back on.
const BLOCKS: u64 = 10;
/// The tip of the cheapest, the middle and the dearest tenth: slow, normal, fast.
const PERCENTILES: [f64; 3] = [10.0, 50.0, 90.0];
/// What is offered where nobody has paid anything and no node has an opinion: one gwei.
const TIP_UNKNOWN: u128 = 1_000_000_000;
/// No pool takes less.
const TIP_MIN: u128 = 1;
/// What a speed pays of a single price, in percent.
const SCALE: [u128; 3] = [100, 110, 125];
/// For how long an old quote stands in where no new one can be had.
const STALE_MAX: Duration = Duration::from_secs(60);
/// How long a new quote is waited for where an old one can stand in: everybody who signs waits.
const STAND_IN_PATIENCE: Duration = Duration::from_secs(2);
/// A failure that took so long is not repeated for each caller …
const FAILURE_IS_SLOW: Duration = Duration::from_millis(500);
/// … but believed for this long.
const FAILURE_BELIEVED: Duration = Duration::from_secs(5);

/// Quotes of the three speeds.
type Quotes = [FeeQuote; 3];
/// What was agreed on before, for the three speeds.
type RecentPrices = [Option<RecentPrice>; 3];

/// The last quotes. The lock is held while new ones are fetched, so that a thousand callers ask
/// once; for no longer than one read may take.
#[derive(Debug, Default)]
pub(super) struct FeeCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    last: Option<(Quotes, Instant)>,
    /// Why nothing came of the last try, if that took long.
    failed: Option<(ChainUnavailable, Instant)>,
    /// What the next quote of each speed is compared with.
    reference: [Option<Reference>; 3],
}

/// A price to compare with, since a time.
#[derive(Clone, Copy, Debug)]
struct Reference {
    price: GasPrice,
    confirmed: bool,
    since: Instant,
}

/// Quotes that were settled on, and which of them more than one endpoint confirms.
#[derive(Clone, Copy, Debug)]
struct Settled {
    quotes: Quotes,
    confirmed: [bool; 3],
}

impl Known {
    fn younger_than(&self, limit: Duration) -> Option<Quotes> {
        self.last.filter(|(_, at)| at.elapsed() < limit).map(|(quotes, _)| quotes)
    }

    fn recent_prices(&self) -> RecentPrices {
        let recent = |Reference { price, confirmed, since }: Reference| RecentPrice {
            price,
            age: since.elapsed(),
            confirmed,
        };
        self.reference.map(|reference| reference.map(recent))
    }

    fn keep(&mut self, Settled { quotes, confirmed }: Settled) {
        let now = Instant::now();
        for (place, before) in self.recent_prices().into_iter().enumerate() {
            let (price, confirmed) = (quotes[place].max_fee, confirmed[place]);
            let first = RecentPrice { price, age: Duration::ZERO, confirmed };
            let next = before.map_or(first, |recent| recent.followed_by(price, confirmed));
            if Some(next) != before {
                let RecentPrice { price, confirmed, .. } = next;
                self.reference[place] = Some(Reference { price, confirmed, since: now });
            }
        }
        (self.last, self.failed) = (Some((quotes, now)), None);
    }

    fn recent_failure(&self) -> Option<ChainUnavailable> {
        let failed = self.failed.as_ref().filter(|(_, at)| at.elapsed() < FAILURE_BELIEVED);
        failed.map(|(why, _)| why.clone())
    }
}

/// A quote that is new enough.
pub(super) async fn quote(
    router: &Router,
    cache: &FeeCache,
    speed: Speed,
) -> Result<FeeQuote, ChainUnavailable> {
    let mut known = cache.known.lock().await;
    if let Some(quotes) = known.younger_than(router.config.fee_cache) {
        return Ok(quotes[speed as usize]);
    }
    let stand_in = known.younger_than(STALE_MAX);
    let missing = |error| stand_in.map(|quotes| quotes[speed as usize]).ok_or(error);
    if let Some(error) = known.recent_failure() {
        return missing(error);
    }
    let patience = if stand_in.is_some() { STAND_IN_PATIENCE } else { Duration::MAX };
    let begun = Instant::now();
    let asked = fetch(router, known.recent_prices());
    let error = match timeout(patience.min(router.config.read_deadline), asked).await {
        Ok(Ok(settled)) => {
            known.keep(settled);
            return Ok(settled.quotes[speed as usize]);
        }
        Ok(Err(error)) => error,
        Err(_) => ChainUnavailable("no quote of fees in time".to_owned()),
    };
    if begun.elapsed() > FAILURE_IS_SLOW {
        known.failed = Some((error.clone(), Instant::now()));
    }
    missing(error)
}

/// Asks several endpoints at once and settles on one of their answers (I16). The rest are asked one
/// by one if none of the first can answer.
async fn fetch(router: &Router, recent: RecentPrices) -> Result<Settled, ChainUnavailable> {
    let now = Instant::now();
    // A chain with one endpoint has no second opinion to wait for: only the caps bound its word.
    let is_alone = router.readers_configured() < 2;
    let recent = recent.map(|recent| recent.filter(|_| !is_alone));
    let readers = router.readers(Needs::Head, now);
    let deadline = router.deadline_of(&readers);
    let voters = router.voters(Needs::Head, VOICES_MAX, now);
    let others = readers.into_iter().skip(voters.len()).map(|member| vec![member]);
    let mut refusals = Vec::new();
    for round in std::iter::once(voters).chain(others) {
        let voices = voices(round, deadline, &mut refusals).await;
        if let Some(settled) = settle(&voices, recent, agreed_base_fee(router)) {
            return Ok(settled);
        }
    }
    Err(unavailable("fee quote", &refusals))
}

/// The base fee of the newest head of which two endpoints say the same. No price below it is mined,
/// whoever says so.
fn agreed_base_fee(router: &Router) -> Option<u128> {
    let readers = router.members.iter().filter(|member| member.reads() && member.is_good());
    let heads = readers.filter(|member| !member.is_doubted()).filter_map(|member| member.head());
    let told: Vec<_> = heads.filter_map(|head| Some((head.at, head.base_fee?))).collect();
    let by_two = |one: &&(BlockRef, u128)| told.iter().filter(|other| *other == *one).count() >= 2;
    told.iter().filter(by_two).max_by_key(|(at, _)| at.number).map(|(_, fee)| *fee)
}

/// One endpoint's name and its quotes.
type Voice = (String, Quotes);

/// What these endpoints say. After the first answer the others have a moment, no more: everybody
/// who signs waits for this.
async fn voices(
    members: Vec<Arc<Member>>,
    deadline: Instant,
    refusals: &mut Vec<String>,
) -> Vec<Voice> {
    let ask = |member: Arc<Member>| async move {
        let said = timeout_at(deadline, quotes_of(&member, deadline)).await;
        let said = said.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        (member.endpoint.name().to_owned(), said)
    };
    let mut asked: FuturesUnordered<_> = members.into_iter().map(ask).collect();
    let (mut voices, mut until) = (Vec::new(), deadline);
    while let Ok(Some((name, said))) = timeout_at(until, asked.next()).await {
        match said {
            Ok(quotes) => {
                voices.push((name, quotes));
                until = until.min(Instant::now() + FURTHER_VOICES_PATIENCE);
            }
            Err(why) => refusals.push(format!("{name}: {why}")),
        }
    }
    voices
}

/// The quotes to go by. Each speed is agreed on by itself: an endpoint whose normal price is the one to
/// go by does not decide what the fast ones pay (I16).
fn settle(voices: &[Voice], recent: RecentPrices, base: Option<u128>) -> Option<Settled> {
    let one = |speed: Speed| settle_one(voices, speed, recent[speed as usize]);
    let (slow, normal, fast) = (one(Speed::Slow)?, one(Speed::Normal)?, one(Speed::Fast)?);
    let confirmed = [slow.1, normal.1, fast.1];
    // What is offered leaves room for the base fee to double, as in any quote.
    let least = base.and_then(|base| price(base.saturating_mul(2)).ok());
    let raised = |(quote, _): (FeeQuote, bool)| match least {
        Some(least) if quote.base_fee.is_some() => quote.raised_to(least),
        Some(_) | None => quote,
    };
    let (slow, normal, fast) = (raised(slow), raised(normal), raised(fast));
    // Faster is never cheaper, whoever said what.
    let normal = if normal.max_fee < slow.max_fee { slow } else { normal };
    let fast = if fast.max_fee < normal.max_fee { normal } else { fast };
    Some(Settled { quotes: [slow, normal, fast], confirmed })
}

/// The quote of one speed to go by, and whether more than one endpoint confirms it.
fn settle_one(
    voices: &[Voice],
    speed: Speed,
    recent: Option<RecentPrice>,
) -> Option<(FeeQuote, bool)> {
    let quotes = || voices.iter().map(|(name, quotes)| (name, quotes[speed as usize]));
    let prices: Vec<_> = quotes().map(|(_, quote)| quote.max_fee).collect();
    let Agreement { voice, within, confirmed, disputed } = agree(&prices, recent)?;
    if disputed {
        let said = quotes().map(|(name, quote)| format!("{name}: {} wei", quote.max_fee));
        let said = said.collect::<Vec<_>>().join(", ");
        tracing::warn!(said, ?speed, "endpoints disagree about fees");
    }
    let (name, quote) = quotes().nth(voice)?;
    let bounded = within.map_or(quote, |(least, most)| quote.limited_to(most).raised_to(least));
    if bounded.max_fee != quote.max_fee {
        let (quoted, used) = (quote.max_fee.wei(), bounded.max_fee.wei());
        let why = "a single endpoint's fee is far from what two agreed on";
        tracing::warn!(endpoint = name, quoted, used, why, "fee quote bounded");
    }
    Some((bounded, confirmed))
}

/// What one endpoint would have a transaction pay.
async fn quotes_of(member: &Member, deadline: Instant) -> Result<Quotes, String> {
    let head = member.head().filter(|head| head.has_base_fee.is_some());
    let head = head.ok_or("has not told its head yet")?;
    if head.has_base_fee == Some(false) {
        return legacy(gas_price(member, deadline).await.map_err(|error| error.to_string())?);
    }
    let (base, tips) = match history(member, deadline).await {
        Some((base, Some(tips))) => (base, tips),
        // Blocks without a transaction tell the base fee, but no tip.
        Some((base, None)) => (base, scaled(tip(member, base, deadline).await?)),
        // A block changes the base fee by an eighth at most, and twice of it is offered anyway.
        None => {
            let base = head.base_fee.unwrap_or_default();
            (base, scaled(tip(member, base, deadline).await?))
        }
    };
    dynamic(base, tips)
}

/// The next base fee and the tips that were paid lately, where the endpoint has the method.
async fn history(member: &Member, deadline: Instant) -> Option<(u128, Option<[u128; 3]>)> {
    let params = json!([format!("{BLOCKS:#x}"), "latest", PERCENTILES]);
    let history: FeeHistoryWire =
        call(member, Ability::FeeHistory, "eth_feeHistory", params, deadline).await?;
    Some((history.base_fee_per_gas.last()?.0, tips(&history)))
}

/// Calls a method that not every node has. A node that says so is not asked for it again for a
/// while.
async fn call<T: DeserializeOwned>(
    member: &Member,
    ability: Ability,
    method: &'static str,
    params: Value,
    deadline: Instant,
) -> Option<T> {
    let (abilities, now) = (member.endpoint.abilities(), Instant::now());
    if !abilities.may_have(ability, now) {
        return None;
    }
    match member.endpoint.call_until(method, params, deadline).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            if error.is_method_missing() {
                abilities.lacks(ability, now);
            }
            None
        }
    }
}

async fn gas_price(member: &Member, deadline: Instant) -> Result<u128, RpcError> {
    let price = member.endpoint.call_until("eth_gasPrice", json!([]), deadline).await;
    price.map(|Quantity::<u128>(price)| price)
}

/// A tip where no history tells one. An endpoint that can't be asked has none: what it said of its
/// head may be long ago.
async fn tip(member: &Member, base: u128, deadline: Instant) -> Result<u128, String> {
    let method = "eth_maxPriorityFeePerGas";
    if let Some(Quantity::<u128>(tip)) =
        call(member, Ability::PriorityFee, method, json!([]), deadline).await
    {
        return Ok(tip);
    }
    match gas_price(member, deadline).await {
        Ok(price) if price > base => Ok(price - base),
        Ok(_) => Ok(TIP_UNKNOWN),
        Err(error) if error.is_method_missing() => Ok(TIP_UNKNOWN),
        Err(error) => Err(error.to_string()),
    }
}

/// The middle of what was paid at each percentile, over the blocks that held anything.
fn tips(history: &FeeHistoryWire) -> Option<[u128; 3]> {
    let rewards = history.reward.as_ref()?;
    let full: Vec<_> = rewards
        .iter()
        .zip(history.gas_used_ratio.iter().chain(std::iter::repeat(&1.0)))
        .filter(|(row, ratio)| **ratio > 0.0 && row.len() == PERCENTILES.len())
        .map(|(row, _)| row)
        .collect();
    if full.is_empty() {
        return None;
    }
    let mut least = TIP_MIN;
    Some(std::array::from_fn(|place| {
        let mut column: Vec<_> = full.iter().map(|row| row[place].0).collect();
        column.sort_unstable();
        // Faster is never cheaper, whatever the nodes say.
        least = column[column.len() / 2].max(least);
        least
    }))
}

fn scaled(price: u128) -> [u128; 3] {
    SCALE.map(|percent| (price.saturating_mul(percent) / 100).max(TIP_MIN))
}

/// A quote, or what is wrong with what the node said.
type Quoted = Result<FeeQuote, String>;

fn price(wei: u128) -> Result<GasPrice, String> {
    GasPrice::from_wei(wei).map_err(|error| error.to_string())
}

/// Twice the base fee leaves room for six full blocks in a row.
fn dynamic(base: u128, tips: [u128; 3]) -> Result<Quotes, String> {
    let [slow, normal, fast] = tips.map(|tip| -> Quoted {
        Ok(FeeQuote {
            base_fee: Some(price(base)?),
            max_fee: price(base.saturating_mul(2).saturating_add(tip))?,
            max_priority_fee: Some(price(tip)?),
        })
    });
    Ok([slow?, normal?, fast?])
}

fn legacy(gas_price: u128) -> Result<Quotes, String> {
    let [slow, normal, fast] = scaled(gas_price).map(|wei| -> Quoted {
        Ok(FeeQuote { base_fee: None, max_fee: price(wei)?, max_priority_fee: None })
    });
    Ok([slow?, normal?, fast?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(rewards: &[[u128; 3]], ratios: &[f64]) -> FeeHistoryWire {
        let reward = rewards.iter().map(|row| row.iter().map(|tip| Quantity(*tip)).collect());
        FeeHistoryWire {
            base_fee_per_gas: vec![Quantity(7)],
            gas_used_ratio: ratios.to_vec(),
            reward: Some(reward.collect()),
        }
    }

    #[test]
    fn the_middle_block_decides_and_empty_ones_do_not_count() {
        let rows = [[1, 2, 3], [10, 20, 30], [5, 6, 7], [0, 0, 0]];
        assert_eq!(tips(&history(&rows, &[0.5, 1.0, 0.1, 0.0])), Some([5, 6, 7]));
        assert_eq!(tips(&history(&[[0, 0, 0]], &[0.0])), None);
        assert_eq!(tips(&history(&[[9, 4, 6]], &[0.5])), Some([9, 9, 9]), "faster is not cheaper");
        assert_eq!(tips(&history(&[[0, 0, 6]], &[0.5])), Some([1, 1, 6]), "nothing is too little");
    }

    #[test]
    fn a_quote_leaves_room_for_the_base_fee_to_double() {
        let [slow, _, fast] = dynamic(100, [1, 2, 3]).unwrap();
        assert_eq!((slow.max_fee.wei(), fast.max_fee.wei()), (201, 203));
        assert!(dynamic(u128::MAX, [1, 2, 3]).is_err());
        let [slow, normal, fast] = legacy(1_000).unwrap();
        assert_eq!(slow.max_priority_fee, None);
        assert_eq!([slow, normal, fast].map(|quote| quote.max_fee.wei()), [1_000, 1_100, 1_250]);
    }
}
