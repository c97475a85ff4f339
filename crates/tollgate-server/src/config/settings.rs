//! The settings as the program uses them, and the rules between them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_engine::EngineOptions;
use tollgate_evm::chain::ChainConfig;
use tollgate_evm::endpoint::Role;
use tollgate_model::fees::FeeCaps;
use tollgate_model::ids::parse_address;
use tollgate_model::nonce::{Mode, NonceRules, StrictAdvance};
use tollgate_model::port::LeaseTerms;
use tollgate_model::refusal::{TxLimit, TxLimitSettings};
use tollgate_model::{Address, ChainId, NodeId, Nonce, Text};
use tollgate_postgres::{PgOptions, SessionLimits};
use tollgate_sqlite::SqliteOptions;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::Purpose;
use super::endpoints::{answers, endpoints};
use super::given::{Place, Problem};
use super::governance::{self, PolicySettings};
use super::http::{self, HttpSettings};
use super::keys::Backend;
use super::kind::{self, duration_words, url_place};
use super::layers::Values;
use super::reader::Reader;
use crate::compose::Database;

/// How logs look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    /// For people.
    Pretty,
    /// For machines.
    Json,
}

/// Where keys come from, each with the place where that was said.
#[derive(Default)]
pub(crate) struct KeySources {
    pub(crate) keys: Vec<(Zeroizing<String>, Place)>,
    pub(crate) files: Vec<(PathBuf, Place)>,
    pub(crate) keystore: Option<(PathBuf, Zeroizing<String>, Place)>,
}

impl KeySources {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.files.is_empty() && self.keystore.is_none()
    }
}

/// All settings, understood.
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    /// `None`: by the address that it listens on.
    pub(crate) advertise_url: Option<Text<500>>,
    pub(crate) node_name: String,
    pub(crate) no_auth: bool,
    pub(crate) http: HttpSettings,
    pub(crate) database: Database,
    /// Whether somebody named it.
    pub(crate) database_is_given: bool,
    pub(crate) chain: ChainConfig,
    /// Where the chain's id was said.
    pub(crate) chain_id_place: Place,
    pub(crate) keys: KeySources,
    pub(crate) start_from: Nonce,
    /// Accounts that are strict whatever the others are.
    pub(crate) strict: Vec<Address>,
    pub(crate) engine: EngineOptions,
    pub(crate) policies: PolicySettings,
    pub(crate) startup_wait: Duration,
    pub(crate) drain_wait: Duration,
    pub(crate) log: LogFormat,
}

/// Understands the values; whatever is wrong goes to `problems`, and then there may be none.
pub(super) fn understand(
    values: &mut Values,
    purpose: Purpose,
    problems: &mut Vec<Problem>,
) -> Option<Settings> {
    let mut reader = Reader { values, problems, asked: Default::default() };
    let settings = all(&mut reader, purpose);
    debug_assert!(
        super::keys::KEYS.iter().all(|key| key.holds.is_some() || reader.asked.contains(key.name)),
        "a setting that nobody reads"
    );
    settings
}

fn all(reader: &mut Reader<'_>, purpose: Purpose) -> Option<Settings> {
    // Each is read before any is missed, so that all problems are told at once.
    let listen = reader.read("listen", kind::socket);
    let node_name = node_name(reader);
    let advertise_url = advertise_url(reader, listen, node_name.as_deref());
    let no_auth = reader.read("no_auth", kind::switch);
    let open_network = reader.read("allow_unauthenticated_network", kind::switch);
    let http = http::http(reader);
    let database = database(reader);
    let chain = chain(reader);
    let keys = keys(reader);
    let engine = engine(reader);
    let strict = addresses(reader, "submitter.strict");
    let engine = governance::engine(reader, engine, &strict);
    let policies = governance::policies(reader);
    let start_from = reader.number("nonce.start_from").and_then(|n| Nonce::new(n).ok());
    let startup_wait = reader.duration("startup.wait");
    let drain_wait = reader.duration("drain.wait");
    let log = reader.choice("log.format", &[LogFormat::Pretty, LogFormat::Json]);
    if purpose == Purpose::Serve {
        needed(reader, &keys, no_auth);
        http::check_network(reader, listen, no_auth, open_network);
    }
    Some(Settings {
        listen: listen?,
        advertise_url,
        node_name: node_name?,
        no_auth: no_auth?,
        http: http?,
        database: database?,
        database_is_given: reader.is_given("database.url"),
        chain: chain?,
        chain_id_place: reader.place("chain.id"),
        keys,
        start_from: start_from?,
        strict,
        engine: engine?,
        policies: policies?,
        startup_wait: startup_wait?,
        drain_wait: drain_wait?,
        log: log?,
    })
}

