//! Takes intents in. What was accepted before is answered first, whatever the chain says now (I7);
//! then what the caller left open is filled in; then the submitter's worker judges the rest and makes
//! it durable.

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tollgate_model::expiry::is_expired;
use tollgate_model::fees::first_offer;
use tollgate_model::port::chain::Call;
use tollgate_model::port::{Attempt, CreateAnswer, Fees, NewAttempt, OpenTx, Page, Payload};
use tollgate_model::refusal::{
    NoEstimate, OpenCosts, PricedTx, Refusal, estimated_gas, gas_for_estimate, judge_funds,
    judge_gas, judge_price,
};
use tollgate_model::schedule::{self, is_due};
use tollgate_model::{GasPrice, Intent, RequestId, Route, Submitter, Timestamp, TxId, U256, Wei};

use crate::authorizations::authorize;
use crate::context::Context;
use crate::create::{
    CreateError, CreateTimer, Created, NewCreate, PendingCreate, PreparedCreate, SignedIntent,
    Simulated,
};
use crate::engine::Engine;
use crate::errors::Unserved;
use crate::worker::{Command, CreateJob};

/// Pages of open work that a simulation reads (I13). What is beyond is not counted as open.
const OPEN_PAGES_MAX: u32 = 20;

impl Engine {
    /// Takes an intent: durable when this returns. What is refused here leaves nothing behind, and no
    /// nonce is touched.
    pub async fn create(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        intent: Intent,
    ) -> Result<Created, CreateError> {
        let prepared = self.prepare(submitter, request_id, intent).await?;
        self.submit(prepared).decided().await
    }

    /// The part of a create that asks the store and the chain: looks the request up and fills in what
    /// the caller left open. Several creates can be prepared side by side and submitted in order.
    pub async fn prepare(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        intent: Intent,
    ) -> Result<PreparedCreate, CreateError> {
        let timer = CreateTimer::begin(&self.context.metrics);
        let prepared = self.prepare_intent(submitter, request_id, intent, &timer).await;
        prepared.inspect_err(|refused| timer.note(&Err(refused.clone())))
    }

    /// Returns whether this node can sign for a submitter. One that takes only what others have signed for
    /// it is not the place to ask if another node serves it, too.
    fn check_key(&self, submitter: Submitter) -> Result<(), CreateError> {
        if self.context.has_key(submitter) {
            return Ok(());
        }
        Err(self.refusal(submitter).into())
    }

    async fn prepare_intent(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        intent: Intent,
        timer: &CreateTimer,
    ) -> Result<PreparedCreate, CreateError> {
        // The same request may be made durable meanwhile: the worker knows what it wrote since.
        let (asked, looked_up) = (intent.to_payload()?, Instant::now());
        if let Some(known) = look_up(&self.context, submitter, request_id.as_ref(), &asked).await? {
            return Ok(PreparedCreate::Known(known));
        }
        self.context.accounts.loaded().await;
        self.check_key(submitter)?;
        if self.context.accounts.is_disabled(submitter.address) {
            return Err(CreateError::Disabled);
        }
        self.context.accounts.judge(submitter.address, &intent)?;
        check_times(&intent, self.now())?;
        let is_whole = intent.gas.is_some() && intent.authorization_list.is_empty();
        let mut intent = fill_in(&self.context, submitter, intent).await?;
        authorize(&self.context, submitter, &mut intent).await?;
        let payload = match is_whole {
            true => asked,
            false => Payload::filled_in(intent.to_payload()?.bytes().clone(), &asked)?,
        };
        let (signed, timer) = (None, timer.clone());
        let (author, trace) = (None, None);
        let new = NewCreate {
            submitter,
            request_id,
            intent,
            payload,
            author,
            signed,
            looked_up,
            timer,
            trace,
        };
        Ok(PreparedCreate::New(Box::new(new)))
    }

    /// [`Self::prepare`] for a transaction that the caller has signed: its nonce must be the one that is due.
    /// Posted again it is the same transaction, whether it has a request id or not (I7).
    pub async fn prepare_signed(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        signed: SignedIntent,
    ) -> Result<PreparedCreate, CreateError> {
        let timer = CreateTimer::begin(&self.context.metrics);
        let prepared = self.prepare_signed_intent(submitter, request_id, signed, &timer).await;
        prepared.inspect_err(|refused| timer.note(&Err(refused.clone())))
    }

