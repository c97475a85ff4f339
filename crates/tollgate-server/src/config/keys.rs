//! Every setting there is: the one table that files, variables, flags and documents follow.
//!
//! A setting that has no effect does not stand here. Owns no values.

mod governance;
mod http;

use std::sync::LazyLock;

use super::kind::Kind;

/// What holds where nobody says anything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preset {
    /// This value.
    Value(&'static str),
    /// Nothing: the setting is off, or somebody has to say.
    None,
    /// Found out at the start, as described.
    Found(&'static str),
}

/// A kind of database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backend {
    Postgres,
    Sqlite,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its place in the file, `section.name`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) preset: Preset,
    /// Without the dashes.
    pub(crate) flag: Option<&'static str>,
    /// A variable beside the systematic one and the flag's.
    pub(crate) also: Option<&'static str>,
    /// The setting that the content of this file stands for.
    pub(crate) holds: Option<&'static str>,
    /// The database that it is for, if it has no effect with the other.
    pub(crate) only_with: Option<Backend>,
    /// What to write in an example, as TOML, where the preset can't be written.
    pub(crate) example: &'static str,
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, kind: Kind, preset: Preset, about: &'static str) -> Key {
    let (flag, also, holds, only_with) = (None, None, None, None);
    Key { name, kind, preset, flag, also, holds, only_with, example: "", about }
}

impl Key {
    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn also(self, variable: &'static str) -> Self {
        Self { also: Some(variable), ..self }
    }

    const fn holds(self, name: &'static str) -> Self {
        Self { holds: Some(name), ..self }
    }

    const fn only_with(self, backend: Backend) -> Self {
        Self { only_with: Some(backend), ..self }
    }

    const fn like(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// The variables that set it, the systematic one first.
    pub(crate) fn variables(&self) -> Vec<String> {
        let upper = |text: &str| text.replace(['.', '-'], "_").to_uppercase();
        let mut names = vec![format!("TOLLGATE_{}", upper(self.name))];
        names.extend(self.flag.map(|flag| format!("TOLLGATE_{}", upper(flag))));
        names.extend(self.also.map(str::to_owned));
        names.dedup();
        names
    }

    /// The part before the last dot; empty at the top.
    pub(crate) fn section(&self) -> &'static str {
        self.name.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The part after the last dot.
    pub(crate) fn short(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, short)| short)
    }
}

/// The setting of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

use Preset::{Found, Value};

/// All of them, in the order of the documents.
pub(crate) static KEYS: LazyLock<Vec<Key>> =
    LazyLock::new(|| [FIRST, governance::KEYS, http::KEYS, LAST].concat());

