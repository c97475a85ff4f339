//! Asks, and asks again: a bounded number of tries for each question.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Uri};
use serde_json::{Value, json};
use thiserror::Error;
use tollgate_model::{Address, ChainId};
use tollgate_outbound::{Limits, Posted, Poster};

use crate::advice::Advice;
use crate::route::Route;
use crate::{CHAIN_ID, FORWARDED, OWNER};

/// The longest answer that is read (I13).
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Connections to each node that are kept for later.
const IDLE_MAX: usize = 16;
/// The longest pause between two tries, whatever an answer asks for (I13).
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The code of an answer of a node of another chain.
const WRONG_CHAIN: &str = "wrong_chain";
/// The pause before another node is asked that was not asked yet.
const NEXT_NODE_PAUSE: Duration = Duration::from_millis(50);

/// How often and how long nodes are asked before the caller is told that there is no answer (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// How often a question is asked, over all nodes.
    pub tries: u32,
    /// How long each may take.
    pub timeout: Duration,
    /// The pause after the first try; it doubles, up to five seconds.
    pub first_pause: Duration,
}

/// About half a minute of pauses: longer than it takes to replace a node that died.
impl Default for Patience {
    fn default() -> Self {
        let (timeout, first_pause) = (Duration::from_secs(10), Duration::from_millis(100));
        Self { tries: 12, timeout, first_pause }
    }
}

/// Not the address of a Tollgate node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a usable URL: {0}")]
pub struct BadUrl(pub String);

/// Why there is no answer that says something.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// Tollgate refuses, and would again.
    #[error("{code}: {detail}")]
    Refused {
        /// What to switch on: a code of Tollgate's API.
        code: String,
        /// What was wrong, for people.
        detail: String,
    },
    /// Nobody said anything of use, though they were asked again and again. **It may have been
    /// done**: ask again under the same request id.
    #[error("no answer: {0}")]
    NoAnswer(String),
}

/// An answer that says that something is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Value,
    /// The node that was asked had to ask another one.
    pub forwarded: bool,
}

/// One or more nodes of one Tollgate; of one chain, unless [`Client::with_chain`] says which. Cheap to clone; clones share what they learn.
#[derive(Clone)]
pub struct Client {
    poster: Arc<Poster>,
    route: Arc<Route>,
    authorization: Option<HeaderValue>,
    chain_id: Option<ChainId>,
    patience: Patience,
}