    async fn prepare_signed_intent(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        signed: SignedIntent,
        timer: &CreateTimer,
    ) -> Result<PreparedCreate, CreateError> {
        let request_id = Some(signed.request_id(request_id)?);
        let SignedIntent { mut intent, nonce, attempt } = signed;
        let (payload, looked_up) = (intent.to_payload()?, Instant::now());
        if let Some(known) =
            look_up(&self.context, submitter, request_id.as_ref(), &payload).await?
        {
            return Ok(PreparedCreate::Known(known));
        }
        self.context.accounts.loaded().await;
        if !self.serves(submitter) {
            return Err(self.refusal(submitter).into());
        }
        if self.context.accounts.is_disabled(submitter.address) {
            return Err(CreateError::Disabled);
        }
        self.context.accounts.judge(submitter.address, &intent).map_err(Refusal::in_raw_tx)?;
        check_route(&self.context, &intent)?;
        authorize(&self.context, submitter, &mut intent).await?;
        let (signed, timer) = (Some((nonce, attempt)), timer.clone());
        let (author, trace) = (None, None);
        let new = NewCreate {
            submitter,
            request_id,
            intent,
            payload,
            author,
            signed,
            looked_up,
            timer,
            trace,
        };
        Ok(PreparedCreate::New(Box::new(new)))
    }

    /// Queues a prepared create with its submitter's worker before it returns: creates of one
    /// submitter get their nonces in the order of these calls.
    pub fn submit(&self, prepared: PreparedCreate) -> PendingCreate {
        let new = match prepared {
            PreparedCreate::Known(tx_id) => {
                let known = Ok(Created::Known(tx_id));
                CreateTimer::begin(&self.context.metrics).note(&known);
                return PendingCreate::Decided(known);
            }
            PreparedCreate::New(new) => *new,
        };
        let NewCreate {
            submitter,
            request_id,
            intent,
            payload,
            author,
            signed,
            looked_up,
            timer,
            trace,
        } = new;
        let (reply, answer) = oneshot::channel();
        let (tx_id, watch) = (self.context.ids.tx_id(), timer.clone());
        let create = CreateJob {
            tx_id,
            request_id,
            intent,
            payload,
            author,
            signed,
            looked_up,
            reply,
            timer,
            trace,
        };
        match enqueue(self, submitter, create) {
            Ok(()) => PendingCreate::Queued(answer),
            Err(error) => {
                let refused = Err(error);
                watch.note(&refused);
                PendingCreate::Decided(refused)
            }
        }
    }

    /// The gas and the price of a create, or the transaction that it would be answered with. Nothing is
    /// written, and no nonce is used.
    pub async fn simulate(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        mut intent: Intent,
    ) -> Result<Simulated, CreateError> {
        let asked = intent.to_payload()?;
        if let Some(known) = look_up(&self.context, submitter, request_id.as_ref(), &asked).await? {
            return Ok(Simulated::Known(known));
        }
        // Any node can try what only another one could sign.
        if !self.context.has_key(submitter)
            && !self.context.placement.is_served_elsewhere(submitter)
        {
            return Err(self.refusal(submitter).into());
        }
        self.context.accounts.judge(submitter.address, &intent)?;
        check_times(&intent, self.now())?;
        // The call is tried even if the caller knows its gas: whether it reverts is the question. Without its
        // authorizations a set-code transaction is another call, which would answer nothing.
        let given = match intent.authorization_list.is_empty() {
            true => intent.gas.take(),
            false => intent.gas,
        };
        let mut prepared = fill_in(&self.context, submitter, intent).await?;
        authorize(&self.context, submitter, &mut prepared).await?;
        let gas = given.or(prepared.gas).unwrap_or_default();
        let fees = judge_simulated(self, submitter, &prepared, gas).await?;
        Ok(Simulated::Costs(fees))
    }

