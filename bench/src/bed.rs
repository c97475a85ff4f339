//! The test bed: a PostgreSQL, and for each run a chain and a service with a database of its own.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, keccak256};
use serde_json::json;
use tempfile::TempDir;
use tollgate_devchain::dev_accounts;
use tollgate_devchain::sign::address_of;
use tollgate_testkit::PgServer;
use tollgate_testkit::postgres::{Client, connect};
use tollgate_testkit::program::{Program, command, lasting_port};
use tollgate_testkit::{http, rpc};

use crate::{CONFIRMATIONS, process};

/// The longest wait for a process to answer.
const START_MAX: Duration = Duration::from_secs(60);

/// The settings of the server beside those that every test has.
const POSTGRES: [&str; 4] = [
    "shared_buffers=256MB",
    "max_wal_size=4GB",
    "max_connections=200",
    "shared_preload_libraries=pg_stat_statements",
];

/// The service that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Ceiling,
    Tollgate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Store {
    Postgres,
    Sqlite,
}

/// The chain of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Chain {
    Free(FreeChain),
    Anvil,
}

/// The chain that costs nearly nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FreeChain {
    pub(crate) interval_ms: u64,
    /// Blocks stay empty.
    pub(crate) hold: bool,
    /// The place of an account whose transactions are never mined.
    pub(crate) never: Option<usize>,
}

impl FreeChain {
    pub(crate) const FAST: Self = Self { interval_ms: 100, hold: false, never: None };
    pub(crate) const HELD: Self = Self { hold: true, ..Self::FAST };
}

/// The service and chain to start.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) side: Side,
    pub(crate) store: Store,
    pub(crate) chain: Chain,
    /// The number of accounts.
    pub(crate) accounts: usize,
    /// The most transactions of an account that are open at once.
    pub(crate) open_max: usize,
    /// Further variables of Tollgate.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// The server, and what all runs share.
pub(crate) struct Bed {
    pub(crate) tollgate: PathBuf,
    postgres: PgServer,
    admin: Client,
    folder: TempDir,
}

/// A running service with its chain.
pub(crate) struct Stand {
    pub(crate) setup: Setup,
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) database_url: String,
    rpc_url: String,
    service: Option<Program>,
    chain: Program,
    database: String,
}

/// The resources used until now.
pub(crate) struct Usage {
    pub(crate) at: Instant,
    pub(crate) service: Duration,
    pub(crate) database: Duration,
    pub(crate) chain: Duration,
    pub(crate) machine: Duration,
    pub(crate) wal_bytes: i64,
    pub(crate) statements: i64,
    /// Counted by the free chain only.
    pub(crate) rpc_calls: Option<u64>,
}

/// The private key of an account: the first are those of the development chains.
pub(crate) fn key(place: usize) -> B256 {
    let known = dev_accounts().get(place).map(|account| account.private_key);
    known.unwrap_or_else(|| keccak256(format!("tollgate bench {place}")))
}

pub(crate) fn account(place: usize) -> Address {
    address_of(&key(place)).unwrap()
}