impl Client {
    /// Nodes by their URLs, as they advertise them: `http://127.0.0.1:8550`. One is enough, also one
    /// of a load balancer; then all goes there.
    ///
    /// # Errors
    /// If there is none, or one is not an `http` or `https` URL.
    pub fn new<U: AsRef<str>>(nodes: impl IntoIterator<Item = U>) -> Result<Self, BadUrl> {
        let mut urls = Vec::new();
        for node in nodes {
            let node = node.as_ref();
            let uri: Uri = node.parse().map_err(|error| BadUrl(format!("{node:?}: {error}")))?;
            let known = matches!(uri.scheme_str(), Some("http" | "https"));
            if !known || uri.authority().is_none() {
                return Err(BadUrl(format!("{node:?} is not http(s)://…")));
            }
            urls.push(node.to_owned());
        }
        let route = Route::new(urls).ok_or_else(|| BadUrl("there is none".to_owned()))?;
        let patience = Patience::default();
        let limits = Limits {
            connect_timeout: patience.timeout,
            idle_max: IDLE_MAX,
            response_bytes_max: RESPONSE_BYTES_MAX,
        };
        let poster = Arc::new(Poster::new(&limits));
        Ok(Self { poster, route: Arc::new(route), authorization: None, chain_id: None, patience })
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

    /// For one chain only: a node that works on another one does nothing, and the next one is asked.
    /// Without it, a create is for the chain of whichever node takes it.
    #[must_use]
    pub const fn with_chain(mut self, chain_id: ChainId) -> Self {
        self.chain_id = Some(chain_id);
        self
    }

    /// Asks more or less often.
    #[must_use]
    pub const fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Makes a transaction, once, however often it takes to be told so: by this request id, which
    /// must be the caller's own name for what it wants, and the same after a crash of the caller.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: there is no such transaction. [`ClientError::NoAnswer`]: there may be.
    pub async fn create(
        &self,
        of: Address,
        request_id: &str,
        payload: &Value,
    ) -> Result<Answer, ClientError> {
        let body = json!({ "submitter": of, "requestId": request_id, "payload": payload });
        self.post(of, "/api/v1/tx", &body).await
    }

    /// Asks the node that works for a submitter until there is an answer that says something. Only
    /// for what may be asked twice: a create with a request id, an action with an idempotency key.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn post(&self, of: Address, path: &str, body: &Value) -> Result<Answer, ClientError> {
        let Patience { tries, timeout, first_pause } = self.patience;
        let (body, mut pause) = (body.to_string(), first_pause);
        let mut why = "never asked".to_owned();
        for tried in 1..=tries.max(1) {
            let at = self.route.home(of);
            let uri: Uri = format!("{}{path}", self.route.nodes()[at])
                .parse()
                .map_err(|error| ClientError::NoAnswer(format!("{path}: {error}")))?;
            let post = self.poster.post(&uri, self.headers(), body.clone().into());
            let (elsewhere, wanted) = match tokio::time::timeout(timeout, post).await {
                Ok(Ok(posted)) => match self.understand(of, &posted) {
                    Ok(Understood::Done(answer)) => return Ok(answer),
                    Ok(Understood::Again { reason, elsewhere, after }) => {
                        why = reason;
                        (elsewhere, after)
                    }
                    // One of the nodes may be on the right chain.
                    Err(ClientError::Refused { code, detail })
                        if code == WRONG_CHAIN && (tried as usize) < self.route.nodes().len() =>
                    {
                        why = detail;
                        (true, None)
                    }
                    Err(error) => return Err(error),
                },
                Ok(Err(error)) => {
                    why = error.to_string();
                    (true, None)
                }
                Err(_) => {
                    why = format!("nothing within {timeout:?}");
                    (true, None)
                }
            };
            if elsewhere {
                self.route.leave(of, at);
            }
            if tried == tries {
                break;
            }
            if elsewhere && (tried as usize) < self.route.nodes().len() {
                tokio::time::sleep(NEXT_NODE_PAUSE.min(pause)).await;
            } else {
                tokio::time::sleep(wanted.unwrap_or(pause).min(PAUSE_MAX)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        Err(ClientError::NoAnswer(why))
    }

    fn understand(&self, of: Address, posted: &Posted) -> Result<Understood, ClientError> {
        let word = |name: &str| posted.headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(owner) = word(OWNER) {
            self.route.learn(of, owner);
        }
        let seconds = word(RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok());
        let again = |reason: String, elsewhere: bool| Understood::Again {
            reason,
            elsewhere,
            after: seconds.map(Duration::from_secs),
        };
        match Advice::read(posted.status, &posted.body) {
            Advice::Done => Ok(match serde_json::from_slice(&posted.body) {
                Ok(body) => {
                    let forwarded = posted.headers.contains_key(FORWARDED);
                    Understood::Done(Answer { status: posted.status, body, forwarded })
                }
                Err(error) => again(format!("unreadable: {error}"), true),
            }),
            Advice::Again { problem, elsewhere, .. } => {
                Ok(again(format!("{}: {}", problem.code, problem.detail), elsewhere))
            }
            Advice::Refused(problem) => {
                Err(ClientError::Refused { code: problem.code, detail: problem.detail })
            }
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if let Some(chain_id) = self.chain_id {
            headers.insert(CHAIN_ID, HeaderValue::from(chain_id.get()));
        }
        headers
    }
}

/// What an answer means for the next try.
enum Understood {
    Done(Answer),
    Again { reason: String, elsewhere: bool, after: Option<Duration> },
}
