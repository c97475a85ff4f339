//! Sends requests to other nodes on a caller's behalf, within limits.
//!
//! Owns connections and their limits, and signs what it sends ([`super::node_auth`]). Never looks into a
//! request, and never sends one twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tollgate_engine::{Destination, Engine};
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits, RefusedAddresses};
use tollgate_model::NodeId;

use super::LONG_POLL_LIMIT;
use super::access::CALLER;
use super::dispatch::ROUTED;
use super::forward::{CHAIN_ID, FORWARDED};
use super::middleware::TRACE_ID;
use super::node_auth::{HOPS, NodeAuth, next_hop};
use super::tls::PeerTls;

/// The longest time to connect (I13). Nodes are near each other, but a full queue at
/// the other end drops the first packet, which is sent again after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for another node's answer: less than a caller has to wait at most (I13).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);
/// Requests to one node at a time. A bound for each, so that a slow one takes nothing from the
/// others (I13, I14).
const IN_FLIGHT_MAX: usize = 256;
/// Requests at a time for chains that this node does not serve (I13).
const PASSED_ON_MAX: usize = 256;
/// Connections that are kept for later.
const IDLE_MAX: usize = 64;
/// The longest answer: that to a full batch.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The interval at which the other node's entry in the list of nodes is checked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The headers of a caller that another node needs.
const FORWARDED_HEADERS: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    // Only at a node that asks for no keys: another one names the key in `CALLER` instead.
    header::AUTHORIZATION,
    CALLER,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("traceparent"),
    TRACE_ID,
];

/// Connections to the other nodes.
pub(crate) struct Peers {
    http: PeerHttp,
    auth: Option<Arc<NodeAuth>>,
    in_flight: Mutex<HashMap<NodeId, Arc<Semaphore>>>,
    /// Reads of chains that only other nodes serve.
    passed_reads: Semaphore,
    /// Other requests for such chains.
    passed_writes: Semaphore,
}

/// The reason why there is no answer of the other node.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The node was not reached: nothing was done.
    NotSent(String),
    /// The limit of requests to it is reached: nothing was done.
    Full,
    /// The node received the request, and may have done it.
    NoAnswer(String),
}

impl From<HttpError> for Unanswered {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Unreachable(why) => Self::NotSent(why),
            HttpError::NoAnswer(_) | HttpError::TooLong { .. } | HttpError::CutOff { .. } => {
                Self::NoAnswer(error.to_string())
            }
        }
    }
}

/// The client for requests to other nodes. Made anew when the files of its TLS have changed.
struct PeerHttp {
    tls: Option<PeerTls>,
    /// The client, and the version of the files that it was made from.
    made: RwLock<(u64, Arc<HttpClient>)>,
}

impl PeerHttp {
    const LIMITS: Limits = Limits {
        connect_timeout: CONNECT_TIMEOUT,
        idle_max: IDLE_MAX,
        response_bytes_max: ANSWER_BYTES_MAX,
    };

    /// URLs of nodes are rows of the database: whoever may write there must not reach the cloud's metadata
    /// service through a node.
    const REFUSED: RefusedAddresses = RefusedAddresses::LinkLocal;

    fn new(tls: Option<PeerTls>) -> Self {
        let made = match &tls {
            None => (0, Arc::new(HttpClient::refusing(&Self::LIMITS, Self::REFUSED))),
            Some(tls) => Self::make(tls),
        };
        Self { tls, made: RwLock::new(made) }
    }

    fn make(tls: &PeerTls) -> (u64, Arc<HttpClient>) {
        let (version, config) = tls.current();
        (version, Arc::new(HttpClient::refusing_with_tls(&Self::LIMITS, Self::REFUSED, &config)))
    }

    fn client(&self) -> Arc<HttpClient> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &self.tls {
            Some(tls) if tls.version() != made.0 => {
                let new = Self::make(tls);
                *self.made.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
                new.1
            }
            Some(_) | None => made.1,
        }
    }
}

impl Peers {
    /// Connections with these certificates, for requests that are signed by `auth`.
    pub(crate) fn new(auth: Option<Arc<NodeAuth>>, tls: Option<PeerTls>) -> Self {
        let passed = || Semaphore::new(PASSED_ON_MAX);
        Self {
            http: PeerHttp::new(tls),
            auth,
            in_flight: Mutex::default(),
            passed_reads: passed(),
            passed_writes: passed(),
        }
    }

