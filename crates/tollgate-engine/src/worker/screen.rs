//! Refuses creates that the chain would certainly refuse, before a nonce is chosen.
//!
//! The rules are the model's ([`tollgate_model::refusal`]). The balance is read now and then, and what
//! is taken in between is counted against it, so that a busy account asks for it once in
//! [`BELIEVED`]. Where the chain can't be asked, nothing is refused for what is not known.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_model::fees::first_offer;
use tollgate_model::port::Fees;
use tollgate_model::port::chain::{FeeQuote, Speed};
use tollgate_model::refusal::{
    Demand, Refusal, available, judge_funds, judge_gas, judge_price, open_cost,
};
use tollgate_model::{Intent, U256, Wei};

use super::{Create, Desk};
use crate::create::CreateError;

/// For how long a balance is believed as long as it suffices.
const BELIEVED: Duration = Duration::from_secs(10);
/// A balance that does not suffice is read anew, unless it is younger than this.
const TOO_LITTLE_BELIEVED: Duration = Duration::from_millis(500);
/// How long callers wait for an answer of the chain here (I14).
const PATIENCE: Duration = Duration::from_secs(1);
/// For how long a chain that did not answer here is not asked again.
const SILENCE_BELIEVED: Duration = Duration::from_secs(5);

/// What is left of the submitter's balance once everything open is paid.
#[derive(Default)]
pub(super) struct FundsLedger {
    left: Option<(Wei, Instant)>,
    silent_since: Option<Instant>,
}

impl FundsLedger {
    /// Counts a cost against what is left, if that is known, believed and suffices.
    fn take(&mut self, cost: U256) -> bool {
        match &mut self.left {
            Some((left, read_at)) if cost <= left.0 && read_at.elapsed() < BELIEVED => {
                left.0 -= cost;
                true
            }
            Some(_) | None => false,
        }
    }

    fn just_read(&self) -> Option<Wei> {
        let read = self.left.filter(|(_, read_at)| read_at.elapsed() < TOO_LITTLE_BELIEVED);
        read.map(|(left, _)| left)
    }

    fn is_silent(&self) -> bool {
        self.silent_since.is_some_and(|since| since.elapsed() < SILENCE_BELIEVED)
    }
}

/// The market as it was when a batch of creates came in: one quote for each speed.
#[derive(Default)]
struct Quotes([Option<FeeQuote>; 3]);

impl Desk {
    /// Refuses what the chain would certainly refuse. The rest is given back, in order.
    pub(super) async fn screen(&mut self, creates: Vec<Create>) -> Vec<Create> {
        let mut quotes = Quotes::default();
        let mut taken = Vec::with_capacity(creates.len());
        for create in creates {
            match self.judge_create(&create, &mut quotes).await {
                Ok(()) => taken.push(create),
                Err(why) => {
                    let _ = create.reply.send(Err(CreateError::Refused(why)));
                }
            }
        }
        taken
    }

    async fn judge_create(&mut self, create: &Create, quotes: &mut Quotes) -> Result<(), Refusal> {
        // What can't be read is refused where it is to be signed.
        let Ok(intent) = Intent::from_payload(create.payload.bytes()) else { return Ok(()) };
        let Some(gas_limit) = intent.gas else { return Ok(()) };
        let quote = self.quote(intent.speed, quotes).await;
        let caps = &self.context.options.fee_caps;
        let fees = match (&create.signed, quote) {
            (Some((_, attempt)), _) => Some(attempt.fees),
            (None, Some(quote)) => Some(first_offer(&intent, &quote, gas_limit, caps).0),
            (None, None) => None,
        };
        let max_fee = Default::default();
        let unpriced = Fees { gas_limit, max_fee, max_priority_fee: None };
        let demand = Demand::of(&intent, fees.unwrap_or(unpriced));
        judge_gas(&demand, &self.context.chain.limits())?;
        if fees.is_none() {
            return Ok(());
        }
        judge_price(&demand, quote.and_then(|quote| quote.base_fee), caps)?;
        self.judge_cost(demand.cost(), quotes).await
    }

    /// Whether the account can pay beside what is open, by a balance that is new enough.
    async fn judge_cost(&mut self, cost: U256, quotes: &mut Quotes) -> Result<(), Refusal> {
        if self.funds.take(cost) {
            return Ok(());
        }
        if let Some(left) = self.funds.just_read() {
            return judge_funds(cost, left);
        }
        let Some(left) = self.read_funds(quotes).await else { return Ok(()) };
        self.funds.left = Some((left, Instant::now()));
        judge_funds(cost, left)?;
        self.funds.take(cost);
        Ok(())
    }

    /// What is left once everything open is paid; `None` if the chain can't be asked.
    async fn read_funds(&mut self, quotes: &mut Quotes) -> Option<Wei> {
        let context = self.context.clone();
        let funds = self.heard(context.chain.funds(self.submitter.address)).await?;
        let unmined = self.book.iter().filter(|open| open.mined.is_none());
        let open: Vec<_> = unmined
            .map(|open| {
                let value = open.intent().map_or(U256::ZERO, |intent| intent.value);
                let forms = open.attempts.iter().map(|form| (form.kind, form.fees));
                (open.nonce, open_cost(value, forms))
            })
            .collect();
        let intents = self
            .book
            .queued
            .iter()
            .filter_map(|waiting| Intent::from_payload(&waiting.payload).ok());
        let mut waiting = U256::ZERO;
        for intent in intents.collect::<Vec<_>>() {
            let Some(gas_limit) = intent.gas else { continue };
            let quote = self.quote(intent.speed, quotes).await?;
            let fees = first_offer(&intent, &quote, gas_limit, &context.options.fee_caps).0;
            waiting = waiting.saturating_add(Demand::of(&intent, fees).cost());
        }
        available(&funds, &open, waiting)
    }

    async fn quote(&mut self, speed: Speed, quotes: &mut Quotes) -> Option<FeeQuote> {
        let known = &mut quotes.0[speed as usize];
        if known.is_none() {
            let context = self.context.clone();
            *known = self.heard(context.chain.fee_quote(speed)).await;
        }
        *known
    }

    /// An answer of the chain, if it comes soon. One that did not is not waited for again for a while.
    async fn heard<T, E>(&mut self, asked: impl Future<Output = Result<T, E>>) -> Option<T> {
        if self.funds.is_silent() {
            return None;
        }
        let answer = timeout(PATIENCE, asked).await.ok().and_then(Result::ok);
        self.funds.silent_since = answer.is_none().then(Instant::now);
        answer
    }
}
