//! Sends a request until its outcome is known, with a bounded number of tries.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use thiserror::Error;
use tollgate_api::{ErrorCode, path};
use tollgate_http::{HttpResponse, Limits, TlsFiles};
use tollgate_model::{Address, ChainId};

use crate::node::{Node, connect};
use crate::outcome::Outcome;
use crate::route::Route;
use crate::{CHAIN_ID, FORWARDED, OWNER};

/// Connection limits (I13).
const LIMITS: Limits = Limits {
    connect_timeout: Duration::from_secs(10),
    idle_max: 16,
    response_bytes_max: 1024 * 1024,
};
/// The longest pause between two tries, whatever `Retry-After` says (I13).
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The pause before a node that was not yet tried.
const NEXT_NODE_PAUSE: Duration = Duration::from_millis(50);

/// The number and duration of tries before [`ClientError::NoAnswer`] (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    /// Tries over all nodes.
    pub tries: u32,
    /// The time limit of each try.
    pub timeout: Duration,
    /// The pause after the first try; it doubles up to five seconds.
    pub first_pause: Duration,
}

/// About half a minute of pauses: longer than a failed node's replacement takes.
impl Default for RetryPolicy {
    fn default() -> Self {
        let (timeout, first_pause) = (Duration::from_secs(10), Duration::from_millis(100));
        Self { tries: 12, timeout, first_pause }
    }
}

/// The reason why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// A URL, API key or certificate file is unusable.
    #[error("{0}")]
    InvalidConfig(String),
    /// The reservation is no longer the caller's. Don't send what was signed for its nonce.
    #[error("the nonce is no longer reserved for this caller: don't send")]
    Stale,
    /// Tollgate refused the request and would refuse it again.
    #[error("{code}: {detail}")]
    Refused {
        /// The error code of Tollgate's API.
        code: String,
        /// An explanation for people.
        detail: String,
    },
    /// No useful response after all tries. **The request may have been executed**: send it again under
    /// the same request id.
    #[error("no answer: {0}")]
    NoAnswer(String),
}

/// A successful response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// The node forwarded the request to another one.
    pub forwarded: bool,
}

/// A client for one or more nodes of one Tollgate; of one chain, unless [`Client::with_chain`] says
/// which. Cheap to clone; clones share connections and known owners.
#[derive(Clone)]
pub struct Client {
    nodes: Vec<Node>,
    route: Arc<Route>,
    retry: RetryPolicy,
    pub(crate) hold: Option<Duration>,
}

/// The meaning of one try's result for the next try.
enum Try {
    Done(Answer),
    Again { reason: String, elsewhere: bool, after: Option<Duration> },
}

impl Client {
    /// A client for these nodes, by the URLs that they advertise: `http://127.0.0.1:8550`. A load
    /// balancer's URL alone is enough; then every request goes there.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: no URL, or one that is not `http` or `https`.
    pub fn new<U: AsRef<str>>(nodes: impl IntoIterator<Item = U>) -> Result<Self, ClientError> {
        Self::with_tls_files(nodes, &TlsFiles::default())
    }

    /// The same, trusting the certificates of a PEM file as well: for nodes behind a private CA.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: as [`Self::new`], or the file is unusable.
    pub fn with_ca_file<U: AsRef<str>>(
        nodes: impl IntoIterator<Item = U>,
        ca_file: &Path,
    ) -> Result<Self, ClientError> {
        let ca_file = Some(ca_file.to_owned());
        Self::with_tls_files(nodes, &TlsFiles { ca_file, ..TlsFiles::default() })
    }