/// What a node that serves can't do without.
fn needed(reader: &mut Reader<'_>, keys: &KeySources, no_auth: Option<bool>) {
    if !reader.is_given("chain.rpc_urls") && !reader.is_given("chain.rpc_urls_file") {
        reader.wrong(
            "chain.rpc_urls",
            "no chain: give --rpc-url, TOLLGATE_RPC_URL or chain.rpc_urls",
        );
    }
    let named =
        ["keys.private_keys", "keys.private_key_files", "keys.keystore", "submitter.presigned"];
    if keys.is_empty() && !named.iter().any(|name| reader.is_given(name)) {
        let reason = "no keys: give --private-key-file, --keystore or TOLLGATE_PRIVATE_KEYS";
        reader.wrong("keys", reason);
    }
    if no_auth == Some(false) {
        let reason = "there are no API keys: start with --no-auth on a network that you trust";
        reader.wrong("no_auth", reason);
    }
}

fn node_name(reader: &mut Reader<'_>) -> Option<String> {
    let valid = |text: &str| match NodeId::new(text, Uuid::nil()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("must be 1 to {} bytes without blanks or /", NodeId::MAX_NAME_BYTES)),
    };
    if reader.is_given("node_name") {
        return reader.read("node_name", valid);
    }
    // A host without a usable name still gets a node: the boot id tells it from others.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = valid(&host).unwrap_or_else(|_| "tollgate".to_owned());
    reader.found("node_name", name.clone());
    reader.read("node_name", valid)
}

fn advertise_url(
    reader: &mut Reader<'_>,
    listen: Option<SocketAddr>,
    node_name: Option<&str>,
) -> Option<Text<500>> {
    if !reader.is_given("advertise_url") {
        if let (Some(listen), Some(name)) = (listen, node_name) {
            reader.found("advertise_url", own_url(listen, name));
        }
        reader.given("advertise_url");
        return None;
    }
    reader.read("advertise_url", |text| {
        url_place(text, &["http", "https"])?;
        Text::new("advertise_url", text.trim_end_matches('/'))
            .map_err(|_| "must be at most 500 bytes".to_owned())
    })
}

/// Where a node that listens on an address is reached, as far as it can know itself.
pub(crate) fn own_url(address: SocketAddr, node_name: &str) -> String {
    match address.ip().is_unspecified() {
        true => format!("http://{node_name}:{}", address.port()),
        false => format!("http://{address}"),
    }
}

fn database(reader: &mut Reader<'_>) -> Option<Database> {
    let url = reader.read("database.url", |text| {
        Database::check(text)?;
        Ok(text.to_owned())
    });
    let connections = reader.size("database.connections");
    let upkeep_connections = reader.size("database.upkeep_connections");
    let pool_timeout = reader.duration("database.pool_timeout");
    let statement_timeout = reader.duration("database.statement_timeout");
    let lock_timeout = reader.duration("database.lock_timeout");
    let idle_timeout = reader.duration("database.idle_in_transaction_timeout");
    let busy_timeout = reader.duration("database.busy_timeout");
    let url = url?;
    let used = match url.strip_prefix("sqlite:") {
        Some(_) => Backend::Sqlite,
        None => Backend::Postgres,
    };
    for key in super::keys::KEYS.iter() {
        let has_no_effect = key.only_with.is_some_and(|backend| backend != used);
        if has_no_effect && reader.is_changed(key.name) {
            reader.warn(key.name, "has no effect with this database.url");
        }
    }
    match url.strip_prefix("sqlite:") {
        Some(path) => {
            let file = SqliteOptions::file(path);
            Some(Database::Sqlite(SqliteOptions { busy_timeout: busy_timeout?, ..file }))
        }
        None => Some(Database::Postgres(PgOptions {
            work_connections: connections?,
            upkeep_connections: upkeep_connections?,
            pool_timeout: pool_timeout?,
            session: SessionLimits {
                statement_timeout: statement_timeout?,
                lock_timeout: lock_timeout?,
                idle_in_transaction_timeout: idle_timeout?,
            },
            ..PgOptions::new(url)
        })),
    }
}

