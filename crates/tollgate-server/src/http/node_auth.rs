//! Requests between nodes: signed by the sender, believed by the receiver only if the signature is valid.
//!
//! `tollgate-forwarded` and `tollgate-routed` change how a request is carried out: it is not forwarded again,
//! may be larger, and is refused in words for nodes. Any caller can write these headers, so they are removed
//! from every request that no node has signed, before anything reads them ([`authenticate`]). Such a request is
//! an ordinary one.
//!
//! Each process start makes a key and publishes it in its rows of the list of nodes. Whoever reads the database
//! can sign as a node; whoever reads the wire can't, and can't repeat what it has seen. It can read the requests,
//! though; only TLS prevents that. The API keys of callers are not among them: a node that forwards a request names the
//! key in `tollgate-caller`, which is signed like the rest.
//!
//! Versions that know no signatures, while nodes are replaced one by one:
//! - An old node forwards without a signature. Here that is an ordinary request, which is carried out here or
//!   forwarded to the owner. If the owner is the old node, it believes `tollgate-forwarded` and does not forward
//!   again.
//! - A new node signs what it sends to an old one, which ignores the signature and believes the header.
//! - A request between new nodes whose clocks differ too much is an ordinary request at the receiver. Two nodes
//!   that each take the other for the owner would send it to and fro, so each adds one to `tollgate-hops`, and a
//!   request with more than [`HOPS_MAX`] is refused. A caller who sets that header harms only its own request.
//!
//! Nothing is lost or done twice in any of these cases: a node that forwards waits for the answer, and whoever
//! carries a request out needs the lease (I1).

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod keys;
mod replays;
mod signature;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tollgate_api::ErrorCode;
use tollgate_model::NodeId;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{PeerKey, Store};
use tracing::{debug, warn};

use super::Chains;
use super::access::CALLER;
use super::body::read_whole;
use super::connections::{ListenerKind, RateLimitedLog};
use super::dispatch::ROUTED;
use super::forward::{CHAIN_ID, FORWARDED, FORWARDED_BODY_BYTES_MAX};
use super::operator_routes::is_operator_route;
use super::problem::Problem;
use keys::PeerKeys;
use replays::SeenSignatures;
use signature::Signature;
pub use signature::{SignedHead, sign};

/// Carries the signature of a node.
pub(crate) const NODE: HeaderName = HeaderName::from_static(tollgate_api::header::NODE);
/// Counts the nodes that have forwarded a request.
pub(crate) const HOPS: HeaderName = HeaderName::from_static(tollgate_api::header::HOPS);
/// The most nodes that forward a request: one to a node of its chain, one to the owner, and one more whose
/// signature was not recognised.
const HOPS_MAX: u64 = 3;
/// The most by which the clocks of two nodes may differ. Both are the machines' own: the database's would cost a
/// query for each request.
const WINDOW: Duration = Duration::from_secs(60);

/// The means by which the other nodes recognise the requests of this one.
#[derive(Clone)]
pub struct PeerIdentity {
    /// The key that this process has published for each of its nodes.
    pub key: PeerKey,
    /// The URL that this process advertises.
    pub advertise_url: String,
    /// The clock of this machine.
    pub clock: Arc<dyn Clock>,
}

/// Signs requests to other nodes and checks theirs.
pub(crate) struct NodeAuth {
    identity: PeerIdentity,
    sequence: AtomicU64,
    keys: PeerKeys,
    seen: Mutex<SeenSignatures>,
    stale: Mutex<RateLimitedLog>,
}

/// Marks a request that another node has signed.
#[derive(Clone, Copy)]
pub(crate) struct FromNode;

