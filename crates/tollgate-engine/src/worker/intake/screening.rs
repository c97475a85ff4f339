//! Refuses creates that the chain would certainly refuse, before a nonce is chosen. Owns the funds ledger.
//!
//! The rules are the model's ([`tollgate_model::refusal`]). A balance that suffices is read once in
//! [`BELIEVED`], and what is accepted in between is deducted from it. If the chain can't be asked,
//! nothing is refused for what is not known.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_model::fees::first_offer;
use tollgate_model::port::Fees;
use tollgate_model::port::chain::{FeeQuote, Speed};
use tollgate_model::refusal::{OpenCosts, PricedTx, Refusal, judge_funds, judge_gas, judge_price};
use tollgate_model::schedule::is_due;
use tollgate_model::{Nonce, Timestamp, TxId, U256, Wei};

use super::CreateJob;
use crate::create::CreateError;
use crate::worker::Session;
use crate::worker::in_flight::{InFlightTx, SentAttempt};

/// The lifetime of a cached balance that suffices.
const BELIEVED: Duration = Duration::from_secs(10);
/// The lifetime of a cached balance that does not suffice.
const TOO_LITTLE_BELIEVED: Duration = Duration::from_millis(500);
/// The time that callers wait for an answer of the chain here (I14).
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before a chain that did not answer here is asked again.
const SILENCE_BELIEVED: Duration = Duration::from_secs(5);

/// The rest of the submitter's balance once everything open is paid.
#[derive(Default)]
pub(in crate::worker) struct FundsLedger {
    /// By the last reading, less what was accepted since; with the time of the reading.
    left: Option<(Wei, Timestamp)>,
    silent_since: Option<Timestamp>,
    /// The costs of the creates that passed the running screening. They are not open yet, and may
    /// still be refused for another reason.
    passed: HashMap<TxId, U256>,
    passed_sum: U256,
}

impl FundsLedger {
    /// The rest, if the balance was read less than `age` ago.
    fn left(&self, age: Duration, now: Timestamp) -> Option<Wei> {
        let (left, _) = self.left.filter(|(_, read_at)| is_younger(*read_at, age, now))?;
        Some(left)
    }

    /// True if the rest pays for this one and for all that passed before it.
    fn pays_beside_passed(&self, cost: U256, left: Wei) -> bool {
        cost.checked_add(self.passed_sum).is_some_and(|sum| sum <= left.0)
    }

    fn begin(&mut self) {
        self.passed.clear();
        self.passed_sum = U256::ZERO;
    }

    fn pass(&mut self, tx_id: TxId, cost: U256) {
        self.passed.insert(tx_id, cost);
        self.passed_sum = self.passed_sum.saturating_add(cost);
    }

    /// Deducts the cost of a create that is durable now.
    pub(super) fn deduct(&mut self, tx_id: TxId) {
        let Some(cost) = self.passed.remove(&tx_id) else { return };
        self.passed_sum = self.passed_sum.saturating_sub(cost);
        if let Some((left, _)) = &mut self.left {
            left.0 = left.0.saturating_sub(cost);
        }
    }

    fn is_silent(&self, now: Timestamp) -> bool {
        self.silent_since.is_some_and(|since| is_younger(since, SILENCE_BELIEVED, now))
    }
}

/// False if the clock was set back.
fn is_younger(at: Timestamp, age: Duration, now: Timestamp) -> bool {
    at <= now && now.since(at) < age
}

/// The market as it was when a batch of creates came in: one quote for each speed.
#[derive(Default)]
pub(in crate::worker) struct Quotes([Option<FeeQuote>; 3]);

impl Quotes {
    pub(in crate::worker) fn of(&mut self, speed: Speed) -> &mut Option<FeeQuote> {
        &mut self.0[speed as usize]
    }
}

/// The creates of one batch that were not refused, in order.
#[derive(Default)]
pub(super) struct Screened {
    pub(super) passed: Vec<CreateJob>,
    /// The balance pays for each of them, but not beside those that passed. Whether they must be
    /// refused is certain only once those are durable, because some of those may still be refused.
    pub(super) undecided: Vec<CreateJob>,
}

enum FundsCheck {
    Pass,
    Undecided,
}

impl FundsLedger {
    /// Refuses what the chain would certainly refuse, and returns the rest.
    pub(super) async fn screen(&mut self, session: &Session, creates: Vec<CreateJob>) -> Screened {
        let mut quotes = Quotes::default();
        let mut screened = Screened::default();
        self.begin();
        for create in creates {
            match self.judge_create(session, &create, &mut quotes).await {
                Ok(FundsCheck::Pass) => screened.passed.push(create),
                Ok(FundsCheck::Undecided) => screened.undecided.push(create),
                Err(why) => {
                    let is_signed = create.signed.is_some();
                    let why = if is_signed { why.in_raw_tx() } else { why };
                    create.answer(Err(CreateError::Refused(why)));
                }
            }
        }
        screened
    }