fn chain(reader: &mut Reader<'_>) -> Option<ChainConfig> {
    let chain_id = reader.number("chain.id").and_then(|id| ChainId::new(id).ok());
    let endpoints = endpoints(reader);
    let poll_interval = reader.duration("chain.poll_interval");
    let read_deadline = reader.duration("chain.read_deadline");
    let send_deadline = reader.duration("chain.send_deadline");
    let send_patience = reader.duration("chain.send_patience");
    let lag_grace = reader.duration("chain.lag_grace");
    let head_hold = reader.duration("chain.head_hold");
    let fee_cache = reader.duration("chain.fee_cache");
    let fan_out = reader.size("chain.fan_out");
    let overrides = answers(reader);
    if let (Some(patience), Some(deadline)) = (send_patience, send_deadline)
        && patience >= deadline
    {
        let (patience, deadline) = (duration_words(patience), duration_words(deadline));
        let reason = format!(
            "chain.send_patience ({patience}) must be below chain.send_deadline ({deadline})"
        );
        reader.wrong(given_of(reader, "chain.send_patience", "chain.send_deadline"), reason);
    }
    let senders = endpoints.iter().filter(|endpoint| endpoint.role != Role::ReadOnly).count();
    if let Some(fan_out) = fan_out.filter(|n| *n > senders.max(1) && senders > 0) {
        let reason = format!("is {fan_out}, but only {senders} endpoints take transactions");
        reader.wrong("chain.fan_out", reason);
    }
    Some(ChainConfig {
        chain_id,
        poll_interval: poll_interval?,
        read_deadline: read_deadline?,
        send_deadline: send_deadline?,
        send_patience: send_patience?,
        fan_out: fan_out?,
        lag_grace: lag_grace?,
        head_hold: head_hold?,
        fee_cache: fee_cache?,
        overrides: overrides?,
        ..ChainConfig::new(endpoints)
    })
}

/// The one of two settings that somebody gave: the first, unless only the second was.
pub(super) fn given_of(
    reader: &Reader<'_>,
    first: &'static str,
    second: &'static str,
) -> &'static str {
    if !reader.is_given(first) && reader.is_given(second) { second } else { first }
}

fn keys(reader: &mut Reader<'_>) -> KeySources {
    let keys = reader.texts("keys.private_keys");
    let keys = keys.into_iter().map(|(key, place)| (Zeroizing::new(key), place)).collect();
    let files = reader.texts("keys.private_key_files");
    let files = files.into_iter().map(|(file, place)| (PathBuf::from(file), place)).collect();
    let keystore = reader.path("keys.keystore");
    let password =
        reader.read("keys.keystore_password", |text| Ok(Zeroizing::new(text.to_owned())));
    let place = reader.place("keys.keystore");
    let has_password =
        reader.is_given("keys.keystore_password") || reader.is_given("keys.keystore_password_file");
    match (&keystore, has_password) {
        (Some(_), false) => reader.wrong(
            "keys.keystore",
            "needs a password: give --keystore-password-file or TOLLGATE_KEYSTORE_PASSWORD",
        ),
        (None, true) if !reader.is_given("keys.keystore") => {
            reader.wrong("keys.keystore_password", "there is no keystore that it is for");
        }
        _ => {}
    }
    let keystore = keystore.zip(password).map(|(folder, password)| (folder, password, place));
    KeySources { keys, files, keystore }
}

