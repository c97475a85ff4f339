//! Writes whose answer was lost: nothing is read back before they have landed or can't any more.

use std::time::Duration;

use tokio::time::timeout;
use tollgate_model::TxId;
use tollgate_model::port::{Acquisition, Lease, StoreError, TxRecord};

use super::{Create, Desk, RESTART_PAUSE};
use crate::context::Context;
use crate::create::{CreateError, Created};

/// How long callers wait for the truth about a commit before they are told to ask again (I13).
const TRUTH_PATIENCE: Duration = Duration::from_secs(5);

/// Transactions that were written to under a lease, nobody knows whether in vain.
#[derive(Clone, Debug)]
pub(super) struct Unsettled {
    pub(super) lease: Lease,
    pub(super) tx_ids: Vec<TxId>,
}

impl Unsettled {
    /// Waits until what was sent under the lease has landed or can't any more; an error is no answer.
    pub(super) async fn settle(&self, context: &Context) -> Result<(), StoreError> {
        let Context { store, node, options, .. } = context;
        loop {
            match store.settle(node, self.lease, &self.tx_ids).await {
                // The lease ran out, which alone stops nothing that is on its way. That somebody
                // has a newer one does (I2): another node, or else this one now.
                Err(StoreError::Fenced(of)) => {
                    match store.acquire(of, node, &options.lease).await? {
                        Acquisition::Granted { lease, .. } if lease == self.lease => {}
                        Acquisition::Granted { .. } | Acquisition::Held(_) => return Ok(()),
                    }
                }
                settled => return settled.map(|_| ()),
            }
        }
    }
}

impl Desk {
    /// After a write whose answer was lost: its worker settles it before it begins again.
    pub(super) fn doubt(&mut self, tx_ids: impl Iterator<Item = TxId>) -> &Unsettled {
        let unsettled = Unsettled { lease: self.lease, tx_ids: tx_ids.collect() };
        self.unsettled.insert(unsettled)
    }

    /// After a commit whose answer was lost: each caller is told what is true (I6), or that it may be
    /// taken if that can't be found out in time.
    pub(super) async fn answer_settled(&mut self, creates: Vec<Create>) {
        let context = self.context.clone();
        let unsettled = self.doubt(creates.iter().map(|create| create.tx_id));
        let found = timeout(TRUTH_PATIENCE, truth(&context, unsettled)).await;
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return refuse_doubted(creates, &error.to_string()),
            Err(_) => return refuse_doubted(creates, "the database does not say"),
        };
        self.unsettled = None;
        for (create, found) in creates.into_iter().zip(found) {
            let failed = || CreateError::Unavailable("the commit failed".to_owned());
            let answer = found.map(|record| Created::New(Box::new(record))).ok_or_else(failed);
            let _ = create.reply.send(answer);
        }
    }
}

/// What became of creates, once that is certain.
async fn truth(
    context: &Context,
    unsettled: &Unsettled,
) -> Result<Vec<Option<TxRecord>>, StoreError> {
    retried(|| unsettled.settle(context)).await?;
    let mut found = Vec::with_capacity(unsettled.tx_ids.len());
    for tx_id in &unsettled.tx_ids {
        found.push(retried(|| context.store.tx(*tx_id)).await?);
    }
    Ok(found)
}

fn refuse_doubted(creates: Vec<Create>, why: &str) {
    for create in creates {
        let doubt = CreateError::Unavailable(format!("may be taken: {why}"));
        let _ = create.reply.send(Err(doubt));
    }
}

/// Asks the store until it can answer.
async fn retried<T, F>(mut ask: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match ask().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(RESTART_PAUSE).await,
            answer => return answer,
        }
    }
}