    async fn judge_create(
        &mut self,
        session: &Session,
        create: &CreateJob,
        quotes: &mut Quotes,
    ) -> Result<FundsCheck, Refusal> {
        let intent = &create.intent;
        let Some(gas_limit) = intent.gas else { return Ok(FundsCheck::Pass) };
        let quote = self.quote(session, intent.speed, quotes).await;
        let caps = &session.fee_caps();
        let fees = match (&create.signed, quote) {
            (Some((_, attempt)), _) => Some(attempt.fees),
            (None, Some(quote)) => Some(first_offer(intent, &quote, gas_limit, caps).0),
            (None, None) => None,
        };
        let max_fee = Default::default();
        let unpriced = Fees { gas_limit, max_fee, max_priority_fee: None };
        let demand = PricedTx::of(intent, fees.unwrap_or(unpriced));
        judge_gas(&demand, &session.context.chain.limits(), &session.context.tx_limits())?;
        // What the chain charges and the account has when a scheduled one is due is not known now.
        if fees.is_none() || !is_due(intent, session.now()) {
            return Ok(FundsCheck::Pass);
        }
        judge_price(&demand, quote.and_then(|quote| quote.base_fee), caps)?;
        let verdict = self.judge_cost(session, &demand, quotes).await?;
        if matches!(verdict, FundsCheck::Pass) {
            self.pass(create.tx_id, demand.cost());
        }
        Ok(verdict)
    }

    /// Judges whether the account can pay beside what is open and what passed, by a balance that is new
    /// enough.
    async fn judge_cost(
        &mut self,
        session: &Session,
        demand: &PricedTx<'_>,
        quotes: &mut Quotes,
    ) -> Result<FundsCheck, Refusal> {
        let cost = demand.cost();
        let now = session.now();
        let believed = self.left(BELIEVED, now);
        if believed.is_some_and(|left| self.pays_beside_passed(cost, left)) {
            return Ok(FundsCheck::Pass);
        }
        let left = match self.left(TOO_LITTLE_BELIEVED, now) {
            Some(left) => left,
            None => {
                let Some(left) = self.read_funds(session, quotes).await else {
                    return Ok(FundsCheck::Pass);
                };
                self.left = Some((left, session.now()));
                left
            }
        };
        judge_funds(demand.value, &demand.fees, left)?;
        let pays = self.pays_beside_passed(cost, left);
        Ok(if pays { FundsCheck::Pass } else { FundsCheck::Undecided })
    }

    /// Reads the balance and subtracts everything open; `None` if the chain can't be asked.
    async fn read_funds(&mut self, session: &Session, quotes: &mut Quotes) -> Option<Wei> {
        let asked = session.context.chain.funds(session.submitter.address);
        let funds = self.answered(session, asked).await?;
        self.open_costs(session, quotes).await?.available(&funds)
    }

    /// Sums the costs of everything open; `None` if the chain can't be asked for a price.
    pub(in crate::worker) async fn open_costs(
        &mut self,
        session: &Session,
        quotes: &mut Quotes,
    ) -> Option<OpenCosts> {
        let mut costs = slot_costs(session, None);
        for queued in session.state.queue().due(session.now()) {
            let quote = self.quote(session, queued.intent.speed, quotes).await?;
            costs.add_queued(&queued.intent, &quote, &session.fee_caps());
        }
        Some(costs)
    }

    async fn quote(
        &mut self,
        session: &Session,
        speed: Speed,
        quotes: &mut Quotes,
    ) -> Option<FeeQuote> {
        let known = quotes.of(speed);
        if known.is_none() {
            *known = self.answered(session, session.context.chain.fee_quote(speed)).await;
        }
        *known
    }

    /// An answer of the chain, if it comes soon. One that did not is not waited for again for a while.
    async fn answered<T, E>(
        &mut self,
        session: &Session,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        if self.is_silent(session.now()) {
            return None;
        }
        let answer = timeout(PATIENCE, asked).await.ok().and_then(Result::ok);
        self.silent_since = answer.is_none().then(|| session.now());
        answer
    }
}

/// Sums the costs of all open slots but one.
fn slot_costs(session: &Session, but: Option<Nonce>) -> OpenCosts {
    let mut costs = OpenCosts::default();
    let counts = |tx: &&InFlightTx| Some(tx.nonce) != but;
    for tx in session.state.in_flight().unmined().filter(counts) {
        let cost = |attempt: &SentAttempt| {
            session.context.attempt_cost(session.submitter.chain_id, &attempt.signed)
        };
        costs.add_slot(tx.nonce, tx.intent.value, tx.attempts.iter().map(cost));
    }
    costs
}

/// Refuses another call in a transaction's slot that the account can't pay beside its other open slots. If
/// the chain can't be asked, nothing is refused.
pub(in crate::worker) async fn judge_replacement(
    session: &Session,
    nonce: Nonce,
    value: Wei,
    fees: &Fees,
) -> Result<(), Refusal> {
    let asked = session.context.chain.funds(session.submitter.address);
    let Some(funds) = timeout(PATIENCE, asked).await.ok().and_then(Result::ok) else {
        return Ok(());
    };
    let left = slot_costs(session, Some(nonce)).available(&funds);
    left.map_or(Ok(()), |left| judge_funds(value.0, fees, left))
}
