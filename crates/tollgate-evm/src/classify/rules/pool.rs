//! Answers about a transaction and others in the pool: replacement, already known, pool full.

use tollgate_model::answer::AnswerClass::{AlreadyKnown, PoolFull, ReplacementUnderpriced};

use super::super::rule::Rule;

/// The same nonce is in the pool, and the new transaction pays too little more. Checked before "already
/// known", because some nodes answer "already in the pool" about the earlier attempt.
pub(super) const REPLACEMENT: &[Rule] = &[
    // geth and its forks, erigon, besu, nethermind, reth, anvil, hardhat, op-geth, zkevm
    Rule::new(ReplacementUnderpriced, &["replacement .. underpriced", "replacement .. too low"]),
    // parity: "There is another transaction with same nonce in the queue", klaytn: "another tx
    // which has the same nonce"
    Rule::new(
        ReplacementUnderpriced,
        &[
            "another transaction/tx with same nonce",
            "another transaction/tx with the same nonce",
            "another tx which has the same nonce",
        ],
    )
    // zksync's lock: nothing is said about the price
    .unless(&["is in progress"]),
    // conflux: "Tx with same nonce already inserted. To replace it, …", lotus: "message with nonce
    // already exists", zkevm: "there already exists a transaction with the same nonce"
    Rule::new(
        ReplacementUnderpriced,
        &[
            "same nonce already",
            "with nonce already exists",
            "already exists/have .. with the same nonce",
            "already exists .. with same nonce",
        ],
    ),
    // lotus: "already in mpool, increase GasPremium to … to trigger replace by fee"
    Rule::new(ReplacementUnderpriced, &["replace by fee", "to trigger rbf"]),
    // reth's pool: "insufficient gas price to replace existing transaction"; hardhat: "… of at
    // least … is necessary to replace the existing transaction"
    Rule::new(
        ReplacementUnderpriced,
        &["to replace existing", "to replace the existing", "too low to replace"],
    ),
    // erigon: "could not replace existing tx", "replaced by transaction with higher tip";
    // nethermind: "ReplacementNotAllowed"; monad: "An existing transaction had higher priority"
    Rule::new(
        ReplacementUnderpriced,
        &[
            "could not replace",
            "cannot replace existing",
            "replacement not allowed",
            "replaced by transaction with higher",
            "replaced by better",
            "transaction had higher priority",
            "existing tx has higher",
            "too cheap to replace",
            "not bumped enough",
        ],
    ),
    // substrate: "Priority is too low: (16 vs 16)", "Pool(TooLowPriority { … })"
    Rule::new(ReplacementUnderpriced, &["priority is too low", "too low priority"]),
    // relays: "underpriced to replace", "fee increase is not enough"
    Rule::new(
        ReplacementUnderpriced,
        &["underpriced .. replace", "gas price .. bump .. too small", "fee bump"],
    ),
];

/// The node has this transaction already.
pub(super) const KNOWN: &[Rule] = &[
    // geth, erigon, nethermind, gnosis ("alreadyknown"), avalanche
    Rule::new(AlreadyKnown, &["already known"]).unless(&["block already known to be bad"]),
    // older geth: "known transaction: <hash>"; besu, klaytn, zksync. Not "unknown transaction".
    Rule::new(AlreadyKnown, &["^known transaction/tx"]),
    // parity, anvil, reth, substrate: "already imported"; zksync: "is already in the system"
    Rule::new(AlreadyKnown, &["already imported", "already in the system/pool", "already in pool"]),
    // cosmos, sei: "tx already exists in cache"; tendermint: "tx already in mempool"
    Rule::new(
        AlreadyKnown,
        &[
            "already exists in cache/the",
            "already in .. mempool/txpool/queue",
            "transaction already exists",
            "tx already exist",
        ],
    ),
    // erigon: "existing txn with same hash"
    Rule::new(AlreadyKnown, &["existing txn/tx with same hash"]),
    // nethermind: it waits in the node's own pool
    Rule::new(AlreadyKnown, &["own nonce already used"]),
    // harmony: "transaction already finalized"; erigon: "mined"
    Rule::new(
        AlreadyKnown,
        &[
            "already finalized/mined/confirmed/executed",
            "already been mined/executed",
            "internal error | mined$",
        ],
    ),
    // hedera: DUPLICATE_TRANSACTION; tron: DUP_TRANSACTION_ERROR; providers
    Rule::new(
        AlreadyKnown,
        &["duplicate/dup transaction", "duplicate tx", "transaction duplicated"],
    ),
    // providers and relays
    Rule::new(
        AlreadyKnown,
        &[
            "already submitted/sent/received/queued/broadcast/processed/included",
            "already been submitted/sent/broadcast/processed",
            "already pending",
            "same hash was already",
            "same hash already",
        ],
    )
    .unless(&["same nonce", "request"]),
    // reth's eth_sendRawTransactionSync: it is in the pool, only not mined in time
    Rule::new(AlreadyKnown, &["was added to the mempool/pool"]),
];

/// The pool, or the sender's share of it, is full.
pub(super) const FULL: &[Rule] = &[
    // geth, erigon ("queued sub-pool is full"), klaytn, monad, reth, conflux, besu, cosmos, nitro
    Rule::new(
        PoolFull,
        &[
            "pool/account/queue is full",
            "pool full/overflow/limit",
            "pool is currently full",
            "queue full",
            "full transaction pool",
            "full txpool",
        ],
    )
    // harmony: the price is what the pool has no room for
    .unless(&["pool | transaction underpriced"]),
    // parity: "There are too many transactions in the queue", lotus: "too many pending messages"
    Rule::new(
        PoolFull,
        &[
            "too many transactions/queued",
            "too many pending",
            "too many .. from/for sender",
            "too many .. for this sender",
            "too many .. in the pool",
            "too many .. in mempool",
            "dropped due to limit",
        ],
    ),
    // geth: "account limit exceeded", "in-flight transaction limit reached for delegated accounts"
    Rule::new(
        PoolFull,
        &[
            "account limit exceeded",
            "in flight transaction limit",
            "pending transaction/transactions limit",
            "transaction limit .. reached for",
            "exceeds/exceeded .. pending transactions",
            "max/maximum pending",
        ],
    ),
    // geth: a blob and a plain transaction of one account can't be pooled together; reth and
    // nethermind say "conflict"
    Rule::new(
        PoolFull,
        &[
            "already reserved",
            "transaction type conflict",
            "conflicts with existing transaction",
            "authority has pending",
            "delegation authority",
        ],
    ),
    // zkevm: "account has reached the tx limit in the txpool"
    Rule::new(PoolFull, &["reached the tx limit", "limit in the txpool/pool"]),
    // reth: "discarded outright due to pool size constraints", "identified as a spammer"; erigon
    Rule::new(PoolFull, &["pool size constraints", "spammer"]),
    // substrate: "The transaction couldn't enter the pool because of the limit", ImmediatelyDropped
    Rule::new(PoolFull, &["enter the pool because of", "immediately dropped"]),
    // nitro: "tx dropped due to L2 congestion"
    Rule::new(PoolFull, &["congestion", "congested"]),
];
