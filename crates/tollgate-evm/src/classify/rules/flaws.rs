//! Combinations of words that may reject a transaction, for phrases that are not listed elsewhere: a
//! subject (a signature, a type, a size) and what is wrong with it.
//!
//! Checked last, if nothing in the text, its numbers, the code or the status keeps the transaction alive
//! or is about the endpoint.

use tollgate_model::answer::AnswerClass::{GasLimit, Invalid, Reverted};

use super::super::rule::Rule;

/// The whole text, or its first clause. Nethermind and erigon put it before any flaw of the bytes.
pub(super) const BARE: &str = "invalid";

/// Phrases about the call's only parameter, which is the transaction. Used only with the code for invalid
/// parameters.
pub(super) const PARAMETER: &[Rule] = &[Rule::new(
    Invalid,
    &["invalid .. params/argument", "invalid/required parameter", "required argument"],
)
.unless(ELSEWHERE)];

/// Words about the call or the endpoint, not about the transaction's bytes.
const ELSEWHERE: &[&str] = &[
    "eth send",
    "eth call",
    "eth get",
    "eth estimate",
    "sendraw",
    "^method",
    "endpoint",
    "^rpc",
    "^api",
    "json",
    "request",
    "response",
    "^result",
    "receipt",
    "^header",
    "^server",
    "provider",
    "^node",
    "^peer",
    "pool",
    "queue",
    "^block hash",
    "bundle",
    "session",
    "auth token",
    "access token",
    "bearer",
    "api key",
    "secret",
    "^ip$",
    "origin",
    "jwt",
    "flashbots",
    "subscription",
    "project",
    "websocket",
    "webhook",
    "tls",
    "certificate",
    "channel",
    "config",
    "estimat",
    "per second",
    "retried",
    "retry",
    "^resen",
    "^mined",
    "cloudflare",
    "^filter",
    "^status",
    "parse error",
    "^unknown$",
    // conflux says so whatever its pool has to say, and puts that into the data
    "invalid parameters",
];

/// Words for what is wrong with a subject in the same clause.
const WRONG: &[&str] = &[
    "^invalid",
    "not valid",
    "^incorrect",
    "^wrong",
    "^bad ",
    "mismatch",
    "not match",
    "doesnt match",
    "must match",
    "malformed",
    "unsupported",
    "not supported",
    "missing",
    "cannot be",
    "cant be",
    "must be",
    "must have",
    "required",
    "not allowed",
    "not permitted",
    "not expected",
    "unexpected",
    "^empty",
    "^fail",
    "intrinsic error",
    "^cannot",
    "exceed",
    "too many",
    "too large",
    "too long",
    "unequal",
    "equal number",
];

