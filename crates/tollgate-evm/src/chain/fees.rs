//! The fees that a transaction has to offer now, agreed between several endpoints.
//!
//! Owns the last quotes for a short time. Applies no caps: the engine does.

mod endpoint_quotes;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_model::GasPrice;
use tollgate_model::fee_agreement::{Agreement, RecentPrice, agree};
use tollgate_model::port::chain::{BlockRef, ChainUnavailable, FeeQuote, Speed};

use self::endpoint_quotes::{price, quotes_of};
use super::disagreements::{Basis, Claim, Subject};
use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};

/// Endpoints that are asked for one quote: with three, a wrong one decides nothing (I16).
const VOTERS_MAX: usize = 3;
/// How long the others have after the first endpoint has answered.
const FURTHER_QUOTES_PATIENCE: Duration = Duration::from_millis(500);
/// How long an old quote is used while there is no new one.
const STALE_MAX: Duration = Duration::from_secs(60);
/// How long a new quote is waited for while an old one can be used: every signature waits for it.
const STAND_IN_PATIENCE: Duration = Duration::from_secs(2);
/// A failure that took this long is not repeated for each caller,
const FAILURE_IS_SLOW: Duration = Duration::from_millis(500);
/// but returned to all callers for this long.
const FAILURE_BELIEVED: Duration = Duration::from_secs(5);

/// Quotes of the three speeds.
type Quotes = [FeeQuote; 3];
/// The prices that were agreed on before, for the three speeds.
type RecentPrices = [Option<RecentPrice>; 3];

/// The last quotes. The lock is held while new ones are fetched, so that many callers cause one read; a
/// read has a deadline.
#[derive(Debug, Default)]
pub(super) struct FeeCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    last: Option<(Quotes, Instant)>,
    /// Why the last try failed, if it took long.
    failed: Option<(ChainUnavailable, Instant)>,
    /// The price that the next quote of each speed is compared with.
    reference: [Option<Reference>; 3],
}

/// A price to compare with, and since when.
#[derive(Clone, Copy, Debug)]
struct Reference {
    price: GasPrice,
    confirmed: bool,
    since: Instant,
}

/// The agreed quotes, and which of them more than one endpoint confirms.
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

/// A quote that is at most `fee_cache` old, or a new one.
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

/// Asks several endpoints at once and agrees on one of their quotes (I16). The others are asked one by
/// one if none of the first can answer.
async fn fetch(router: &Router, recent: RecentPrices) -> Result<Settled, ChainUnavailable> {
    let now = Instant::now();
    // A chain with one endpoint has no second quote to compare with: only the caps bound its price.
    let is_alone = router.readers_configured() < 2;
    let recent = recent.map(|recent| recent.filter(|_| !is_alone));
    let readers = router.readers(Needs::Head, now);
    let deadline = router.read_deadline_for(&readers);
    let voters = router.voters(Needs::Head, VOTERS_MAX, now);
    let others = readers.into_iter().skip(voters.len()).map(|member| vec![member]);
    let mut refusals = Vec::new();
    for round in std::iter::once(voters).chain(others) {
        let quotes = read_quotes(round, deadline, &mut refusals).await;
        if let Some(settled) = settle(router, &quotes, recent) {
            return Ok(settled);
        }
    }
    Err(unavailable("fee quote", &refusals))
}

/// The base fee of the newest head that two endpoints report alike. No price below it is mined.
fn agreed_base_fee(router: &Router) -> Option<u128> {
    let readers = router.members.iter().filter(|member| member.reads() && member.is_on_chain());
    let heads = readers.filter(|member| !member.is_doubted()).filter_map(|member| member.head());
    let fees: Vec<_> = heads.filter_map(|head| Some((head.at, head.base_fee?))).collect();
    let by_two = |one: &&(BlockRef, u128)| fees.iter().filter(|other| *other == *one).count() >= 2;
    fees.iter().filter(by_two).max_by_key(|(at, _)| at.number).map(|(_, fee)| *fee)
}

/// One endpoint's name and its quotes.
type EndpointQuotes = (String, Quotes);

/// The quotes of these endpoints. After the first answer the others have a short time, because every
/// signature waits for this.
async fn read_quotes(
    members: Vec<Arc<PoolMember>>,
    deadline: Instant,
    refusals: &mut Vec<String>,
) -> Vec<EndpointQuotes> {
    let ask = |member: Arc<PoolMember>| async move {
        let said = timeout_at(deadline, quotes_of(&member, deadline)).await;
        let said = said.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        (member.endpoint.name().to_owned(), said)
    };
    let mut asked: FuturesUnordered<_> = members.into_iter().map(ask).collect();
    let (mut quotes, mut until) = (Vec::new(), deadline);
    while let Ok(Some((name, said))) = timeout_at(until, asked.next()).await {
        match said {
            Ok(of_endpoint) => {
                quotes.push((name, of_endpoint));
                until = until.min(Instant::now() + FURTHER_QUOTES_PATIENCE);
            }
            Err(why) => refusals.push(format!("{name}: {why}")),
        }
    }
    quotes
}

/// Agrees on the quotes. Each speed is agreed on by itself: an endpoint whose normal price is chosen does
/// not decide the fast one (I16).
fn settle(router: &Router, all: &[EndpointQuotes], recent: RecentPrices) -> Option<Settled> {
    let one = |speed: Speed| settle_one(router, all, speed, recent[speed as usize]);
    let (slow, normal, fast) = (one(Speed::Slow)?, one(Speed::Normal)?, one(Speed::Fast)?);
    let confirmed = [slow.1, normal.1, fast.1];
    // The offer leaves room for the base fee to double, as in any quote.
    let least = agreed_base_fee(router).and_then(|base| price(base.saturating_mul(2)).ok());
    let raised = |(quote, _): (FeeQuote, bool)| match least {
        Some(least) if quote.base_fee.is_some() => quote.raised_to(least),
        Some(_) | None => quote,
    };
    let (slow, normal, fast) = (raised(slow), raised(normal), raised(fast));
    // Faster is never cheaper.
    let normal = if normal.max_fee < slow.max_fee { slow } else { normal };
    let fast = if fast.max_fee < normal.max_fee { normal } else { fast };
    Some(Settled { quotes: [slow, normal, fast], confirmed })
}

/// The agreed quote of one speed, and whether more than one endpoint confirms it.
fn settle_one(
    router: &Router,
    all: &[EndpointQuotes],
    speed: Speed,
    recent: Option<RecentPrice>,
) -> Option<(FeeQuote, bool)> {
    let quotes = || all.iter().map(|(name, quotes)| (name, quotes[speed as usize]));
    let prices: Vec<_> = quotes().map(|(_, quote)| quote.max_fee).collect();
    let Agreement { voice, within, confirmed, disputed } = agree(&prices, recent)?;
    let (_, quote) = quotes().nth(voice)?;
    let bounded = within.map_or(quote, |(least, most)| quote.limited_to(most).raised_to(least));
    // Without a dispute the prices differ as prices do.
    let is_contradicted = disputed || bounded.max_fee != quote.max_fee;
    let claims = quotes().filter(|_| is_contradicted);
    let claims: Vec<_> = claims.map(|(name, quote)| Claim::new(name, quote.max_fee)).collect();
    let subject = Subject { what: "max fee per gas", of: "" };
    // Prices of honest endpoints differ, so three of them are judged by the middle one.
    let basis = if claims.len() < 3 { Basis::Votes } else { Basis::Evidence };
    // At once: it is about money.
    router.disagreements.note(subject, bounded.max_fee, &claims, (basis, Duration::ZERO));
    Some((bounded, confirmed))
}
