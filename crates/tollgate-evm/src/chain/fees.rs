//! The fees that a transaction has to offer now, agreed between several endpoints.
//!
//! Owns the last quotes for a short time, and since when only one endpoint has named a price. Applies no
//! caps: the engine does.

pub(in crate::chain) mod endpoint_quotes;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_model::fee_agreement::{Agreement, RecentPrice, SECOND_PRICE_PATIENCE, agree};
use tollgate_model::port::chain::{ChainUnavailable, FeeQuote, Speed};
use tollgate_model::{B256, GasPrice};

use self::endpoint_quotes::{price, quotes_of};
use super::corroboration::SingleSource;
use super::disagreements::{Basis, Claim, Subject};
use super::pool_member::{PoolMember, RecentHead};
use super::router::{Needs, Router, unavailable};
use super::votes::{further_patience, gather};

/// Endpoints that are asked for one quote: with three, a wrong one decides nothing (I16).
const VOTERS_MAX: usize = 3;
/// The least time that the others have after the first endpoint has answered.
const FURTHER_QUOTES_PATIENCE: Duration = Duration::from_millis(500);
/// The maximum age of a head whose base fee bounds prices: about two blocks, in which it can't fall by half.
const PROVEN_FEE_AGE_MAX: Duration = Duration::from_secs(30);
/// The time for which an old quote is used while there is no new one.
const STALE_MAX: Duration = Duration::from_secs(60);
/// The longest wait for a new quote while an old one can be used: every signature waits for it.
const STAND_IN_PATIENCE: Duration = Duration::from_secs(2);
/// A failure that took this long is not repeated for each caller,
const FAILURE_IS_SLOW: Duration = Duration::from_millis(500);
/// but returned to all callers for this long.
const FAILURE_BELIEVED: Duration = Duration::from_secs(5);
/// The error while a second price is waited for.
const AWAITS_SECOND: &str = "fee quote: only one endpoint names a price, and there is no earlier \
                             agreement to compare it with; a second one is waited for";

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
    /// The reason why the last try failed, if it took long.
    failed: Option<(ChainUnavailable, Instant)>,
    /// The price that the next quote of each speed is compared with.
    reference: [Option<Reference>; 3],
    /// Since when there is no price but that of one endpoint, and nothing that bounds it.
    single: SingleSource,
}

/// A price to compare with, and since when.
#[derive(Clone, Copy, Debug)]
struct Reference {
    price: GasPrice,
    confirmed: bool,
    since: Instant,
}

/// The agreed quotes.
#[derive(Clone, Copy, Debug)]
struct Settled {
    quotes: Quotes,
    /// True for those that more than one endpoint confirms.
    confirmed: [bool; 3],
    /// One of them is the only one, and nothing bounds it.
    is_lone: bool,
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

    fn keep(&mut self, Settled { quotes, confirmed, .. }: Settled) {
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
        Ok(Ok(settled)) if is_enough(router, &mut known.single, settled) => {
            known.keep(settled);
            return Ok(settled.quotes[speed as usize]);
        }
        Ok(Ok(_)) => ChainUnavailable(AWAITS_SECOND.to_owned()),
        Ok(Err(error)) => error,
        Err(_) => ChainUnavailable("no quote of fees in time".to_owned()),
    };
    if begun.elapsed() > FAILURE_IS_SLOW {
        known.failed = Some((error.clone(), Instant::now()));
    }
    missing(error)
}

/// Returns whether the quotes can be used: a price that only one of several endpoints names, and nothing
/// bounds, waits for a second one for a while (I15, I16).
fn is_enough(router: &Router, single: &mut SingleSource, settled: Settled) -> bool {
    let (voices, readers) = (if settled.is_lone { 1 } else { 2 }, router.readers_configured());
    let patience = router.config.single_source_after.min(SECOND_PRICE_PATIENCE);
    single.is_enough(voices, readers, Instant::now(), patience)
}

/// Asks several endpoints at once and agrees on one of their quotes (I16). The others are asked one by
/// one if none of the first can answer, and together if one answers alone and nothing bounds its price:
/// one that lags has no vote, but can confirm a price.
async fn fetch(router: &Router, recent: RecentPrices) -> Result<Settled, ChainUnavailable> {
    let now = Instant::now();
    // A chain with one endpoint has no second quote to compare with: only the caps bound its price.
    let is_alone = router.readers_configured() < 2;
    let recent = recent.map(|recent| recent.filter(|_| !is_alone));
    let readers = router.readers(Needs::Head, now);
    let deadline = router.read_deadline_for(&readers);
    let voters = router.voters(Needs::Head, VOTERS_MAX, now);
    let others: Vec<_> = readers.into_iter().skip(voters.len()).collect();
    let mut refusals = Vec::new();
    let mut quotes = read_quotes(voters, deadline, &mut refusals).await;
    if quotes.len() == 1 && !is_alone && recent.contains(&None) {
        let is_awake = |member: &&Arc<PoolMember>| !member.endpoint.health().is_resting(now);
        let awake = others.iter().filter(is_awake).cloned().collect();
        let soon = deadline.min(Instant::now() + FURTHER_QUOTES_PATIENCE);
        quotes.extend(read_quotes(awake, soon, &mut refusals).await);
    }
    for member in others {
        if quotes.is_empty() {
            quotes = read_quotes(vec![member], deadline, &mut refusals).await;
        }
    }
    settle(router, &quotes, recent).ok_or_else(|| unavailable("fee quote", &refusals))
}

