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
    &[
        "invalid params",
        "invalid .. params",
        "invalid argument",
        "invalid .. argument",
        "invalid parameter",
        "required argument",
        "required parameter",
    ],
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
        .unless(&["revert to", "reverted to", "validation revert", "not revert", "chain revert"]),
    // the EVM's errors, which zkevm, klaytn and reth pass on without a prefix
    Rule::new(
        Reverted,
        &[
            "^invalid opcode",
            "^invalid fe opcode",
            "^invalid jump",
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
            "exceeds .. gas",
            "exceed .. gas",
            "exceeded .. gas",
            "gas .. exceed",
            "gas .. too low",
            "gas .. too high",
            "gas .. too large",
            "gas .. too small",
            "gas .. not enough",
            "gas .. insufficient",
            "gas .. less than",
            "gas .. lower than",
            "gas .. greater than",
            "gas .. below",
            "not enough .. gas$",
            "insufficient .. gas$",
            "out of gas",
            "too much gas",
            "gas .. overflow",
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
            "authorization list",
            "authorizations",
            "auth list",
            "eip 7702",
            "eip 4844",
            "eip 2930",
            "access list",
            "versioned hash",
            "commitment hash",
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
            "data is empty",
            "transaction is empty",
            "value cant be",
            "value cannot be",
            "value must be",
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
            "not supported .. fork",
            "not supported .. before",
            "not supported tx type",
            "not supported transaction type",
            "not support eth transaction",
            "not support transaction",
            "not support this transaction",
            "unsupported transaction",
            "unsupported tx",
            "unsupported .. transaction type",
            "unsupported .. tx type",
            "^tx type .. not",
            "^tx type .. unknown",
            "^transaction type .. not",
            "^transaction type .. unknown",
            "^transaction .. is not supported",
            "^transaction .. are not supported",
            "^transaction .. is not enabled",
            "^transactions .. not supported",
            "^transactions .. not allowed",
            "^transactions .. not enabled",
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
            "odd length",
            "invalid length",
        ],
    )
    .with(&["^transaction", "^tx", "^rlp", "^hex", "calldata", "call data", "envelope"])
    .unless(ELSEWHERE),
    // its size
    Rule::new(
        Invalid,
        &[
            "too large",
            "too big",
            "too long",
            "oversize",
            "size .. exceed",
            "length .. exceed",
            "exceeds .. size",
            "exceeded .. size",
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
        "call data",
        "initcode",
        "init code",
        "bytecode",
        "contract code",
        "code size",
        "input data",
    ])
    .unless(ELSEWHERE),
    // who may not send it, or be sent to
    Rule::new(
        Invalid,
        &[
            "^sender",
            "recipient",
            "receiver",
            "from address",
            "to address",
            "deployer",
            "deployment",
            "contract creation",
            "account creation",
            "create contract",
            "value transfer",
        ],
    )
    .with(&[
        "not allowed",
        "not permitted",
        "not authorized",
        "unauthorized",
        "banned",
        "blacklist",
        "black list",
        "blocklist",
        "denied",
        "deny list",
        "sanction",
        "forbidden",
        "whitelist",
        "allow list",
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