impl Bed {
    pub(crate) async fn start(tollgate: PathBuf) -> Self {
        assert!(tollgate.exists(), "{} is not there: build it, or --program", tollgate.display());
        let postgres = PgServer::start_on_disk(&POSTGRES).await;
        let admin = connect(&postgres.url("postgres")).await.unwrap();
        admin.batch_execute("create extension pg_stat_statements").await.unwrap();
        Self { tollgate, postgres, admin, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn postgres_version(&self) -> String {
        let row = self.admin.query_one("show server_version", &[]).await.unwrap();
        row.get(0)
    }

    /// A chain, an empty database and a service that is ready.
    pub(crate) async fn stand(&self, setup: Setup) -> Stand {
        let (chain, rpc_url) = self.start_chain(&setup).await;
        let (database, database_url) = match setup.store {
            Store::Postgres => {
                let name = self.postgres.fresh_database().await;
                let url = self.postgres.url(&name);
                (name, url)
            }
            Store::Sqlite => {
                let file = self.folder().join(format!("{}.db", uuid::Uuid::new_v4().simple()));
                (file.display().to_string(), format!("sqlite:{}", file.display()))
            }
        };
        let mut stand = Stand {
            setup,
            url: String::new(),
            port: 0,
            database_url,
            rpc_url,
            service: None,
            chain,
            database,
        };
        self.start_service(&mut stand).await;
        stand
    }

    async fn start_chain(&self, setup: &Setup) -> (Program, String) {
        let port = lasting_port();
        let mut command = match &setup.chain {
            Chain::Free(free) => {
                let mut command = itself("node");
                command.args(["--interval", &free.interval_ms.to_string()]);
                if free.hold {
                    command.arg("--hold");
                }
                if setup.accounts == 1 {
                    command.args(["--only", &account(0).to_string()]);
                }
                if let Some(place) = free.never {
                    command.args(["--never", &account(place).to_string()]);
                }
                command
            }
            Chain::Anvil => {
                let anvil = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/bin/anvil");
                assert!(anvil.exists(), "anvil is not there: run scripts/setup anvil");
                let mut anvil = command(anvil);
                anvil.args(["--silent", "--block-time", "0.1", "--order", "fifo"]);
                anvil.args(["--gas-limit", "1000000000000", "--balance", "1000000"]);
                anvil.args(["--accounts", "20", "--no-request-size-limit"]);
                // It keeps the states of old blocks there.
                anvil.env("HOME", self.folder());
                anvil
            }
        };
        let chain = Program::start(command.args(["--port", &port.to_string()]));
        let url = format!("http://127.0.0.1:{port}");
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
        let start = Instant::now();
        while rpc::post(&url, body).await.is_err() {
            if start.elapsed() > START_MAX {
                give_up("the chain", chain);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        (chain, url)
    }

    /// Starts the service of a stand that has none, and waits until it is ready.
    pub(crate) async fn start_service(&self, stand: &mut Stand) {
        let port = lasting_port();
        let keys = self.keys(stand.setup.accounts);
        let Setup { side, open_max, variables, .. } = &stand.setup;
        let mut command = match side {
            Side::Ceiling => {
                let mut command = itself("ceiling");
                command.args(["--port", &port.to_string()]).arg("--keys").arg(keys);
                command.args(["--database-url", &stand.database_url]);
                command.args(["--open-max", &open_max.to_string()]);
                if stand.setup.chain != Chain::Free(FreeChain::HELD) {
                    command.args(["--rpc-url", &stand.rpc_url]);
                }
                command
            }
            Side::Tollgate => {
                let mut command = command(&self.tollgate);
                command.args(["serve", "--no-auth", "--listen", &format!("127.0.0.1:{port}")]);
                command.args(["--database-url", &stand.database_url, "--rpc-url", &stand.rpc_url]);
                command.arg("--private-key-file").arg(keys);
                command.args(["--window", &open_max.to_string()]);
                command.args(["--finality", &format!("confirmations:{CONFIRMATIONS}")]);
                command.env("TOLLGATE_SUBMITTER_UNFINAL_MAX", (open_max * 2).to_string());
                command.env("TOLLGATE_SUBMITTER_MAX_QUEUED", "1000000");
                if stand.setup.is_fast() {
                    command.env("TOLLGATE_CHAIN_POLL_INTERVAL", "100ms");
                }
                command.env("RUST_LOG", "warn").envs(variables.iter().cloned());
                command
            }
        };
        let service = Program::start(&mut command);
        let start = Instant::now();
        while !http::ask(port, "GET", "/readyz", "").await.is_ok_and(|answer| answer.status == 200)
        {
            if start.elapsed() > START_MAX {
                give_up("the service", service);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stand.service = Some(service);
        (stand.url, stand.port) = (format!("http://{}:{port}", Ipv4Addr::LOCALHOST), port);
    }

    /// A file with the keys of the first accounts.
    fn keys(&self, count: usize) -> PathBuf {
        let file = self.folder().join(format!("keys-{count}"));
        if !file.exists() {
            let lines: String = (0..count).map(|place| format!("{}\n", key(place))).collect();
            let mut options = fs::OpenOptions::new();
            let mut written = options.create(true).write(true).mode(0o600).open(&file).unwrap();
            std::io::Write::write_all(&mut written, lines.as_bytes()).unwrap();
        }
        file
    }

    pub(crate) async fn usage(&self, stand: &Stand) -> Usage {
        let sql = "select (pg_current_wal_insert_lsn() - '0/0')::bigint,
                     (select coalesce(sum(calls), 0)::bigint from pg_stat_statements)";
        let row = self.admin.query_one(sql, &[]).await.unwrap();
        let rpc_calls = match stand.setup.chain {
            Chain::Free(_) => rpc::call(&stand.rpc_url, "bench_calls", json!([])).await.as_u64(),
            Chain::Anvil => None,
        };
        Usage {
            at: Instant::now(),
            service: process::cpu(stand.service_id()),
            database: process::cpu(self.postgres.process_id()),
            chain: process::cpu(stand.chain.id()),
            machine: process::cpu_of_machine(),
            wal_bytes: row.get(0),
            statements: row.get(1),
            rpc_calls,
        }
    }

    /// Ends a stand and drops its database.
    pub(crate) async fn clear(&self, mut stand: Stand) {
        drop(stand.service.take());
        match stand.setup.store {
            Store::Postgres => {
                let sql = format!("drop database {} with (force)", stand.database);
                self.admin.batch_execute(&sql).await.unwrap();
                self.admin.batch_execute("checkpoint").await.unwrap();
                self.admin.batch_execute("select pg_stat_statements_reset()").await.unwrap();
            }
            Store::Sqlite => fs::remove_file(&stand.database).unwrap(),
        }
    }
}

impl Setup {
    /// Blocks come faster than a node looks for them by default.
    fn is_fast(&self) -> bool {
        match &self.chain {
            Chain::Free(free) => free.interval_ms < 1_000,
            Chain::Anvil => true,
        }
    }
}

impl Stand {
    pub(crate) fn service_id(&self) -> u32 {
        self.service.as_ref().unwrap().id()
    }

    /// Ends the service in good order.
    pub(crate) fn stop_service(&mut self) {
        let service = self.service.take().unwrap();
        service.signal("TERM");
        let ended = service.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

/// This program with another task.
fn itself(task: &str) -> Command {
    let mut command = command(std::env::current_exe().unwrap());
    command.arg(task);
    command
}

fn give_up(what: &str, program: Program) -> ! {
    program.signal("KILL");
    panic!("{what} did not answer: {}", program.end().lines.join("\n"));
}