/// Rules by subject, the most specific first.
pub(super) const RULES: &[Rule] = &[
    // a contract's error
    Rule::new(Reverted, &["^reverted$", "^revert$", "always failing transaction"])
        .with(&["^transaction", "^tx$", "contract", "^call", "execution", "^evm"])
        .unless(&["revert/reverted to", "validation/not/chain revert"]),
    // the EVM's errors, which zkevm, klaytn and reth pass on without a prefix
    Rule::new(
        Reverted,
        &[
            "^invalid opcode/jump",
            "^invalid fe opcode",
            "^invalid static call",
            "^stack overflow",
            "^vm error",
            "contract address collision",
            "code starting with 0xef",
            "max code size exceeded",
            "memory limit exceeded",
            "write protection",
            "return data out of bounds",
        ],
    )
    .unless(&["websocket", "frame"]),
    // how much gas it brings, beside what it needs or may have
    Rule::new(
        GasLimit,
        &[
            "exceed .. gas",
            "gas .. exceed/insufficient/below/overflow",
            "gas .. too low/high/large/small",
            "gas .. not enough",
            "gas .. less/lower/greater than",
            "not enough .. gas$",
            "insufficient .. gas$",
            "out of gas",
            "too much gas",
            "gas limit intrinsic",
        ],
    )
    .unless(&[
        "price", "^fee", "fee$", "^tip", "premium", "fund", "balance", "request", "^cost",
        "estimat",
    ]),
    // who signed it, and how
    Rule::new(
        Invalid,
        &["signature", "ecdsa", "secp256k1", "pubkey", "public key", "v r s", "chain id"],
    )
    .with(WRONG)
    .unless(ELSEWHERE),
    // what it carries
    Rule::new(
        Invalid,
        &[
            "blob",
            "^kzg",
            "sidecar",
            "authorization/auth/access list",
            "authorizations",
            "eip 7702/4844/2930",
            "versioned/commitment hash",
            "commitments",
            "set code",
            "transaction payload",
        ],
    )
    .with(WRONG)
    .unless(ELSEWHERE),
    Rule::new(
        Invalid,
        &[
            "must be present",
            "fields are present",
            "parameter is missing",
            "parameter is not correct",
            "data/transaction is empty",
            "value cant/cannot/must be",
            "value not supported",
            "gas price and .. specified",
            "not active yet",
            "to invalid address",
            "invalid contract address",
            "is not an evm transaction",
        ],
    )
    .unless(ELSEWHERE),
    // what it would cost or move, in numbers that don't exist
    Rule::new(Invalid, &["overflow"])
        .with(&["^transaction", "^tx", "cost", "value", "^gas", "fee", "amount", "payment"])
        .unless(ELSEWHERE),
    // its kind, which this chain has not, or not yet
    Rule::new(
        Invalid,
        &[
            "not supported .. fork/before",
            "not supported tx/transaction type",
            "not support eth/this transaction",
            "not support transaction",
            "unsupported transaction/tx",
            "unsupported .. transaction/tx type",
            "^tx type .. not/unknown",
            "^transaction type .. not/unknown",
            "^transaction .. is/are not supported",
            "^transaction .. is not enabled",
            "^transactions .. not supported/allowed/enabled",
            "^tx .. is not supported",
            "missing enveloped",
        ],
    )
    .unless(ELSEWHERE),
    // its bytes
    Rule::new(
        Invalid,
        &[
            "decod",
            "deserial",
            "unmarshal",
            "malformed",
            "^pars",
            "trailing bytes",
            "odd/invalid length",
        ],
    )
    .with(&["^transaction", "^tx", "^rlp", "^hex", "calldata", "call data", "envelope"])
    .unless(ELSEWHERE),
    // its size
    Rule::new(
        Invalid,
        &[
            "too large/big/long",
            "oversize",
            "size/length .. exceed",
            "exceeds/exceeded .. size",
            "size limit",
            "max tx size",
            "max size",
        ],
    )
    .with(&[
        "^transaction",
        "^tx",
        "max tx",
        "calldata",
        "call/input data",
        "initcode",
        "init/contract code",
        "bytecode",
        "code size",
    ])
    .unless(ELSEWHERE),
    // who may not send it, or be sent to
    Rule::new(
        Invalid,
        &[
            "^sender",
            "recipient",
            "receiver",
            "from/to address",
            "deployer",
            "deployment",
            "contract/account creation",
            "create contract",
            "value transfer",
        ],
    )
    .with(&[
        "not allowed/permitted/authorized",
        "unauthorized",
        "banned",
        "blacklist",
        "black/deny/allow list",
        "blocklist",
        "denied",
        "sanction",
        "forbidden",
        "whitelist",
        "prohibited",
        "prevented",
        "blocked",
    ])
    .unless(ELSEWHERE),
    // zkevm: too much for a proof, at any price
    Rule::new(
        Invalid,
        &[
            "counter .. exceeded",
            "maximum number of steps",
            "row consumption",
            "factory dependencies",
        ],
    )
    .unless(ELSEWHERE),
    // nethermind's word for all that; substrate's "Invalid Transaction" may also be a nonce
    Rule::new(
        Invalid,
        &["^transaction invalid", "^transaction is invalid", "^tx invalid", "^tx is invalid"],
    )
    .unless(ELSEWHERE),
];
