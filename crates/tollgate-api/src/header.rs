//! The names of headers.

/// On an answer: where the node is that works for the submitter. Asking there next saves a hop.
pub const OWNER: &str = "tollgate-owner";
/// On a request: the chain that it is for. A node of another chain does nothing and answers
/// `wrong_chain` (`not_owner` to a node that forwarded the request, so that another one is asked).
pub const CHAIN_ID: &str = "tollgate-chain-id";
/// On a request of another node: it forwarded the request. On an answer: another node gave it. Ignored on a
/// request without a valid [`NODE`].
pub const FORWARDED: &str = "tollgate-forwarded";
/// On a request of another node: it passed the request on because it does not serve the chain. Ignored
/// without a valid [`NODE`].
pub const ROUTED: &str = "tollgate-routed";
/// On a request: the signature of the node that sends it.
pub const NODE: &str = "tollgate-node";
/// On a request of another node: the id of the API key that the caller has shown there, and the caller's address.
/// Ignored without a valid [`NODE`].
pub const CALLER: &str = "tollgate-caller";
/// On a request: the number of nodes that have forwarded it. Too many are refused; nothing else depends on
/// it, so it needs no signature.
pub const HOPS: &str = "tollgate-hops";
/// The trace id, on requests and on answers. The name is the one that proxies know.
pub const TRACE_ID: &str = "x-request-id";
/// On a request: the caller's trace, as in the W3C's Trace Context. On a question to a stuck hook: the trace of the
/// request that made the transaction.
pub const TRACEPARENT: &str = "traceparent";
/// On a request: the wait that the caller wishes for (RFC 7240).
pub const PREFER: &str = "prefer";
/// On an answer: the wait that was applied.
pub const PREFERENCE_APPLIED: &str = "preference-applied";
/// The request id of a create, in place of the one in the body; the key of a batch.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// On a page of CSV: the cursor of the next page.
pub const NEXT_CURSOR: &str = "x-next-cursor";