impl NodeAuth {
    pub(crate) fn new(
        identity: PeerIdentity,
        store: Arc<dyn Store>,
        live_within: Duration,
    ) -> Self {
        Self {
            identity,
            sequence: AtomicU64::new(0),
            keys: PeerKeys::new(store, live_within),
            seen: Mutex::default(),
            stale: Mutex::default(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.identity.clock.now().unix_micros() / 1_000).unwrap_or_default()
    }

    /// Signs a request of one of this process's nodes.
    pub(crate) fn sign(
        &self,
        node: &NodeId,
        (receiver_url, method, path): (&str, &Method, &str),
        headers: &mut HeaderMap,
        body: &[u8],
    ) {
        let number = (self.now_ms(), self.sequence.fetch_add(1, Ordering::Relaxed));
        let head = SignedHead { receiver_url, method, path, headers };
        let signature = sign(node, &self.identity.key, head, body, number);
        headers.extend(signature.map(|signature| (NODE, signature)));
    }

    /// Checks the head of a request. Returns the digest that its body must have, or `None` if no node has
    /// signed it. A signature is accepted once.
    async fn check(&self, request: &Parts) -> Option<[u8; 32]> {
        let mut given = request.headers.get_all(NODE).iter();
        let (Some(value), None) = (given.next(), given.next()) else { return None };
        let signature = Signature::parse(value)?;
        let (now, window) = (self.now_ms(), WINDOW.as_millis() as u64);
        let key = self.keys.get(&signature.node).await?;
        let head = SignedHead {
            receiver_url: &self.identity.advertise_url,
            method: &request.method,
            path: request.uri.path_and_query().map_or("/", |path| path.as_str()),
            headers: &request.headers,
        };
        if !signature.matches(&key, head) {
            debug!(node_id = signature.node.as_str(), "the signature of a node does not match");
            return None;
        }
        if now.abs_diff(signature.time_ms) > window {
            let mut stale = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(times) = stale.due() {
                let (node, off) = (signature.node.as_str(), now.abs_diff(signature.time_ms));
                warn!(
                    node_id = node,
                    milliseconds = off,
                    times,
                    "clocks of nodes differ, or a replay"
                );
            }
            return None;
        }
        let earliest = now.saturating_sub(window);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.take(signature.time_ms, signature.mac, earliest) {
            warn!(node_id = signature.node.as_str(), "replayed request of a node; not believed");
            return None;
        }
        Some(signature.body)
    }
}

/// Recognises requests of other nodes, and makes all others ordinary ones. Before every other reader of the
/// headers that nodes use among each other.
pub(crate) async fn authenticate(
    State(chains): State<Chains>,
    request: Request,
    next: Next,
) -> Response {
    if hops(request.headers()) > HOPS_MAX {
        let detail = "the request was forwarded by too many nodes; are their clocks right?";
        return Problem::new(ErrorCode::Unavailable, detail).into_response();
    }
    let request = match recognised(&chains, request).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    let is_callers = request.extensions().get() == Some(&ListenerKind::Callers);
    let is_node = request.extensions().get::<FromNode>().is_some();
    if is_callers && !is_node && is_operator_route(request.method(), request.uri().path()) {
        let detail = "there is no such route at this address; operators have another one";
        return Problem::new(ErrorCode::NotFound, detail).into_response();
    }
    next.run(request).await
}

/// A request with its mark if a node has signed it, or without the headers of nodes.
async fn recognised(chains: &Chains, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let signed = match chains.node_auth() {
        Some(auth) if parts.headers.contains_key(NODE) => auth.check(&parts).await,
        Some(_) | None => None,
    };
    let Some(digest) = signed else { return ordinary(Request::from_parts(parts, body)) };
    let mut whole = Request::from_parts(parts.clone(), body);
    DefaultBodyLimit::max(FORWARDED_BODY_BYTES_MAX).apply(&mut whole);
    let body: Bytes = read_whole(whole, &()).await?;
    if signature::digest(&body) != digest {
        debug!("the body of a node's request is not the one that was signed");
        return ordinary(Request::from_parts(parts, Body::from(body)));
    }
    parts.extensions.insert(FromNode);
    Ok(Request::from_parts(parts, Body::from(body)))
}

/// Removes the headers that only nodes may set. `tollgate-hops` stays, and counts: where the clocks of nodes differ,
/// it ends what would go to and fro.
///
/// Nodes of a version that named no chain forwarded without `tollgate-chain-id`. Such a request may be for any
/// chain: it is refused as before, in the words that make the sender look for another node.
fn ordinary(mut request: Request) -> Result<Request, Problem> {
    let headers = request.headers_mut();
    if headers.contains_key(FORWARDED) && !headers.contains_key(CHAIN_ID) {
        let what = "is missing: the request was forwarded and may be for any chain";
        return Err(Problem::of_field(ErrorCode::NotOwner, CHAIN_ID.as_str(), what));
    }
    for name in [FORWARDED, ROUTED, NODE, CALLER] {
        headers.remove(name);
    }
    Ok(request)
}

fn hops(headers: &HeaderMap) -> u64 {
    let given = headers.get(HOPS).and_then(|hops| hops.to_str().ok());
    given.and_then(|hops| hops.parse().ok()).unwrap_or_default()
}

/// The count for a request that is sent on because of one with these headers.
pub(crate) fn next_hop(given: &HeaderMap) -> HeaderValue {
    HeaderValue::from(hops(given).saturating_add(1))
}
