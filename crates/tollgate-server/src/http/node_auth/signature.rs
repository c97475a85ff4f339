//! The signature of a request between nodes: what it covers and how it is written.
//!
//! `tollgate-node: v1 NODE TIME SEQUENCE BODY MAC`: the sender's id, its clock in milliseconds, the number of
//! the request at the sender, SHA-256 of the body and HMAC-SHA256 of everything, both in hex. The body's
//! digest is a field of its own, so that a signature is checked before any of the body is read.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tollgate_model::NodeId;
use tollgate_model::port::PeerKey;

use crate::http::access::CALLER;
use crate::http::dispatch::ROUTED;
use crate::http::forward::{CHAIN_ID, FORWARDED};
use crate::http::middleware::TRACE_ID;

const VERSION: &str = "v1";
/// The first bytes under the MAC: a key that signs something else one day can't be used for this.
const DOMAIN: &[u8] = b"tollgate node request v1";

/// The longest id of a node: its name, a slash and the boot id.
const NODE_BYTES_MAX: usize = NodeId::MAX_NAME_BYTES + 33;

/// The headers that another node reads. All that it trusts or obeys is under the MAC.
const SIGNED_HEADERS: [HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::AUTHORIZATION,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("traceparent"),
    TRACE_ID,
    CHAIN_ID,
    FORWARDED,
    ROUTED,
];

/// The parts of a request that its signature covers besides the body.
#[derive(Clone, Copy)]
pub struct SignedHead<'a> {
    /// The URL that the receiver advertises: a request for one node is worth nothing at another one.
    pub receiver_url: &'a str,
    /// The method.
    pub method: &'a Method,
    /// Path and query.
    pub path: &'a str,
    /// All headers; those that other nodes read are covered.
    pub headers: &'a HeaderMap,
}

/// A signature as it stands in the header.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) node: NodeId,
    pub(super) time_ms: u64,
    pub(super) sequence: u64,
    pub(super) body: [u8; 32],
    pub(super) mac: [u8; 32],
}

/// Signs a request. The time is the sender's clock, in milliseconds since 1970; the sequence number makes
/// requests differ that are otherwise the same.
pub fn sign(
    node: &NodeId,
    key: &PeerKey,
    head: SignedHead<'_>,
    body: &[u8],
    (time_ms, sequence): (u64, u64),
) -> Option<HeaderValue> {
    let body = digest(body);
    let node = node.as_str();
    let mac = mac_of(key, node, head, &body, (time_ms, sequence)).finalize().into_bytes();
    let (body, mac) = (hex(&body), hex(&mac));
    let text = format!("{VERSION} {node} {time_ms} {sequence} {body} {mac}");
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

impl Signature {
    /// Parses the header. `None`: another version, or nothing that a node has written.
    pub(super) fn parse(value: &HeaderValue) -> Option<Self> {
        let mut words = std::str::from_utf8(value.as_bytes()).ok()?.split(' ');
        let mut next = || words.next();
        if next()? != VERSION {
            return None;
        }
        let node = next().filter(|node| node.len() <= NODE_BYTES_MAX)?;
        let node = NodeId::from_stored(node.to_owned());
        let (time_ms, sequence) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let (body, mac) = (unhex(next()?)?, unhex(next()?)?);
        next().is_none().then_some(Self { node, time_ms, sequence, body, mac })
    }

    /// Returns whether the sender with this key wrote the head. Takes the same time wherever the MACs differ.
    pub(super) fn matches(&self, key: &PeerKey, head: SignedHead<'_>) -> bool {
        let number = (self.time_ms, self.sequence);
        let mac = mac_of(key, self.node.as_str(), head, &self.body, number);
        mac.verify_slice(&self.mac).is_ok()
    }
}

pub(super) fn digest(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

/// Each field is preceded by its length, so that none can pass for the end of another.
fn mac_of(
    key: &PeerKey,
    node: &str,
    head: SignedHead<'_>,
    body: &[u8; 32],
    (time_ms, sequence): (u64, u64),
) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())
        .unwrap_or_else(|error| unreachable!("HMAC takes keys of any length: {error}"));
    let mut add = |field: &[u8]| {
        mac.update(&(field.len() as u64).to_be_bytes());
        mac.update(field);
    };
    add(DOMAIN);
    for text in [node, head.receiver_url, head.method.as_str(), head.path] {
        add(text.as_bytes());
    }
    add(&time_ms.to_be_bytes());
    add(&sequence.to_be_bytes());
    add(body);
    for name in SIGNED_HEADERS {
        add(&(head.headers.get_all(&name).iter().count() as u64).to_be_bytes());
        for value in head.headers.get_all(&name) {
            add(value.as_bytes());
        }
    }
    // Only where there is one, so that versions without access control compute the same.
    for value in head.headers.get_all(CALLER) {
        add(CALLER.as_str().as_bytes());
        add(value.as_bytes());
    }
    mac
}

fn hex(bytes: &[u8]) -> String {
    alloy_primitives::hex::encode(bytes)
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let is_plain = text.len() == 64 && !text.starts_with("0x");
    (is_plain && alloy_primitives::hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}
