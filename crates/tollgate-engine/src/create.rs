//! Creates as callers hand them to an engine, and their answers.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_metrics::{ChainMetrics, CreateResult};
use tollgate_model::authorization::AuthorizationRefused;
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::signer::PreSigned;
use tollgate_model::port::{AttemptKind, Fees, KnownRequest, NewAttempt, Payload, TxRecord};
use tollgate_model::refusal::{NoEstimate, Refusal};
use tollgate_model::schedule::BadSchedule;
use tollgate_model::{Intent, Nonce, PrivateRoute, RequestId, Submitter, Text, TraceParent, TxId};

use crate::errors::Unserved;

/// The result of a create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Created {
    /// The transaction is new, and durable.
    New(Box<TxRecord>),
    /// The same request was made before: this is its transaction (I7).
    Known(TxId),
}

impl Created {
    /// The transaction's id.
    pub fn tx_id(&self) -> TxId {
        match self {
            Self::New(record) => record.tx_id,
            Self::Known(tx_id) => *tx_id,
        }
    }
}

/// Counts a create by its result, and the time from its arrival to its commit.
#[derive(Clone, Debug)]
pub(crate) struct CreateTimer {
    metrics: Arc<ChainMetrics>,
    begun: Instant,
}

impl CreateTimer {
    pub(crate) fn begin(metrics: &Arc<ChainMetrics>) -> Self {
        Self { metrics: metrics.clone(), begun: Instant::now() }
    }

    /// The time since the create arrived.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn note(&self, answer: &Result<Created, CreateError>) {
        if let Ok(Created::New(_)) = answer {
            self.metrics.tx_accepted_seconds.observe(self.begun.elapsed());
        }
        if let Some(result) = result_of(answer) {
            self.metrics.tx_create_total.inc(result);
        }
    }
}

/// The name of a create's result in metrics; `None` if another node carries it out.
fn result_of(answer: &Result<Created, CreateError>) -> Option<CreateResult> {
    Some(match answer {
        Ok(Created::New(_)) => CreateResult::Created,
        Ok(Created::Known(_)) => CreateResult::Known,
        Err(CreateError::RequestIdConflict(_)) => CreateResult::Conflict,
        Err(CreateError::Unserved(Unserved::NotOwner(_))) => return None,
        Err(CreateError::Unserved(Unserved::UnknownSubmitter)) => CreateResult::Refused,
        Err(CreateError::Unserved(Unserved::Busy)) => CreateResult::Busy,
        Err(CreateError::Unserved(_)) => CreateResult::Unavailable,
        Err(_) => CreateResult::Refused,
    })
}

/// A create that was looked up and filled in. Nothing of it is written yet.
#[derive(Debug)]
pub enum PreparedCreate {
    /// The same request was made before: this is its transaction (I7).
    Known(TxId),
    /// The submitter's worker decides about it.
    New(Box<NewCreate>),
}

/// A new create for the submitter's worker.
#[derive(Debug)]
pub struct NewCreate {
    pub(crate) submitter: Submitter,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) intent: Intent,
    pub(crate) payload: Payload,
    pub(crate) author: Option<Text<200>>,
    pub(crate) signed: Option<(Nonce, NewAttempt)>,
    /// When the look-up of the request began.
    pub(crate) looked_up: Instant,
    pub(crate) timer: CreateTimer,
    /// The trace of the request.
    pub(crate) trace: Option<TraceParent>,
}

impl PreparedCreate {
    /// With its author, who is named in the first entry of the transaction's history.
    pub fn by(mut self, author: Option<Text<200>>) -> Self {
        if let Self::New(new) = &mut self {
            new.author = author;
        }
        self
    }

    /// With the trace of the request, which is stored with a transaction that is new. A repeat keeps the trace of
    /// the first request.
    pub fn traced(mut self, trace: Option<TraceParent>) -> Self {
        if let Self::New(new) = &mut self {
            new.trace = trace;
        }
        self
    }
}

