//! Talks to a Tollgate node: a bounded number of tries for each question.
//!
//! Every question can be asked again: a reservation whose answer was lost expires, and `used` with
//! the same hash is the same answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_model::{Address, TxHash};
use tollgate_outbound::{Limits, Posted, Poster};

use crate::error::{BadUrl, ClientError, WithNonceError};
use crate::reservation::{Answer, Reservation};
use crate::slot::{Progress, Slot, SlotSigner};

/// The longest answer that is read (I13).
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Connections that are kept for later.
const IDLE_MAX: usize = 16;
/// The longest pause that an answer can ask for (I13).
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// What is said of a nonce that was not needed.
const UNUSED: &str = "not used";

/// How often and how long Tollgate is asked before it is given up (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// How often a question is asked.
    pub tries: u32,
    /// How long each may take.
    pub timeout: Duration,
    /// The pause after the first try; it doubles.
    pub first_pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 6, timeout: Duration::from_secs(10), first_pause: Duration::from_millis(100) }
    }
}

/// A Tollgate node, or the load balancer in front of several. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    poster: Arc<Poster>,
    base: String,
    authorization: Option<HeaderValue>,
    hold: Option<Duration>,
    patience: Patience,
}

impl Client {
    /// A node by its URL: `http://127.0.0.1:8550`.
    ///
    /// # Errors
    /// If it is not an `http` or `https` URL.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let base = url.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|error| BadUrl(format!("{url:?}: {error}")))?;
        let known = uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
        if !known || uri.authority().is_none() {
            return Err(BadUrl(format!("{url:?} is not http(s)://…")));
        }
        let patience = Patience::default();
        let connect_timeout = patience.timeout;
        let limits =
            Limits { connect_timeout, idle_max: IDLE_MAX, response_bytes_max: RESPONSE_BYTES_MAX };
        let poster = Arc::new(Poster::new(&limits));
        Ok(Self { poster, base, authorization: None, hold: None, patience })
    }

    /// With an API key.
    ///
    /// # Errors
    /// If the key can't stand in a header.
    pub fn with_api_key(mut self, key: &str) -> Result<Self, BadUrl> {
        let value = HeaderValue::from_str(&format!("Bearer {key}"));
        let mut value = value.map_err(|_| BadUrl("the API key is not text".to_owned()))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
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
    pub const fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
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
        let answer = self.ask(&path, &body).await?;
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
        self.ask(&place(of, "used"), &body).await.map(drop)
    }

    /// Gives a nonce back that was not used and will not be.
    ///
    /// # Errors
    /// [`ClientError::Stale`] if it went back before.
    pub async fn recyclable(&self, of: &Reservation, reason: &str) -> Result<(), ClientError> {
        let body = json!({ "ownerToken": of.owner_token, "reason": reason });
        self.ask(&place(of, "recyclable"), &body).await.map(drop)
    }

    /// Asks until there is an answer that says something, a bounded number of times.
    async fn ask(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        let uri: Uri = format!("{}{path}", self.base)
            .parse()
            .map_err(|error| ClientError::NoAnswer(format!("{path}: {error}")))?;
        let Patience { tries, timeout, first_pause } = self.patience;
        let (mut pause, mut why) = (first_pause, "never asked".to_owned());
        for tried in 1..=tries.max(1) {
            let post = self.poster.post(&uri, self.headers(), body.to_string().into());
            let wanted = match tokio::time::timeout(timeout, post).await {
                Ok(Ok(posted)) => match understood(&posted) {
                    Said::Done(answer) => return Ok(answer),
                    Said::No(error) => return Err(error),
                    Said::Later(problem, after) => {
                        why = problem;
                        after
                    }
                },
                Ok(Err(error)) => {
                    why = error.to_string();
                    None
                }
                Err(_) => {
                    why = format!("nothing within {timeout:?}");
                    None
                }
            };
            if tried < tries {
                tokio::time::sleep(wanted.unwrap_or(pause).min(PAUSE_MAX)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        Err(ClientError::NoAnswer(why))
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        headers
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

/// What an answer means.
enum Said {
    Done(Value),
    No(ClientError),
    Later(String, Option<Duration>),
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    retryable: bool,
}

fn understood(posted: &Posted) -> Said {
    let status = posted.status;
    if (200..300).contains(&status) {
        return match serde_json::from_slice(&posted.body) {
            Ok(answer) => Said::Done(answer),
            Err(error) => Said::Later(format!("unreadable: {error}"), None),
        };
    }
    let seconds = posted.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let after = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    match serde_json::from_slice::<Problem>(&posted.body) {
        Ok(problem) if problem.code == "stale_owner_token" => Said::No(ClientError::Stale),
        Ok(Problem { code, detail, retryable: false }) if status < 500 => {
            Said::No(ClientError::Refused { code, detail })
        }
        Ok(problem) => Said::Later(format!("{}: {}", problem.code, problem.detail), after),
        // Not Tollgate's words: a proxy on the way.
        Err(_) => Said::Later(format!("status {status}"), after),
    }
}
