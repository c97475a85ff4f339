//! The fuzz target of what nodes write into headers for each other (`docs/fuzzing.md`).

#![cfg_attr(
    not(feature = "fuzzing"),
    allow(unreachable_pub, reason = "the feature makes it public")
)]

use axum::http::{HeaderMap, HeaderValue, Method};
use tollgate_model::NodeId;
use tollgate_model::port::PeerKey;

use super::signature::{Signature, SignedHead, sign};
use super::{HOPS, hops, next_hop};
use crate::http::forward::CHAIN_ID;

const METHOD: Method = Method::POST;

/// Reads bytes as the signature of a node and as its count of hops; then signs a request that has them as its
/// body and among its headers, and reads that signature.
///
/// # Panics
/// If a reader does, if a signature is valid that nobody made, or if one is not that was made.
pub fn node_headers(data: &[u8]) {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(data) {
        headers.insert(HOPS, value.clone());
        assert!(next_hop(&headers) != "0", "hops {} and one more", hops(&headers));
        headers.insert(CHAIN_ID, value.clone());
        let given = Signature::parse(&value);
        let is_guessed = given.is_some_and(|given| given.matches(&key(7), head(&headers)));
        assert!(!is_guessed, "nobody has signed with this key");
    }
    let node = NodeId::from_stored("node-1/0193".to_owned());
    let signed = sign(&node, &key(9), head(&headers), data, (data.len() as u64, 3));
    let Some(read) = signed.as_ref().and_then(Signature::parse) else {
        unreachable!("a node reads what a node writes");
    };
    assert_eq!((read.node.as_str(), read.time_ms), (node.as_str(), data.len() as u64));
    assert!(read.matches(&key(9), head(&headers)) && !read.matches(&key(7), head(&headers)));
}

const fn key(byte: u8) -> PeerKey {
    PeerKey::new([byte; 32])
}

fn head(headers: &HeaderMap) -> SignedHead<'_> {
    let (receiver_url, path) = ("http://node-2:8550", "/api/v1/tx");
    SignedHead { receiver_url, method: &METHOD, path, headers }
}

#[cfg(test)]
mod tests {
    #[test]
    fn node_headers_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("node_headers", super::node_headers);
    }
}