/// A create whose outcome can be waited for.
#[must_use = "the outcome is not known before it was waited for"]
#[derive(Debug)]
pub enum PendingCreate {
    /// Nothing has to be waited for.
    Decided(Result<Created, CreateError>),
    /// The submitter's worker has it.
    Queued(oneshot::Receiver<Result<Created, CreateError>>),
}

impl PendingCreate {
    /// The outcome: a success is durable. If the worker panicked, the create may or may not have been
    /// committed.
    pub async fn decided(self) -> Result<Created, CreateError> {
        let gone = || Unserved::unavailable("may be taken: the worker stopped");
        match self {
            Self::Decided(outcome) => outcome,
            Self::Queued(answer) => answer.await.map_err(|_| gone())?,
        }
    }
}

/// The result of a simulated create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Simulated {
    /// The transaction would be new, with this gas and price.
    Costs(Fees),
    /// The same request was made before: this is its transaction (I7).
    Known(TxId),
}

/// A transaction that the caller has signed, with the nonce of its own choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedIntent {
    pub(crate) intent: Intent,
    /// The slot that it must have.
    pub(crate) nonce: Nonce,
    /// Its one form.
    pub(crate) attempt: NewAttempt,
}

impl SignedIntent {
    /// Takes a signed transaction with the caller's notes and route.
    pub fn new(signed: PreSigned, metadata: Option<String>, private: Option<PrivateRoute>) -> Self {
        let PreSigned { tx_hash, raw, draft } = signed;
        let intent = Intent {
            data: draft.data,
            gas: Some(draft.fees.gas_limit),
            kind: Some(draft.kind),
            access_list: draft.access_list,
            authorization_list: draft.authorizations,
            max_fee_per_gas: Some(draft.fees.max_fee),
            max_priority_fee_per_gas: draft.fees.max_priority_fee,
            metadata,
            signed: Some(tx_hash),
            private,
            ..Intent::call(draft.to, draft.value.0)
        };
        let kind = AttemptKind::Intent;
        let attempt = NewAttempt { tx_hash, raw, kind, fees: draft.fees };
        Self { intent, nonce: draft.nonce, attempt }
    }

    /// The name of the request: the caller's, or else the transaction's hash.
    pub(crate) fn request_id(&self, given: Option<RequestId>) -> Result<RequestId, InvalidValue> {
        given.map_or_else(|| RequestId::new(self.attempt.tx_hash.to_string()), Ok)
    }
}

/// The reason why an intent was refused: nothing was written, and no nonce was used. The one exception is
/// [`Unserved::Unavailable`] when it says "may be taken": ask again under the same request id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The intent itself is wrong.
    #[error("{0}")]
    Invalid(#[from] InvalidValue),
    /// The submitter's worker can't be asked, or could not go on.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// The account takes no new transactions.
    #[error("the account is disabled")]
    Disabled,
    /// A private transaction on a chain without private endpoints.
    #[error("the chain has no private endpoint")]
    NoPrivateEndpoint,
    /// The intent's time is over.
    #[error("validUntil has passed")]
    Expired,
    /// The intent's `notBefore` is out of range.
    #[error("{0}")]
    BadSchedule(#[from] BadSchedule),
    /// One of its authorizations is not accepted.
    #[error("{why}")]
    Authorization {
        /// Place in the list; `None` for a signed transaction.
        place: Option<usize>,
        /// The reason.
        why: AuthorizationRefused,
    },
    /// The chain would certainly refuse it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// A signed transaction whose nonce is not the one that is due.
    #[error("nonce {given} does not fit: the next one is {expected}")]
    NonceMismatch {
        /// The nonce that is due.
        expected: Nonce,
        /// The nonce that was signed.
        given: Nonce,
    },
    /// The request id belongs to another payload (I7).
    #[error("the request id belongs to another payload")]
    RequestIdConflict(KnownRequest),
}

impl From<NoEstimate> for CreateError {
    fn from(why: NoEstimate) -> Self {
        match why {
            NoEstimate::Refused(refusal) => Self::Refused(refusal),
            NoEstimate::Unavailable(why) => Unserved::unavailable(why).into(),
        }
    }
}
