//! Answers about the endpoint itself: quota, outage, time-outs, and features it does not have.

use tollgate_model::answer::AnswerClass::{RateLimited, Transient, Unknown};

use super::super::rule::Rule;

/// Phrases with no other meaning. Checked before all rules that may reject a transaction.
pub(super) const CLEAR: &[Rule] = &[
    // everybody, hedera ("HBAR rate limit"), optimism ("sender is over rate limit")
    Rule::new(RateLimited, &["^rate limit", "rate exceeded/limited", "rate is limited"]),
    // the status' own words
    Rule::new(RateLimited, &["too many request"]),
    // infura: "daily request count exceeded", quicknode: "request limit reached"
    Rule::new(
        RateLimited,
        &[
            "request/requests/call/rps limit",
            "request count exceeded",
            "requests/request/calls per second",
            "requests exceeded",
            "max/allowed rps",
        ],
    ),
    // alchemy: "exceeded its compute units per second capacity", "Monthly capacity limit
    // exceeded"; proxyd: "backend is over capacity"
    Rule::new(
        RateLimited,
        &["compute unit", "capacity limit/exceeded", "over capacity", "per second capacity"],
    ),
    // ankr, drpc, getblock, aws: quotas and plans
    Rule::new(
        RateLimited,
        &[
            "quota",
            "throttl",
            "credits limited",
            "out of credits",
            "usage/plan limit",
            "upgrade your plan",
            "upgrade to",
            "free tier",
            "slow down",
            "too much load",
            "limit for your plan",
            "exceeded your",
            "concurrent requests",
            "global transaction limit exceeded",
        ],
    ),
    // gateways
    Rule::new(
        Transient,
        &[
            "bad gateway",
            "gateway time out",
            "service/temporarily unavailable",
            "temporarily not available",
            "web server is down",
            "origin is unreachable",
            "backend fetch failed",
            "upstream connect/request/server",
            "no healthy upstream",
            "load balancer",
        ],
    ),
    // time
    Rule::new(Transient, &["timed/time out", "deadline exceeded", "context canceled/cancelled"]),
    // the wire
    Rule::new(
        Transient,
        &[
            "connection refused/reset/closed/aborted/error/lost",
            "econn",
            "broken pipe",
            "socket hang up",
            "network is unreachable",
            "network error",
            "no such host",
            "dial tcp",
            "tls handshake",
            "unexpected eof",
            "channel closed",
            "failed to fetch/connect",
            "fetch failed",
            "enotfound",
            "getaddrinfo",
            "error sending request",
            "could not connect",
            "not connected to any peers",
            "no connection$",
        ],
    ),
    // the end of a stream, not of a contract in the EVM's object format
    Rule::new(Transient, &["^eof$"]).unless(&["code", "contract"]),
    // nodes that are behind or starting: besu ("not yet in sync"), nethermind, parity, metis
    Rule::new(
        Transient,
        &[
            "syncing",
            "not yet in sync",
            "initial sync",
            "not synced",
            "out of sync",
            "pool not enabled",
            "world state unavailable",
            "state not available",
            "missing trie node",
            "header not found",
            "block unavailable",
            "shutting down",
            "under maintenance",
            "maintenance mode",
        ],
    ),
];

/// Phrases that proxies also put around a node's answer, so they are checked last.
pub(super) const VAGUE: &[Rule] = &[
    // a feature that the endpoint does not have tells nothing about the transaction
    Rule::new(
        Unknown,
        &[
            "method .. does not exist",
            "method .. not supported/available/whitelisted/allowed",
            "method not enabled",
            "not supported by this endpoint",
            "unauthorized",
            "forbidden",
            "access denied",
            "api key",
            "project id",
            "authentication",
            "must be authenticated",
            "not found",
        ],
    )
    .unless(&["block .. not found", "state not found"]),
    // eip-1474's -32005, as infura and others write it; the bare number
    Rule::new(RateLimited, &["limit exceeded/reached", "exceeded .. limit", "^429$", "^1015$"])
        .unless(&["memory limit"]),
    Rule::new(
        Transient,
        &[
            "internal/server/trie error",
            "internal json rpc error",
            "internal eth error",
            "blocking task error",
            "unavailable",
            "not available/healthy/running",
            "overload",
            "busy",
            "try again",
            "retry later",
            "please retry",
            "upstream",
            "backend",
            "offline",
            "unreachable",
            "unhealthy",
            "sequencer",
            "database",
            "block .. not found",
            "unknown block",
            "temporarily banned",
            "returns a null value",
            "invalid/bad/missing response",
            "invalid json",
            "looking for beginning of value",
            "unexpected end of json",
            "in json at position",
            "platform not active",
            "platform transaction not created",
            "not enough effective connection",
            "lock taken",
            "error encountered",
            "immature",
            "runtime api",
            "unable to process",
            "not yet up",
            "communicating with",
            "disconnected",
            "while fetching",
            "beyond head",
            "forwarding target",
            "not found in chain",
            "^500$",
            "^502$",
            "^503$",
            "^504$",
        ],
    )
    .unless(&["unknown/unexpected error", "json rpc version"]),
];
