//! Resolves commits with unknown outcome. State is reloaded only after each such commit is known to be
//! durable or impossible.

use std::time::Duration;

use tokio::time::timeout;
use tollgate_model::port::{Acquisition, Lease, StoreError, TxRecord};
use tollgate_model::{FencingToken, TxId};

use crate::context::Context;
use crate::create::Created;
use crate::errors::Unserved;
use crate::worker::intake::{CreateJob, refuse};
use crate::worker::{RESTART_PAUSE, Session};

/// The time that callers wait for the outcome of a commit before they are told to ask again (I13).
const OUTCOME_PATIENCE: Duration = Duration::from_secs(5);

/// Transactions that were written to under a lease, with unknown outcome.
#[derive(Clone, Debug)]
pub(in crate::worker) struct UnknownCommit {
    pub(super) lease: Lease,
    pub(super) tx_ids: Vec<TxId>,
}

impl UnknownCommit {
    /// Waits until what was sent under the lease is durable or impossible; an error is no answer.
    pub(in crate::worker) async fn resolve(&self, context: &Context) -> Result<(), StoreError> {
        let Context { store, node, options, .. } = context;
        loop {
            match store.settle(node, self.lease, &self.tx_ids).await {
                // The lease ran out, which alone stops nothing that is on its way. That somebody
                // has a newer one does (I2): another node, or else this one now.
                Err(StoreError::Fenced(of)) => {
                    match store.acquire(of, node, &options.lease).await? {
                        Acquisition::Granted { lease, .. } if lease == self.lease => {}
                        Acquisition::Granted { lease, .. } => return self.passed_by(lease.token),
                        Acquisition::Held(owner) => return self.passed_by(owner.token),
                    }
                }
                settled => return settled.map(|_| ()),
            }
        }
    }

    /// Only a newer token makes the commit impossible. An owner under the same token is this node itself, whose
    /// lease has run out and whose commit may still be under way.
    fn passed_by(&self, token: FencingToken) -> Result<(), StoreError> {
        if token > self.lease.token {
            return Ok(());
        }
        let why = format!("nobody has a newer lease than {} yet", self.lease.token.get());
        Err(StoreError::Unavailable(why.into()))
    }

    /// The transactions among them that were created, once that is certain.
    async fn outcome(&self, context: &Context) -> Result<Vec<Option<TxRecord>>, StoreError> {
        retried(|| self.resolve(context)).await?;
        let mut found = Vec::with_capacity(self.tx_ids.len());
        for tx_id in &self.tx_ids {
            found.push(retried(|| context.store.tx(*tx_id)).await?);
        }
        Ok(found)
    }
}

/// After a commit of creates with unknown outcome: each caller is told what is true (I6), or that it may be
/// taken if that can't be found out in time.
pub(in crate::worker) async fn answer_unknown(session: &mut Session, creates: Vec<CreateJob>) {
    let context = session.context.clone();
    let unknown = session.journal.note_unknown(creates.iter().map(|create| create.tx_id));
    let doubt = |why: &str| Unserved::unavailable(format!("may be taken: {why}")).into();
    let found = match timeout(OUTCOME_PATIENCE, unknown.outcome(&context)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return refuse(creates, &doubt(&error.to_string())),
        Err(_) => return refuse(creates, &doubt("the database does not answer")),
    };
    session.journal.note_resolved();
    for (create, found) in creates.into_iter().zip(found) {
        let removed = match &found {
            Some(_) => Ok(None),
            None => context.store.removed(create.tx_id).await,
        };
        let failed = || match removed {
            Ok(None) => Unserved::unavailable("the commit failed").into(),
            Ok(Some(_)) => doubt("it has ended and was removed since"),
            Err(error) => doubt(&error.to_string()),
        };
        create.answer(found.map(|record| Created::New(Box::new(record))).ok_or_else(failed));
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

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::{Address, ChainId, Submitter};

    #[test]
    fn commit_is_impossible_only_under_a_newer_token() {
        let token = |n: u64| FencingToken::new(n).unwrap();
        let submitter = Submitter::new(ChainId::MIN, Address::ZERO);
        let lease = Lease { submitter, token: token(5) };
        let commit = UnknownCommit { lease, tx_ids: Vec::new() };
        for held in [4, 5] {
            let why = commit.passed_by(token(held)).unwrap_err();
            assert!(why.is_retryable(), "I2: it may still be under way: {why}");
        }
        commit.passed_by(token(6)).unwrap();
    }
}
