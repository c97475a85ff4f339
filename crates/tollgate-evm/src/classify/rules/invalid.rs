//! Answers about bytes that no node could accept. They may reject a transaction, so no phrase may have
//! another meaning; "invalid transaction" alone is not listed, because substrate uses it for nonces too.

use tollgate_model::answer::AnswerClass::{Invalid, Unknown};

use super::super::rule::Rule;

/// Fees that contradict each other or overflow.
pub(super) const FEES: &[Rule] = &[
    // geth and its forks, reth, besu ("exceeds max fee per gas"), nethermind, hardhat, klaytn
    Rule::new(
        Invalid,
        &[
            "priority fee .. higher/greater/more than max fee",
            "priority fee .. exceeds max fee",
            "max priority fee greater",
            "priority fee .. more then max fee",
            "priority fee per gas | cannot be higher",
            "max fee per gas .. smaller/less than max priority",
            "max fee per gas higher than max priority",
            "tip above fee cap",
            "tip higher than fee cap",
            "cannot be higher than max fee per gas",
        ],
    ),
    Rule::new(Invalid, &["higher than 2 256/64/128"]),
    // frontier
    Rule::new(Invalid, &["invalid fee input"]),
];

/// The rest.
pub(super) const RULES: &[Rule] = &[
    // cosmos says so of a wrong sequence too, and names it
    Rule::new(Unknown, &["verify account number"]),
    // geth ("invalid sender", "invalid transaction v, r, s values"), besu, parity, hedera
    // (INVALID_SIGNATURE), nethermind ("InvalidTxSignature"), aurora, monad
    Rule::new(
        Invalid,
        &[
            "invalid sender/ecdsa",
            "invalid/verify/bad/extract/missing signature",
            "invalid tx/transaction signature",
            "invalid transaction v , r , s",
            "signature is invalid/incorrect",
            "signature verification failed",
            "signature error/recovery",
            "^sigerror",
            "invalid fee payer",
            "signer does not match",
            "derived from signature",
            "invalid v/r/s value",
        ],
    )
    // a signature on the request is not the transaction's
    .unless(&[
        "request signature",
        "signature header",
        "x flashbots",
        "jwt",
        "api key",
        "webhook",
        "certificate",
        "tls",
    ]),
    // nethermind ("FailedToResolveSender"), conflux ("Can not recover pubkey"), erigon, klaytn
    Rule::new(
        Invalid,
        &[
            "failed/unable to recover sender",
            "failed to resolve sender",
            "recover pubkey",
            "recover public key",
            "could not recover sender/signer",
            "cannot recover sender/signer",
            "unable to recover signer",
        ],
    ),
    // chain id: erigon, parity, monad, besu, hedera ("ChainId (5) not supported"), hardhat
    Rule::new(
        Invalid,
        &[
            "invalid/wrong/incorrect/mismatched chain id",
            "invalid tx chain id",
            "incorrect l1 chain id",
            "chain id .. , expected",
            "transaction is for chain",
            "chain id mismatch",
            "chain id does not match",
            "chain id doesnt match",
            "chain id is required",
            "chain id .. not supported",
            "incompatible eip 155",
            "signed for another chain",
            "should not have a chain id",
            "should not have chain id",
        ],
    ),
    // geth: "only replay-protected (EIP-155) transactions allowed over RPC"; monad, cosmos
    Rule::new(Invalid, &["replay protect", "unprotected transaction", "pre eip 155"]),
    // the sender has code: geth, nethermind, parity, reth
    Rule::new(
        Invalid,
        &[
            "not an eoa",
            "sender is contract",
            "from a non account",
            "sender has code",
            "signer has bytecode",
        ],
    ),
    // types: geth, erigon ("fork … not activated"), reth ("before Berlin"), nethermind, celo
    Rule::new(
        Invalid,
        &[
            "invalid/unknown/unsupported transaction/tx type",
            "transaction type not .. supported",
            "tx type .. not supported",
            "transaction type .. is not activated/supported",
            "type .. transactions are not supported",
            "legacy/blob/1559 transactions are not supported",
            "blob transactions are disabled",
            "unsupported eip",
            "eip 1559 is not activated",
            "eip1559 .. not supported",
            "access list not supported",
            "should not have access list",
            "eth compatible transactions is not enabled",
        ],
    ),
    // encodings: geth ("rlp: …"), reth, anvil, hardhat, erigon ("RLPTooLong"), aurora, conflux
    Rule::new(
        Invalid,
        &[
            "^rlp |",
            "invalid/tx/decode rlp",
            "rlp decod",
            "^rlp too/incorrect/expected/is",
            "failed to decode .. transaction",
            "failed to decode tx",
            "cannot decode transaction",
            "could not decode/parse transaction",
            "unable to decode transaction/raw/signed",
            "error decoding transaction",
            "transaction too short",
            "empty transaction data",
            "empty typed transaction",
            "hex string",
            "invalid hex",
            "cannot unmarshal hex",
            "invalid raw/serialized transaction",
            "malformed transaction",
            "invalid message/transaction format",
            "invalid , transaction hash is null",
            "invalid transaction body",
            "failed to parse transaction",
        ],
    )
    // a proxy that could not read what the node behind it said
    .unless(&["response"]),
    // sizes: geth, erigon ("initcode too large"), reth, sei ("Tx too large"), lotus, parity, linea
    Rule::new(
        Invalid,
        &[
            "oversized data",
            "init code too large",
            "init code size",
            "code size exceeded",
            "encoded length",
            "length limit exceeded",
            "contract size too big",
            "input data too large",
            "tx/transaction/body/entity/content/payload too large",
            "transaction is too big",
            "transaction too big",
            "too big transaction",
            "transaction oversize",
            "transaction size .. exceeds",
            "tx data exceeds",
            "mpool message too large",
            "calldata .. greater than the allowed max",
            "authorization list too large",
        ],
    )
    // what the node behind a proxy answered may be too large as well
    .unless(&["response"]),
    // blobs and delegations: geth, erigon, reth, besu, nethermind
    Rule::new(
        Invalid,
        &[
            "kzg commitment/verif/proof/validation",
            "blobless",
            "blob limit exceeded",
            "too many blobs",
            "number of blobs",
            "at least one/1 blob",
            "max blobs per block",
            "blob hash/proof",
            "blob versioned hash",
            "blob transaction of type create",
            "blob transaction is a create",
            "total blob gas too high",
            "blob tx gas limit exceeded",
            "missing sidecar",
            "sidecar version",
            "form of a create transaction",
            "authorization list/tuple",
            "set code tx",
        ],
    ),
    // numbers: geth ("negative value"), nethermind ("Int256Overflow"), hedera ("Value below …
    // wei"), lotus
    Rule::new(
        Invalid,
        &[
            "negative value",
            "int 256 overflow",
            "transaction overflow",
            "value below .. wei",
            "more filecoin than will ever exist",
            "invalid auxiliary data",
        ],
    ),
    // forbidden to the sender or the target: nitro, parity, harmony, bsc, besu, avalanche, linea,
    // zksync, hedera
    Rule::new(
        Invalid,
        &[
            "forbidden sender",
            "sender/recipient/code is banned",
            "transaction is not permitted",
            "sender account not authorized",
            "sender not authorized/whitelisted",
            "sender is not on the whitelist",
            "address of transaction in blacklist",
            "sender or to in black list",
            "sender/address in black list",
            "address/sender .. blacklisted",
            "non allow listed",
            "not in the allow list",
            "legally prohibited",
            "unauthorized deployer",
            "receivers signature is enabled",
            "cannot receive transactions",
        ],
    )
    // who is shut out is the caller, not the transaction
    .unless(&["^ip$", "api", "request ip", "origin"]),
    // celo: the fee's currency
    Rule::new(
        Invalid,
        &["non whitelisted fee currency", "unregistered fee currency", "fee currency not"],
    ),
    // zkevm, linea: too much for a proof, at any price
    Rule::new(Invalid, &["not enough .. counters", "out of counters", "line count for module"]),
    // harmony, lotus
    Rule::new(Invalid, &["invalid shard", "staking message does not match", "invalid to address"]),
    // besu's plug-ins
    Rule::new(Invalid, &["plugin has marked the transaction as invalid"]),
];
