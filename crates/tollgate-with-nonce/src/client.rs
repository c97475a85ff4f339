//! Talks to Tollgate about nonces.
//!
//! Every question can be asked again: a reservation whose answer was lost expires, and `used` with
//! the same hash is the same answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_client::{BadUrl, Client as Nodes, Patience};
use tollgate_model::{Address, TxHash};

use crate::error::{ClientError, WithNonceError};
use crate::reservation::{Answer, Reservation};
use crate::slot::{Progress, Slot, SlotSigner};

/// What is said of a nonce that was not needed.
const UNUSED: &str = "not used";

/// One or more nodes of a Tollgate. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    nodes: Nodes,
    hold: Option<Duration>,
}

impl Client {
    /// A node by its URL, `http://127.0.0.1:8550`, or the load balancer in front of several.
    ///
    /// # Errors
    /// If it is not an `http` or `https` URL.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        Nodes::new([url]).map(Self::from)
    }

    /// With an API key.
    ///
    /// # Errors
    /// If the key can't stand in a header.
    pub fn with_api_key(self, key: &str) -> Result<Self, BadUrl> {
        Ok(Self { nodes: self.nodes.with_api_key(key)?, ..self })
    }

    /// Holds nonces for this long instead of what the node says. Longer than anything between the
    /// reservation and the signature takes; whole seconds.
    #[must_use]
    pub const fn with_hold(mut self, hold: Duration) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Asks more or less often.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { nodes: self.nodes.with_patience(patience), ..self }
    }

    /// Reserves a nonce, runs the closure with it, and settles what becomes of the nonce.
    ///
    /// A closure that ends well without signing gives the nonce back. If this future is dropped, or
    /// the program dies, the nonce expires, or stays used if [`Slot::sign`] had told of it.
    ///
    /// # Errors
    /// [`WithNonceError`] says what became of the nonce and what to do.
    pub async fn with_nonce<S, F, R, T, E>(
        &self,
        submitter: Address,
        signer: S,
        run: F,
    ) -> Result<T, WithNonceError<E>>
    where
        S: SlotSigner + 'static,
        F: FnOnce(Slot) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let reservation = self.reserve(submitter).await.map_err(WithNonceError::NotReserved)?;
        let nonce = reservation.nonce;
        let progress = Arc::new(Mutex::new(Progress::Open));
        let slot = Slot {
            client: self.clone(),
            reservation: reservation.clone(),
            signer: Arc::new(signer),
            progress: progress.clone(),
        };
        let ended = run(slot).await;
        match (close(&progress), ended) {
            (Progress::HandedOut(_), Ok(done)) => Ok(done),
            (Progress::HandedOut(signed), Err(error)) => {
                Err(WithNonceError::MaybeSent { nonce, signed: Box::new(signed), error })
            }
            (Progress::Telling(_), Ok(done)) => Ok(done),
            (Progress::Telling(signed), Err(error)) => {
                let (reservation, signed) = (Box::new(reservation), Box::new(signed));
                Err(WithNonceError::Unsettled { reservation, signed, error })
            }
            (Progress::Open, ended) => {
                // If it can't be said it expires, which is as good.
                let _ = self.recyclable(&reservation, UNUSED).await;
                ended.map_err(|error| WithNonceError::Unused { nonce, error })
            }
            (Progress::Lost, ended) => {
                ended.map_err(|error| WithNonceError::Unused { nonce, error })
            }
        }
    }

    /// Reserves a nonce.
    ///
    /// # Errors
    /// If Tollgate refuses, or can't be asked.
    pub async fn reserve(&self, submitter: Address) -> Result<Reservation, ClientError> {
        let path = format!("/api/v1/submitters/{submitter}/nonces");
        let body = match self.hold {
            Some(hold) => json!({ "holdSeconds": hold.as_secs().max(1) }),
            None => json!({}),
        };
        let answer = self.ask(submitter, &path, &body).await?;
        let unreadable = |why: String| ClientError::NoAnswer(format!("unreadable: {why}"));
        let answer: Answer =
            serde_json::from_value(answer).map_err(|error| unreadable(error.to_string()))?;
        answer.read().map_err(unreadable)
    }

    /// Says that a nonce is used for this hash. Said before sending; can be said again.
    ///
    /// # Errors
    /// [`ClientError::Stale`]: don't send.
    pub async fn used(&self, of: &Reservation, tx_hash: TxHash) -> Result<(), ClientError> {
        let body = json!({ "ownerToken": of.owner_token, "txHash": tx_hash });
        self.ask(of.submitter, &place(of, "used"), &body).await.map(drop)
    }

    /// Gives a nonce back that was not used and will not be.
    ///
    /// # Errors
    /// [`ClientError::Stale`] if it went back before.
    pub async fn recyclable(&self, of: &Reservation, reason: &str) -> Result<(), ClientError> {
        let body = json!({ "ownerToken": of.owner_token, "reason": reason });
        self.ask(of.submitter, &place(of, "recyclable"), &body).await.map(drop)
    }

    async fn ask(&self, of: Address, path: &str, body: &Value) -> Result<Value, ClientError> {
        Ok(self.nodes.post(of, path, body).await?.body)
    }
}

/// Straight to the owner, where the client knows all nodes.
impl From<Nodes> for Client {
    fn from(nodes: Nodes) -> Self {
        Self { nodes, hold: None }
    }
}

/// How far a slot has come. One that outlives its closure signs nothing any more.
fn close(progress: &Mutex<Progress>) -> Progress {
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *progress, Progress::Lost)
}

fn place(of: &Reservation, what: &str) -> String {
    format!("/api/v1/submitters/{}/nonces/{}/{what}", of.submitter, of.nonce)
}