    /// Posts a caller's request to another node, which must not forward it again.
    pub(crate) async fn forward(
        &self,
        engine: &Engine,
        to: &Destination,
        path: &str,
        given: &HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, Unanswered> {
        let room = self.room(engine, &to.node);
        let _permit = room.try_acquire().map_err(|_| Unanswered::Full)?;
        let uri: Uri = format!("{}{path}", to.url)
            .parse()
            .map_err(|_| Unanswered::NotSent(format!("{} is not a URL", to.url)))?;
        let mut headers = HeaderMap::new();
        for name in FORWARDED_HEADERS {
            // All of them: whether one may stand twice, the other node decides.
            for value in given.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        headers.insert(FORWARDED, HeaderValue::from_static("1"));
        headers.insert(CHAIN_ID, HeaderValue::from(engine.chain_id().get()));
        headers.insert(HOPS, next_hop(given));
        if let Some(auth) = &self.auth {
            auth.sign(engine.node(), (to.url.as_str(), &Method::POST, path), &mut headers, &body);
        }
        let client = self.http.client();
        let post = client.post(&uri, headers, body);
        tokio::select! {
            posted = post => recognised(given, posted?),
            why = lost(engine, &to.node) => Err(Unanswered::NoAnswer(why)),
        }
    }

    /// Passes a caller's request on to a node that serves its chain. Signed by `own`, a node of this process;
    /// before any chain has started there is none, and the other node takes it as a caller's.
    pub(crate) async fn pass_on(
        &self,
        own: Option<&NodeId>,
        url: &str,
        parts: &Parts,
        body: Bytes,
    ) -> Result<HttpResponse, Unanswered> {
        // Long polls must not take the room of creates.
        let is_read = parts.method == Method::GET;
        let room = if is_read { &self.passed_reads } else { &self.passed_writes };
        let limit = if is_read { LONG_POLL_LIMIT } else { ANSWER_TIMEOUT };
        let _permit = room.try_acquire().map_err(|_| Unanswered::Full)?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri: Uri = format!("{url}{path}")
            .parse()
            .map_err(|_| Unanswered::NotSent(format!("{url} is not a URL")))?;
        let mut headers = HeaderMap::new();
        for name in FORWARDED_HEADERS.into_iter().chain([CHAIN_ID, ROUTED]) {
            for value in parts.headers.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        headers.insert(HOPS, next_hop(&parts.headers));
        if let (Some(auth), Some(own)) = (&self.auth, own) {
            auth.sign(own, (url, &parts.method, path), &mut headers, &body);
        }
        let client = self.http.client();
        let sent = client.send(parts.method.clone(), &uri, headers, body);
        match tokio::time::timeout(limit, sent).await {
            Ok(answered) => recognised(&parts.headers, answered?),
            Err(_) => Err(Unanswered::NoAnswer(format!("no answer within {limit:?}"))),
        }
    }

    fn room(&self, engine: &Engine, node: &NodeId) -> Arc<Semaphore> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = in_flight.get(node) {
            return room.clone();
        }
        // As many as there are nodes.
        in_flight.retain(|known, _| engine.is_live(known));
        let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        in_flight.insert(node.clone(), room.clone());
        room
    }
}

/// A node that refuses a key which this one has checked did not recognise this node: nothing was done, and the
/// caller's key is not to blame.
fn recognised(given: &HeaderMap, answer: HttpResponse) -> Result<HttpResponse, Unanswered> {
    if given.contains_key(CALLER) && answer.status == StatusCode::UNAUTHORIZED.as_u16() {
        let why = "it did not recognise this node's signature or the key; are the clocks right?";
        return Err(Unanswered::NotSent(why.to_owned()));
    }
    Ok(answer)
}

/// Ends when an answer is no longer to be expected: a process that was suspended keeps its connections
/// open and answers nobody.
async fn lost(engine: &Engine, node: &NodeId) -> String {
    let begun = Instant::now();
    while begun.elapsed() < ANSWER_TIMEOUT {
        sleep(LOOK_EVERY).await;
        if !engine.is_live(node) {
            return "it does not renew its entry in the list of nodes".to_owned();
        }
    }
    format!("no answer within {ANSWER_TIMEOUT:?}")
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[tokio::test]
    async fn node_that_names_a_link_local_address_is_not_called() {
        let peers = Peers::new(None, None);
        for url in ["http://169.254.169.254", "https://[fe80::1]:8550"] {
            let (parts, ()) = Request::get("/api/v1/tx").body(()).unwrap().into_parts();
            let answer = peers.pass_on(None, url, &parts, Bytes::new()).await;
            let Err(Unanswered::NotSent(why)) = answer else { panic!("{url}: {answer:?}") };
            assert!(why.contains("link-local"), "{why}");
        }
    }
}
