//! Pays accounts that are below their floor from their funding accounts (`docs/operations/top-up.md`).
//!
//! The node that owns the funding account does it: the payment is a create like any other, through the same checks
//! and the same fence. The rule is `tollgate_model::top_up`; nothing is remembered here between two looks.

use std::sync::Arc;

use tollgate_engine::{CreateError, Created, Engine, Place, Unserved};
use tollgate_model::alert::AlertSubject;
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::chain::ChainUnavailable;
use tollgate_model::port::{AlertKind, Page, StoreError};
use tollgate_model::top_up::{TopUp, TopUpDecision, TopUpPayment, TopUpRule, TopUpView};
use tollgate_model::{Intent, Submitter, Text, Timestamp, Wei};
use tracing::{info, warn};

use super::Watcher;

/// The author of the payments in their histories.
const AUTHOR: &str = "top-up";

/// The reason why an account below its floor was not paid.
enum NotPaid {
    /// A person has to do something: it is an alert.
    Refused(String),
    /// The database, the chain or the owner of the funding account can't be asked: the next look tries again.
    Unavailable(String),
}

impl From<StoreError> for NotPaid {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<ChainUnavailable> for NotPaid {
    fn from(error: ChainUnavailable) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<InvalidValue> for NotPaid {
    fn from(error: InvalidValue) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<CreateError> for NotPaid {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Unserved(Unserved::UnknownSubmitter) => {
                Self::Refused("no node of this cluster serves the funding account".to_owned())
            }
            CreateError::Unserved(other) => Self::Unavailable(other.to_string()),
            other => Self::Refused(other.to_string()),
        }
    }
}

/// Looks at each interval, for ever.
pub(super) async fn keep_topped_up(watcher: Watcher) {
    let entries = Arc::clone(&watcher.top_ups);
    if entries.iter().all(|entry| entry.from.is_none()) {
        return;
    }
    loop {
        tokio::time::sleep(watcher.settings.interval).await;
        for of in watcher.chains() {
            let chain_id = of.engine.chain_id();
            let on_chain = entries.iter().filter(|entry| entry.is_on(chain_id));
            for (from, rule) in on_chain.filter_map(|entry| entry.payer(chain_id)) {
                look(&watcher, &of.engine, from, &rule).await;
            }
        }
    }
}

async fn look(watcher: &Watcher, engine: &Engine, from: Submitter, rule: &TopUpRule) {
    let (account, payer) = (rule.account, from.address);
    match top_up(watcher, engine, from, rule).await {
        Ok(()) => {}
        Err(NotPaid::Unavailable(error)) => {
            warn!(chain_id = %rule.chain_id, %account, error, "account not topped up; trying again");
        }
        Err(NotPaid::Refused(why)) => {
            let kind = AlertKind::TopUpFailed;
            let detail = format!("{payer} pays nothing: {why}");
            let subject = AlertSubject::account(Submitter::new(rule.chain_id, account));
            watcher.collector.report(kind, subject, kind.info().level, &detail);
        }
    }
}

/// Pays the account, if it is below its floor and a payment is due.
async fn top_up(
    watcher: &Watcher,
    engine: &Engine,
    from: Submitter,
    rule: &TopUpRule,
) -> Result<(), NotPaid> {
    // Elsewhere the owner does it. If two nodes believe that they own the account, the lease decides (I1).
    if engine.is_draining() || engine.place(from).await? != Place::Here {
        return Ok(());
    }
    // Saves the look at the store; the rule judges the balance once more.
    if engine.balance(rule.account).await? >= rule.floor {
        return Ok(());
    }
    // The balance is read after the payments: it has those that were final by then.
    let payments = Payments::read(watcher, from).await?;
    let balance = engine.balance(rule.account).await?;
    let Some(due) = payments.due(rule, balance)? else { return Ok(()) };
    let TopUp { request_id, to, amount } = due.clone();
    let intent = Intent::transfer(to, amount.0);
    let prepared = match engine.prepare(from, Some(request_id), intent).await {
        // Another payment of the period was made meanwhile: the next look sees it.
        Err(CreateError::RequestIdConflict(_)) => return Ok(()),
        prepared => prepared?.by(Some(Text::lossy(AUTHOR))),
    };
    // Preparing asks the chain and takes a while. A decision that the store no longer supports is dropped, and
    // nothing waits between this look at the store and the create.
    if Payments::read(watcher, from).await?.due(rule, balance)?.as_ref() != Some(&due) {
        return Ok(());
    }
    match engine.submit(prepared).decided().await {
        Ok(Created::New(tx)) => {
            let (account, tx_id, request_id) = (rule.account, tx.tx_id, &due.request_id);
            info!(chain_id = %rule.chain_id, %account, submitter = %from, %tx_id, %request_id, "account topped up");
            Ok(())
        }
        Ok(Created::Known(_)) | Err(CreateError::RequestIdConflict(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The payments of a funding account that the store has at a time.
struct Payments {
    now: Timestamp,
    newest: Vec<TopUpPayment>,
    is_partial: bool,
}

impl Payments {
    async fn read(watcher: &Watcher, from: Submitter) -> Result<Self, NotPaid> {
        let (now, page) = (watcher.store.database_time().await?, Page::new(Page::MAX)?);
        let records = watcher.store.top_ups(from, page).await?;
        let is_partial = records.len() >= page.limit() as usize;
        let newest = records.into_iter().filter_map(TopUpPayment::of).collect();
        Ok(Self { now, newest, is_partial })
    }

    /// The payment that is due now.
    fn due(&self, rule: &TopUpRule, balance: Wei) -> Result<Option<TopUp>, NotPaid> {
        let Self { now, newest: payments, is_partial } = self;
        let view = TopUpView { now: *now, balance, payments, is_partial: *is_partial };
        match rule.decide(view)? {
            TopUpDecision::Pay(top_up) => Ok(Some(top_up)),
            TopUpDecision::Wait(wait) if wait.needs_attention() => {
                Err(NotPaid::Refused(wait.to_string()))
            }
            TopUpDecision::Enough | TopUpDecision::Wait(_) => Ok(None),
        }
    }
}