    /// I7: the transaction of an intent that was accepted before, by any node.
    ///
    /// # Errors
    /// The request id belongs to another payload, or the store can't be read.
    pub async fn known(
        &self,
        submitter: Submitter,
        request_id: Option<&RequestId>,
        intent: &Intent,
    ) -> Result<Option<TxId>, CreateError> {
        look_up(&self.context, submitter, request_id, &intent.to_payload()?).await
    }

    /// [`Self::known`] for a transaction that the caller has signed.
    ///
    /// # Errors
    /// As there.
    pub async fn known_signed(
        &self,
        submitter: Submitter,
        request_id: Option<RequestId>,
        signed: &SignedIntent,
    ) -> Result<Option<TxId>, CreateError> {
        let request_id = signed.request_id(request_id)?;
        look_up(&self.context, submitter, Some(&request_id), &signed.intent.to_payload()?).await
    }
}

/// Judges an intent as the submitter's worker would, from what the store has open; what it offers.
async fn judge_simulated(
    engine: &Engine,
    submitter: Submitter,
    intent: &Intent,
    gas: u64,
) -> Result<Fees, CreateError> {
    let chain = &engine.context.chain;
    let caps = engine.context.fee_caps(submitter);
    let quote = chain.fee_quote(intent.speed).await?;
    let fees = first_offer(intent, &quote, gas, &caps).0;
    let demand = PricedTx::of(intent, fees);
    judge_gas(&demand, &chain.limits(), &engine.context.tx_limits())?;
    judge_price(&demand, quote.base_fee, &caps)?;
    if let Some(left) = funds_left(engine, submitter).await? {
        judge_funds(demand.value, &demand.fees, left)?;
    }
    Ok(fees)
}

/// The most that an intent may cost a submitter, with its fee at the current price.
pub(crate) async fn cost_of(
    context: &Context,
    submitter: Submitter,
    intent: &Intent,
) -> Result<U256, CreateError> {
    let intent = fill_in(context, submitter, intent.clone()).await?;
    let quote = context.chain.fee_quote(intent.speed).await?;
    let gas = intent.gas.unwrap_or_default();
    let fees = first_offer(&intent, &quote, gas, &context.fee_caps(submitter)).0;
    Ok(PricedTx::of(&intent, fees).cost())
}

/// The funds of a submitter besides what its open transactions may cost; `None` if no endpoint tells.
pub(crate) async fn funds_left(
    engine: &Engine,
    submitter: Submitter,
) -> Result<Option<Wei>, CreateError> {
    let open = open_costs(engine, submitter).await?;
    let funds = engine.context.chain.funds(submitter.address).await?;
    Ok(open.available(&funds))
}

/// The most that a submitter's open transactions may cost. The worker knows if there is one here; else
/// the store is read.
async fn open_costs(engine: &Engine, submitter: Submitter) -> Result<OpenCosts, CreateError> {
    if engine.workers.works_for(submitter) {
        let known = engine.command(submitter, |reply| Command::OpenCosts { reply }).await;
        if let Ok(Some(costs)) = known {
            return Ok(costs);
        }
    }
    stored_open_costs(&engine.context, submitter).await
}

async fn stored_open_costs(
    context: &Context,
    submitter: Submitter,
) -> Result<OpenCosts, CreateError> {
    let Context { chain, store, .. } = context;
    let caps = context.fee_caps(submitter);
    let page = Page::new(Page::MAX)?;
    let (mut costs, mut after) = (OpenCosts::default(), None);
    for _ in 0..OPEN_PAGES_MAX {
        let found = store.open_work(submitter, after, page).await?;
        for OpenTx { record, attempts, .. } in &found {
            let Ok(intent) = Intent::from_payload(&record.payload) else { continue };
            match record.nonce {
                Some(_) if record.mined.is_some() => {}
                Some(nonce) => {
                    let cost = |attempt: &Attempt| {
                        let Attempt { tx_hash, raw, kind, fees, .. } = attempt.clone();
                        let signed = NewAttempt { tx_hash, raw, kind, fees };
                        context.attempt_cost(submitter.chain_id, &signed)
                    };
                    costs.add_slot(nonce, intent.value, attempts.iter().map(cost));
                }
                None if !is_due(&intent, context.clock.now()) => {}
                None => {
                    let quote = chain.fee_quote(intent.speed).await?;
                    costs.add_queued(&intent, &quote, &caps);
                }
            }
        }
        after = found.last().map(|tx| tx.record.tx_id);
        if found.len() < page.limit() as usize {
            break;
        }
    }
    Ok(costs)
}