/// The node, its database, its chain and its submitters.
static FIRST: &[Key] = &[
    key("listen", Kind::Socket, Value("127.0.0.1:8550"), "Where the API listens.").flag("listen"),
    key(
        "advertise_url",
        Kind::HttpUrl,
        Found("`http://` and `listen`; the node's name where that is all interfaces"),
        "Where the other nodes reach this one.",
    )
    .flag("advertise-url")
    .like("\"http://tollgate-1.internal:8550\""),
    key(
        "node_name",
        Kind::Text,
        Found("the host's name"),
        "The node's name. An id of this start is added to it, so that a restarted node is a new one.",
    )
    .flag("node-name")
    .like("\"tollgate-1\""),
    key(
        "no_auth",
        Kind::Switch,
        Value("false"),
        "Serve without API keys: for tests and private networks. `dev` never asks for keys.",
    )
    .flag("no-auth"),
    key(
        "allow_unauthenticated_network",
        Kind::Switch,
        Value("false"),
        "With `no_auth`, listen on an address that is not loopback: everybody who can reach it can \
         spend from the accounts.",
    )
    .flag("allow-unauthenticated-network"),
    key(
        "finality",
        Kind::Finality,
        Value("confirmations:20"),
        "From when on a receipt is final: so many blocks, its own included, or the chain's own tag. \
         On a chain that makes no empty blocks `confirmations:1`, or nothing is final before the next \
         blocks.",
    )
    .flag("finality"),
    key(
        "database.url",
        Kind::DatabaseUrl,
        Value("sqlite:tollgate.db"),
        "Where the state is kept. With the dev chain of `dev` the default is a temporary file.",
    )
    .flag("database-url"),
    key("database.url_file", Kind::Path, Preset::None, "A file that holds the database's URL.")
        .holds("database.url")
        .also("TOLLGATE_DATABASE_URL_FILE")
        .like("\"/run/secrets/database_url\""),
    key(
        "database.connections",
        Kind::Number(1, 1_000),
        Value("8"),
        "PostgreSQL: connections for batches and reads.",
    )
    .only_with(Backend::Postgres),
    key(
        "database.upkeep_connections",
        Kind::Number(1, 100),
        Value("2"),
        "PostgreSQL: connections for leases and heartbeats alone, so that they never wait for work.",
    )
    .only_with(Backend::Postgres),
    key(
        "database.pool_timeout",
        Kind::Duration(100),
        Value("3s"),
        "PostgreSQL: how long a call waits for a connection before it is told to come back.",
    )
    .only_with(Backend::Postgres),
    key(
        "database.statement_timeout",
        Kind::Duration(100),
        Value("15s"),
        "PostgreSQL: the longest statement.",
    )
    .only_with(Backend::Postgres),
    key(
        "database.lock_timeout",
        Kind::Duration(10),
        Value("3s"),
        "PostgreSQL: the longest wait for a lock.",
    )
    .only_with(Backend::Postgres),
    key(
        "database.idle_in_transaction_timeout",
        Kind::Duration(100),
        Value("5s"),
        "PostgreSQL: the longest silence inside a transaction; a node that was stopped in the middle \
         of one blocks a takeover for no longer.",
    )
    .only_with(Backend::Postgres),
    key(
        "database.busy_timeout",
        Kind::Duration(10),
        Value("5s"),
        "SQLite: how long a call waits for another process's write.",
    )
    .only_with(Backend::Sqlite),
    key(
        "chain.id",
        Kind::Number(1, i64::MAX as u64),
        Preset::None,
        "The chain that the endpoints must be on. The node is asked in any case; where it says \
         another id, Tollgate does not start.",
    )
    .like("1"),
    key(
        "chain.rpc_urls",
        Kind::Endpoints,
        Preset::None,
        "The chain's nodes. `serve` needs one; `dev` starts a chain of its own without.",
    )
    .flag("rpc-url")
    .like("[\"https://rpc.example.com\", { url = \"https://relay.example.com\", role = \"send_only\" }]"),
    key("chain.rpc_urls_file", Kind::Path, Preset::None, "A file with one such URL on each line.")
        .holds("chain.rpc_urls")
        .also("TOLLGATE_RPC_URL_FILE")
        .like("\"/run/secrets/rpc_urls\""),
    key(
        "chain.max_fee_per_gas",
        Kind::Price,
        Value("1000 gwei"),
        "The most that a transaction offers for one unit of gas. At a cap it waits, with an alert; it \
         never fails for one.",
    ),
    key(
        "chain.max_tx_fee",
        Kind::Amount,
        Value("1 ether"),
        "The most that a transaction's fees may come to if it uses all of its gas.",
    ),
    key(
        "chain.max_tx_gas",
        Kind::Limit,
        Found("16777216 (EIP-7825) on Ethereum and its test networks; none elsewhere"),
        "The most gas that the chain allows one transaction. A create that asks for more is refused; \
         the margin above an estimate ends at it, or at 16777216 where it is not set.",
    )
    .like("16777216"),
    key(
        "chain.max_initcode_bytes",
        Kind::Limit,
        Found("49152 (EIP-3860) on Ethereum and its test networks; none elsewhere"),
        "The longest code that creates a contract. A create with more is refused.",
    )
    .like("49152"),
    key(
        "chain.max_tx_bytes",
        Kind::Limit,
        Found("131072, the limit of the pools of the common clients"),
        "The longest transaction that the chain's nodes take into their pools. A create with more data \
         is refused.",
    )
    .like("131072"),
    key(
        "chain.fan_out",
        Kind::Number(1, 64),
        Value("1"),
        "How many endpoints a transaction goes to at first, and twice as many each time that it is \
         sent again; the others follow if none takes it.",
    ),
    key(
        "chain.poll_interval",
        Kind::Duration(10),
        Value("1s"),
        "How often the head is asked for where no WebSocket announces it.",
    ),
    key(
        "chain.read_deadline",
        Kind::Duration(100),
        Value("10s"),
        "How long a read may take, with all endpoints that are tried for it.",
    ),
    key(
        "chain.send_deadline",
        Kind::Duration(100),
        Value("10s"),
        "How long a send may take, with all endpoints that are tried for it.",
    ),
    key(
        "chain.send_patience",
        Kind::Duration(10),
        Value("2s"),
        "How long the first endpoints have for a send before the others get it too.",
    ),
    key(
        "chain.lag_grace",
        Kind::Duration(0),
        Value("5s"),
        "How long an endpoint may lack a block that another one has before it counts as lagging.",
    ),
    key(
        "chain.head_hold",
        Kind::Duration(0),
        Value("30s"),
        "How long a head stands that no healthy endpoint confirms any more.",
    ),
    key("chain.fee_cache", Kind::Duration(0), Value("2s"), "How long a quote of fees is good."),
    key(
        "chain.answers",
        Kind::Answers,
        Preset::None,
        "What this chain's nodes mean by a phrase where they differ from all others; see \
         [send answers](errors/send-answers.md) for the classes.",
    )
    .like("[{ phrase = \"mempool is taking a nap\", class = \"pool_full\" }]"),
    key(
        "keys.private_key_files",
        Kind::Paths,
        Preset::None,
        "Files with one hex key on each line, each a submitter. Blank lines and lines that start \
         with `#` are passed over.",
    )
    .flag("private-key-file")
    .also("TOLLGATE_PRIVATE_KEYS_FILE")
    .like("[\"/run/secrets/tollgate_keys\"]"),
    key(
        "keys.private_keys",
        Kind::Secrets,
        Preset::None,
        "Hex keys themselves; better by environment than in a file.",
    )
    .also("TOLLGATE_PRIVATE_KEYS")
    .like("[\"0x…\"]"),
    key("keys.keystore", Kind::Path, Preset::None, "A folder of encrypted keys (keystore JSON).")
        .flag("keystore")
        .like("\"keystore\""),
    key("keys.keystore_password", Kind::Secret, Preset::None, "The password of all of them.")
        .also("TOLLGATE_KEYSTORE_PASSWORD")
        .like("\"…\""),
    key(
        "keys.keystore_password_file",
        Kind::Path,
        Preset::None,
        "A file that holds that password.",
    )
    .flag("keystore-password-file")
    .holds("keys.keystore_password")
    .like("\"/run/secrets/keystore_password\""),
    key(
        "submitter.mode",
        Kind::Choice(&["pipelined", "strict"]),
        Value("pipelined"),
        "How nonces of accounts that are new here are given out: many at once, or one by one. An \
         account keeps the mode that it was first registered with; `tollgate submitter mode` changes it.",
    )
    .flag("mode"),
    key(
        "submitter.strict",
        Kind::Addresses,
        Preset::None,
        "Accounts that are registered as strict, whatever `submitter.mode` says for the others.",
    )
    .like("[\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]"),
    key(
        "submitter.window",
        Kind::Number(1, 100_000),
        Value("64"),
        "How many slots of a pipelined submitter may be open at once.",
    )
    .flag("window"),
    key(
        "submitter.max_queued",
        Kind::Number(1, 1_000_000),
        Value("10000"),
        "Transactions that may wait for one submitter; beyond that callers are told to come back.",
    ),
    key(
        "submitter.presigned",
        Kind::Addresses,
        Preset::None,
        "Accounts without a key here, whose transactions come signed (`rawTx`). Accounts with a key \
         take signed transactions too.",
    )
    .like("[\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]"),
    key(
        "nonce.start_from",
        Kind::Number(0, i64::MAX as u64),
        Value("0"),
        "The first nonce of a submitter that is new here.",
    )
    .flag("nonce-start-from"),
    key(
        "nonce.state_timeout",
        Kind::Duration(1),
        Value("5m"),
        "How long a count read from the chain is believed.",
    ),
    key(
        "strict.advance",
        Kind::Choice(&["final", "mined"]),
        Value("final"),
        "When strict mode opens the next slot: the last one is final, or mined.",
    )
    .flag("strict-advance"),
    key(
        "lease.duration",
        Kind::Duration(100),
        Value("10s"),
        "How long a node's right to write for a submitter lasts without being renewed.",
    )
    .flag("lease-duration"),
    key(
        "lease.renew_interval",
        Kind::Duration(10),
        Value("3s"),
        "How often it is renewed, and how often a node says that it is alive. Below half of \
         `lease.duration`.",
    )
    .flag("lease-renew-interval"),
    key(
        "lease.clock_skew_allowance",
        Kind::Duration(0),
        Value("1s"),
        "How long after its end others wait before they take over. Below `lease.duration`; where \
         nobody sets it, at most half of that.",
    ),
    key(
        "lease.idle_timeout",
        Kind::Duration(100),
        Value("1m"),
        "How long the right is kept for a submitter without work.",
    ),
    key(
        "writer.batch_max",
        Kind::Number(1, 5_000),
        Value("500"),
        "Operations in one database transaction.",
    ),
];

/// The process itself.
static LAST: &[Key] = &[
    key(
        "startup.wait",
        Kind::Duration(0),
        Value("10s"),
        "How long a start waits for a PostgreSQL or a chain that does not answer yet.",
    ),
    key(
        "drain.wait",
        Kind::Duration(0),
        Value("2s"),
        "How long a node that was told to stop still takes requests and passes them on, so that load \
         balancers can notice. Only where there is another node to pass them on to.",
    ),
    key(
        "log.format",
        Kind::Choice(&["pretty", "json"]),
        Value("pretty"),
        "How logs look, on stderr. The level is `RUST_LOG`'s.",
    )
    .flag("log"),
];