/// A base fee that the heads of two endpoints reach, or that a block has which two endpoints reported: its hash
/// covers the base fee, so that an endpoint that names another one can't hide it. No price below it is mined.
/// The heads need not be the same block: from one block to the next the base fee changes by an eighth at
/// most, and twice the base fee is offered.
fn agreed_base_fee(router: &Router) -> Option<u128> {
    let readers = router.members.iter().filter(|member| member.reads() && member.is_on_chain());
    let is_new = |member: &&Arc<PoolMember>| {
        let head = member.head().filter(|head| head.when.elapsed() < STALE_MAX);
        head.is_some() && !member.is_doubted()
    };
    let members: Vec<_> = readers.filter(is_new).collect();
    let heads = members.iter().filter_map(|member| member.head());
    let mut fees: Vec<_> = heads.filter_map(|head| head.base_fee).collect();
    fees.sort_unstable_by_key(|fee| std::cmp::Reverse(*fee));
    let recent: Vec<_> = members.iter().map(|member| member.recent_heads()).collect();
    fees.get(1).copied().max(proven_base_fee(&recent))
}

/// The base fee of the newest block that two endpoints reported and one of them has proven.
fn proven_base_fee(recent: &[Vec<RecentHead>]) -> Option<u128> {
    let is_shared = |place: usize, hash: B256| {
        let others = recent.iter().enumerate().filter(|(other, _)| *other != place);
        others.flat_map(|(_, heads)| heads).any(|head| head.hash == hash)
    };
    let newest = recent.iter().enumerate().filter_map(|(place, heads)| {
        let new = heads.iter().rev().filter(|head| head.when.elapsed() < PROVEN_FEE_AGE_MAX);
        let mut shared = new.filter(|head| is_shared(place, head.hash));
        shared.find_map(|head| head.proven_base_fee)
    });
    newest.max()
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
    let patience = further_patience(&members, FURTHER_QUOTES_PATIENCE);
    let asked = members.iter().map(async |member| {
        let told = timeout_at(deadline, quotes_of(member, deadline)).await;
        let told = told.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let name = member.endpoint.name();
        told.map(|quotes| (name.to_owned(), quotes)).map_err(|why| format!("{name}: {why}"))
    });
    let (quotes, errors) = gather(asked, deadline, patience).await;
    refusals.extend(errors);
    quotes
}

/// Agrees on the quotes. Each speed is agreed on by itself: an endpoint whose normal price is chosen does
/// not decide the fast one (I16).
fn settle(router: &Router, all: &[EndpointQuotes], recent: RecentPrices) -> Option<Settled> {
    let one = |speed: Speed| settle_one(router, all, speed, recent[speed as usize]);
    let each = [one(Speed::Slow)?, one(Speed::Normal)?, one(Speed::Fast)?];
    let (confirmed, is_lone) =
        (each.map(|(_, how)| how.confirmed), each.iter().any(|(_, how)| how.lone));
    let least = agreed_base_fee(router).and_then(|base| price(base).ok());
    let [slow, normal, fast] =
        each.map(|(quote, _)| least.map_or(quote, |least| quote.with_base_fee_of(least)));
    // Faster is never cheaper.
    let normal = if normal.max_fee < slow.max_fee { slow } else { normal };
    let fast = if fast.max_fee < normal.max_fee { normal } else { fast };
    Some(Settled { quotes: [slow, normal, fast], confirmed, is_lone })
}

/// The agreed quote of one speed, and how it came about.
fn settle_one(
    router: &Router,
    all: &[EndpointQuotes],
    speed: Speed,
    recent: Option<RecentPrice>,
) -> Option<(FeeQuote, Agreement)> {
    let quotes = || all.iter().map(|(name, quotes)| (name, quotes[speed as usize]));
    let prices: Vec<_> = quotes().map(|(_, quote)| quote.max_fee).collect();
    let agreement = agree(&prices, recent)?;
    let (_, quote) = quotes().nth(agreement.voice)?;
    let within = agreement.within;
    let bounded = within.map_or(quote, |(least, most)| quote.limited_to(most).raised_to(least));
    // Without a dispute the prices differ as prices do.
    let is_contradicted = agreement.disputed || bounded.max_fee != quote.max_fee;
    let is_unconfirmed = agreement.lone && router.readers_configured() > 1;
    let claims = quotes().filter(|_| is_contradicted || is_unconfirmed);
    let claims: Vec<_> = claims.map(|(name, quote)| Claim::new(name, quote.max_fee)).collect();
    let subject = Subject { what: "max fee per gas", of: "" };
    // Prices of honest endpoints differ, so three of them are judged by the middle one.
    let basis = if claims.len() < 3 { Basis::Votes } else { Basis::Evidence };
    // At once: it is about money.
    if agreement.undecided || is_unconfirmed {
        router.disagreements.note_undecided(subject, bounded.max_fee, &claims);
    } else {
        router.disagreements.note(subject, bounded.max_fee, &claims, (basis, Duration::ZERO));
    }
    Some((bounded, agreement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_fee_of_a_block_that_two_endpoints_reported_counts_if_one_has_proven_it() {
        let when = Instant::now();
        let head = |n: u8, proven_base_fee| {
            let hash = B256::repeat_byte(n);
            RecentHead { hash, proven_base_fee, when }
        };
        let honest = vec![head(1, Some(100)), head(2, Some(110)), head(3, Some(120))];
        let lies = vec![head(1, None), head(2, None)];
        assert_eq!(proven_base_fee(&[honest.clone(), lies]), Some(110), "of the newest shared");
        let elsewhere = vec![head(9, Some(1_000_000))];
        assert_eq!(proven_base_fee(&[honest, elsewhere]), None, "I16: one endpoint's own blocks");
    }
}