/// I7: the transaction of a request that was accepted before.
async fn look_up(
    context: &Context,
    submitter: Submitter,
    request_id: Option<&RequestId>,
    asked: &Payload,
) -> Result<Option<TxId>, CreateError> {
    let Some(request_id) = request_id else { return Ok(None) };
    let known = context.lookup.find(submitter, request_id.clone()).await?;
    match CreateAnswer::judge(asked, known) {
        CreateAnswer::Created => Ok(None),
        CreateAnswer::Duplicate(known) => Ok(Some(known.tx_id)),
        CreateAnswer::Conflict(known) => Err(CreateError::RequestIdConflict(known)),
    }
}

fn check_times(intent: &Intent, now: Timestamp) -> Result<(), CreateError> {
    if is_expired(intent.expires_at(), now) {
        return Err(CreateError::Expired);
    }
    Ok(schedule::check(intent, now)?)
}

/// A private call can't be estimated now, or not at all.
fn no_estimate(why: &str) -> CreateError {
    let what = "only private endpoints may estimate a private call; give payload.gas if they can't";
    Unserved::unavailable(format!("{what}: {why}")).into()
}

/// Refuses a transaction whose route has no endpoints.
fn check_route(context: &Context, intent: &Intent) -> Result<(), CreateError> {
    match intent.first_route() {
        Route::Private if !context.chain.has_private_endpoints() => {
            Err(CreateError::NoPrivateEndpoint)
        }
        Route::Private | Route::Public => Ok(()),
    }
}

/// Fills in what the caller left open.
async fn fill_in(
    context: &Context,
    submitter: Submitter,
    mut intent: Intent,
) -> Result<Intent, CreateError> {
    check_route(context, &intent)?;
    if intent.gas.is_some() {
        return Ok(intent);
    }
    let call = Call {
        from: submitter.address,
        to: intent.to,
        value: Wei(intent.value),
        data: intent.data.clone(),
    };
    let route = intent.first_route();
    let estimated = context.chain.estimate_call(&call, route).await;
    let estimate = match (estimated.map(estimated_gas), route) {
        (Ok(Ok(gas)), _) => gas,
        (Ok(Err(refused @ NoEstimate::Refused(_))), _) => return Err(refused.into()),
        (Ok(Err(why)), Route::Public) => return Err(why.into()),
        (Err(why), Route::Public) => return Err(why.into()),
        // Public endpoints must not see the call.
        (Ok(Err(NoEstimate::Unavailable(why))), Route::Private) => return Err(no_estimate(&why)),
        (Err(why), Route::Private) => return Err(no_estimate(&why.to_string())),
    };
    let price = GasPrice::default();
    let unpriced = Fees { gas_limit: estimate, max_fee: price, max_priority_fee: None };
    let demand = PricedTx::of(&intent, unpriced);
    let (limits, of_tx) = (context.chain.limits(), context.tx_limits());
    intent.gas = Some(gas_for_estimate(estimate, &demand, &limits, &of_tx)?);
    Ok(intent)
}

/// Gives a create to the submitter's worker, which is started if there is none.
#[expect(clippy::result_large_err, reason = "what is not taken comes back")]
fn enqueue(
    engine: &Engine,
    submitter: Submitter,
    mut create: CreateJob,
) -> Result<(), CreateError> {
    // A worker that just ended is replaced once.
    for _ in 0..2 {
        match engine.offer(submitter, |worker| worker.creates.try_send(create)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(mpsc::error::TrySendError::Full(_))) => return Err(Unserved::Busy.into()),
            Some(Err(mpsc::error::TrySendError::Closed(back))) => create = back,
            None => return Err(Unserved::NotOwner(None).into()),
        }
    }
    Err(Unserved::unavailable("the worker stopped").into())
}