    /// The same with a certificate of the client as well: for nodes that ask for one (mTLS).
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: as [`Self::new`], or a file is unusable.
    pub fn with_tls_files<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        files: &TlsFiles,
    ) -> Result<Self, ClientError> {
        let http = connect(&LIMITS, files)?;
        let nodes: Result<Vec<Node>, ClientError> =
            urls.into_iter().map(|url| Node::new(url.as_ref(), http.clone())).collect();
        let nodes = nodes?;
        let route = Route::new(nodes.iter().map(|node| node.url().to_owned()))
            .ok_or_else(|| ClientError::InvalidConfig("no node is given".to_owned()))?;
        Ok(Self { nodes, route: Arc::new(route), retry: RetryPolicy::default(), hold: None })
    }

    /// Sends an API key with every request.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`]: the key contains characters that a header can't hold.
    pub fn with_api_key(mut self, key: &str) -> Result<Self, ClientError> {
        let nodes = self.nodes.into_iter().map(|node| node.with_api_key(key));
        self.nodes = nodes.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Restricts the client to one chain: a node of another chain does nothing, and the next one is
    /// tried. Without it, a create is for the chain of the node that accepts it.
    #[must_use]
    pub fn with_chain(mut self, chain_id: ChainId) -> Self {
        let chain_id = HeaderValue::from(chain_id.get());
        let nodes = self.nodes.into_iter();
        self.nodes = nodes.map(|node| node.with_header(CHAIN_ID, chain_id.clone())).collect();
        self
    }

    /// Sets the number and duration of tries.
    #[must_use]
    pub const fn with_retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Creates a transaction exactly once, however many tries it takes. The request id must identify
    /// the caller's intent and be the same after a crash of the caller.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: there is no such transaction. [`ClientError::NoAnswer`]: there may be.
    pub async fn create(
        &self,
        submitter: Address,
        request_id: &str,
        payload: &Value,
    ) -> Result<Answer, ClientError> {
        let body = json!({ "submitter": submitter, "requestId": request_id, "payload": payload });
        self.post(submitter, path::TX, &body).await
    }

    /// Sends a request to the owner of a submitter until its outcome is known. Only for requests that
    /// may be repeated: a create with a request id, an action with an idempotency key.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn post(
        &self,
        submitter: Address,
        path: &str,
        body: &Value,
    ) -> Result<Answer, ClientError> {
        let RetryPolicy { tries, first_pause, .. } = self.retry;
        let (body, mut pause) = (body.to_string(), first_pause);
        let mut why = String::new();
        for tried in 1..=tries.max(1) {
            let node = self.route.node_for(submitter);
            let others_left = (tried as usize) < self.nodes.len();
            let (elsewhere, after) = match self.try_at(node, submitter, path, &body).await {
                Ok(Try::Done(answer)) => return Ok(answer),
                Ok(Try::Again { reason, elsewhere, after }) => {
                    why = reason;
                    (elsewhere, after)
                }
                // One of the other nodes may be of the right chain.
                Err(ClientError::Refused { code, detail })
                    if code == ErrorCode::WrongChain.name() && others_left =>
                {
                    why = detail;
                    (true, None)
                }
                Err(error) => return Err(error),
            };
            if elsewhere {
                self.route.move_on(submitter, node);
            }
            if tried == tries {
                break;
            }
            if elsewhere && others_left {
                tokio::time::sleep(NEXT_NODE_PAUSE.min(pause)).await;
            } else {
                tokio::time::sleep(after.unwrap_or(pause).min(PAUSE_MAX)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        Err(ClientError::NoAnswer(why))
    }

    async fn try_at(
        &self,
        node: usize,
        submitter: Address,
        path: &str,
        body: &str,
    ) -> Result<Try, ClientError> {
        let body = body.to_owned().into();
        match self.nodes[node].send(Method::POST, path, body, self.retry.timeout).await {
            Ok(response) => self.judge(submitter, &response),
            Err(error) => {
                Ok(Try::Again { reason: error.to_string(), elsewhere: true, after: None })
            }
        }
    }

    fn judge(&self, submitter: Address, response: &HttpResponse) -> Result<Try, ClientError> {
        if let Some(owner) = response.header(OWNER) {
            self.route.learn(submitter, owner);
        }
        let after = response.retry_after();
        match Outcome::read(response.status, &response.body) {
            Outcome::Done => Ok(match serde_json::from_slice(&response.body) {
                Ok(body) => {
                    let forwarded = response.headers.contains_key(FORWARDED);
                    Try::Done(Answer { status: response.status, body, forwarded })
                }
                Err(error) => {
                    Try::Again { reason: format!("unreadable: {error}"), elsewhere: true, after }
                }
            }),
            Outcome::Retry { problem, elsewhere, .. } => {
                let reason = format!("{}: {}", problem.code, problem.detail);
                Ok(Try::Again { reason, elsewhere, after })
            }
            Outcome::Refused(problem) if problem.code == ErrorCode::StaleOwnerToken.name() => {
                Err(ClientError::Stale)
            }
            Outcome::Refused(problem) => {
                Err(ClientError::Refused { code: problem.code, detail: problem.detail })
            }
        }
    }
}
