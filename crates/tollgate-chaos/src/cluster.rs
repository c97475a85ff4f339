//! Three real nodes on one real database and one real chain, each with its own proxies to both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tollgate_devchain::dev_accounts;
use tollgate_testkit::cluster::write_keys;
use tollgate_testkit::http::ask;
use tollgate_testkit::pg_proxy::PgProxy;
use tollgate_testkit::program::{command, lasting_port};
use tollgate_testkit::rpc_proxy::RpcProxy;
use tollgate_testkit::{Anvil, PgServer, wait};

use crate::audit::Audit;
use crate::plan::NAMES;
use crate::process::Process;

/// Accounts that send many at once.
pub(crate) const PIPELINED: std::ops::Range<usize> = 0..6;
/// Accounts that send one after the other.
pub(crate) const STRICT: std::ops::Range<usize> = 6..8;
/// The account that is paid.
pub(crate) const PAID: usize = 9;

/// The file with the keys of all accounts.
const KEYS: &str = "keys";

/// So many blocks, its own included, settle a receipt.
pub(crate) const CONFIRMATIONS: u64 = 4;

/// A block comes every so many seconds.
const BLOCK_SECONDS: u64 = 1;

/// The settings that all nodes share.
const SETTINGS: [(&str, &str); 13] = [
    ("TOLLGATE_LEASE_DURATION", "2s"),
    ("TOLLGATE_LEASE_RENEW_INTERVAL", "500ms"),
    ("TOLLGATE_LEASE_CLOCK_SKEW_ALLOWANCE", "100ms"),
    ("TOLLGATE_CHAIN_POLL_INTERVAL", "200ms"),
    ("TOLLGATE_RESUBMIT_INTERVAL", "1s"),
    ("TOLLGATE_RESUBMIT_INTERVAL_MAX", "3s"),
    // Reorgs and forgetful pools are many: nothing is to be given up for them.
    ("TOLLGATE_RESUBMIT_MAX_ATTEMPTS", "1000000"),
    // Often enough to take part in a run of minutes.
    ("TOLLGATE_RECONCILE_INTERVAL", "15s"),
    ("TOLLGATE_DRAIN_WAIT", "500ms"),
    // Longer than any outage of the plan.
    ("TOLLGATE_STARTUP_WAIT", "60s"),
    ("TOLLGATE_NO_AUTH", "true"),
    ("RUST_LOG", "warn,tollgate=info,tollgate_engine=info,tollgate_server=info"),
    ("NO_COLOR", "1"),
];

/// All that a run consists of.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) server: Arc<PgServer>,
    pub(crate) anvil: Anvil,
    pub(crate) audit: Audit,
    folder: TempDir,
}

/// One node: its process comes and goes, its name, port and ways stay.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) database: PgProxy,
    /// Its two endpoints, both in front of the same chain.
    pub(crate) proxies: [RpcProxy; 2],
    /// Held by whoever does something to it.
    pub(crate) process: Mutex<Process>,
    start: Start,
}

struct Start {
    program: PathBuf,
    folder: PathBuf,
}

impl Cluster {
    /// Builds it up, with everything in good health.
    pub(crate) async fn build(program: &Path, seed: u64, steady_errors: u64) -> Self {
        let folder = tempfile::Builder::new().prefix("tollgate-chaos-").tempdir().unwrap();
        let server = Arc::new(PgServer::start_own().await);
        let database_url = server.url(&server.fresh_database().await);
        let anvil = Anvil::start(&[]).await;
        anvil.call("evm_setIntervalMining", json!([BLOCK_SECONDS])).await;
        write_keys(&folder.path().join(KEYS), PIPELINED.start..STRICT.end);
        let mut nodes = Vec::new();
        for (number, name) in (0..).zip(NAMES) {
            let database = PgProxy::to(&database_url).await;
            let proxies = [
                RpcProxy::seeded(anvil.url(), seed.wrapping_add(number), steady_errors).await,
                RpcProxy::seeded(anvil.url(), seed.wrapping_sub(number + 1), steady_errors).await,
            ];
            let port = lasting_port();
            let start = Start { program: program.to_owned(), folder: folder.path().to_owned() };
            let process = Mutex::new(start.run(name, port, database.url(), &proxies));
            nodes.push(Arc::new(Node { name, port, database, proxies, process, start }));
        }
        for node in &nodes {
            wait::until("a node to be ready", || async { node.is_ready().await.then_some(()) })
                .await;
        }
        // After their migrations, and before the first create.
        let audit = Audit::install(&database_url).await;
        Self { nodes, server, anvil, audit, folder }
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// The folder of the logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The logs stay; where they are.
    pub(crate) fn keep(self) -> PathBuf {
        let Self { nodes, folder, .. } = self;
        drop(nodes);
        folder.keep()
    }
}

impl Node {
    /// Starts it again, in place of a process that has ended.
    pub(crate) fn start_again(&self, process: &mut Process) {
        *process = self.start.run(self.name, self.port, self.database.url(), &self.proxies);
    }

    pub(crate) async fn is_ready(&self) -> bool {
        is_ok(self.port, "/readyz").await
    }

    pub(crate) async fn is_alive(&self) -> bool {
        is_ok(self.port, "/livez").await
    }
}

impl Start {
    fn run(&self, name: &str, port: u16, database_url: &str, rpc: &[RpcProxy; 2]) -> Process {
        let mut command = command(&self.program);
        command
            .args(["serve", "--node-name", name, "--listen", &format!("127.0.0.1:{port}")])
            .args(["--database-url", database_url])
            .args(["--rpc-url", &rpc[0].url(), "--rpc-url", &rpc[1].url()])
            .args(["--finality", &format!("confirmations:{CONFIRMATIONS}")])
            .arg("--private-key-file")
            .arg(self.folder.join(KEYS))
            .env("TOLLGATE_SUBMITTER_STRICT", strict_accounts())
            .envs(SETTINGS);
        Process::start(command, &self.folder.join(format!("{name}.log")))
    }
}

fn strict_accounts() -> String {
    let all = dev_accounts();
    STRICT.map(|n| all[n].address.to_string()).collect::<Vec<_>>().join(",")
}

/// More than a healthy node needs to answer a health check.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

async fn is_ok(port: u16, path: &str) -> bool {
    let said = tokio::time::timeout(HEALTH_LIMIT, ask(port, "GET", path, "")).await;
    matches!(said, Ok(Ok(said)) if said.status == 200)
}