/// What an engine needs before anything goes wrong; `governance` has the rest.
fn engine(reader: &mut Reader<'_>) -> Option<EngineOptions> {
    let lease = lease(reader);
    let lease_idle = reader.duration("lease.idle_timeout");
    let batch_max = reader.size("writer.batch_max");
    let queued_max = reader.size("submitter.max_queued");
    let mode = reader.choice("submitter.mode", &[Mode::Pipelined, Mode::Strict]);
    let window = reader.number("submitter.window").and_then(|n| u32::try_from(n).ok());
    let advance = [StrictAdvance::Final, StrictAdvance::Mined];
    let strict_advance = reader.choice("strict.advance", &advance);
    let state_timeout = reader.duration("nonce.state_timeout");
    let finality = reader.read("finality", kind::finality);
    let presigned = addresses(reader, "submitter.presigned");
    let fee_caps = fee_caps(reader);
    let tx_limits = TxLimitSettings {
        gas: tx_limit(reader, "chain.max_tx_gas"),
        initcode_bytes: tx_limit(reader, "chain.max_initcode_bytes"),
        bytes: tx_limit(reader, "chain.max_tx_bytes"),
    };
    Some(EngineOptions {
        lease: lease?,
        lease_idle: lease_idle?,
        batch_max: batch_max?,
        queued_max: queued_max?,
        nonces: NonceRules {
            mode: mode?,
            window: window?,
            strict_advance: strict_advance?,
            state_timeout: state_timeout?,
        },
        finality: finality?,
        fee_caps: fee_caps?,
        tx_limits,
        presigned,
        ..EngineOptions::default()
    })
}

/// What the chain allows one transaction, where somebody says so.
fn tx_limit(reader: &mut Reader<'_>, name: &'static str) -> TxLimit {
    let parse = |text: &str| kind::number(text, 1, i64::MAX as u64);
    match reader.read(name, |text| kind::limit(text, parse)) {
        None => TxLimit::ByChain,
        Some(None) => TxLimit::Unlimited,
        Some(Some(most)) => TxLimit::At(most),
    }
}

/// I16: there are caps by default, and who switches one off is told what that means.
fn fee_caps(reader: &mut Reader<'_>) -> Option<FeeCaps> {
    let (price, total) = ("chain.max_fee_per_gas", "chain.max_tx_fee");
    let max_fee_per_gas = reader.read(price, |text| kind::limit(text, kind::price));
    let max_tx_fee = reader.read(total, |text| kind::limit(text, kind::amount));
    let caps = FeeCaps { max_fee_per_gas: max_fee_per_gas?, max_tx_fee: max_tx_fee? };
    for (name, is_off) in
        [(price, caps.max_fee_per_gas.is_none()), (total, caps.max_tx_fee.is_none())]
    {
        if is_off {
            reader.warn(
                name,
                "is switched off: endpoints that are wrong together can have any fee paid",
            );
        }
    }
    Some(caps)
}

fn addresses(reader: &mut Reader<'_>, name: &'static str) -> Vec<Address> {
    let mut addresses = Vec::new();
    for (text, place) in reader.texts(name) {
        match parse_address(&text) {
            Ok(address) => addresses.push(address),
            Err(error) => reader.problems.push(Problem::new(place, name, error.to_string())),
        }
    }
    addresses
}

fn lease(reader: &mut Reader<'_>) -> Option<LeaseTerms> {
    const SKEW: &str = "lease.clock_skew_allowance";
    let duration = reader.duration("lease.duration");
    let renew = reader.duration("lease.renew_interval");
    let skew = reader.duration(SKEW);
    let (duration, renew, mut skew) = (duration?, renew?, skew?);
    if !reader.is_given(SKEW) && skew > duration / 2 {
        // Short leases are for tests and demos: nobody has to know of the third setting for them.
        skew = duration / 2;
        reader.found(SKEW, duration_words(skew));
    }
    let words = duration_words;
    if renew >= duration / 2 {
        let reason = format!(
            "lease.renew_interval ({}) must be below half of lease.duration ({}), so that a lease \
             survives one renewal that is lost",
            words(renew),
            words(duration)
        );
        reader.wrong(given_of(reader, "lease.renew_interval", "lease.duration"), reason);
        return None;
    }
    if skew >= duration {
        let (skew, duration) = (words(skew), words(duration));
        reader.wrong(SKEW, format!("{skew} must be below lease.duration ({duration})"));
        return None;
    }
    LeaseTerms::new(duration, renew, skew).ok()
}
