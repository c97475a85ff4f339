//! Three real nodes on one real database and two real chains, each with its own proxies to all of them.

use std::fmt::Write;
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
use tollgate_testkit::rpc_proxy::{RpcFaults, RpcProxy};
use tollgate_testkit::{Anvil, PgServer, wait};

use crate::Options;
use crate::audit::Audit;
use crate::faults::broken_calls;
use crate::plan::{NAMES, Plan};
use crate::process::Process;

/// Accounts that send many at once.
pub(crate) const PIPELINED: std::ops::Range<usize> = 0..6;
/// Accounts that send one after the other.
pub(crate) const STRICT: std::ops::Range<usize> = 6..8;
/// All that the nodes have keys for.
pub(crate) const SENDING: std::ops::Range<usize> = PIPELINED.start..STRICT.end;
/// Accounts of which callers reserve nonces.
pub(crate) const RESERVING: std::ops::Range<usize> = 0..2;
/// The account that is paid.
pub(crate) const PAID: usize = 9;
/// Accounts with open work whose keys no node has.
pub(crate) const ORPHANED: std::ops::Range<usize> = 10..20;

/// Accounts that send many at once on the second chain: the first of the first chain under numbers of
/// their own.
pub(crate) const SECOND: std::ops::Range<usize> = OFFSET..OFFSET + 3;
/// From an account's number on one chain to its number on the next.
const OFFSET: usize = 100;

/// The ids of the chains.
pub(crate) const CHAIN_IDS: [u64; 2] = [31_337, 31_338];

/// The place of the chain of an account.
pub(crate) fn chain_of(account: usize) -> usize {
    account / OFFSET
}

/// The place of an account's key: accounts of two chains may have the same one.
pub(crate) fn key_of(account: usize) -> usize {
    account % OFFSET
}

/// All accounts that send on a chain.
pub(crate) fn accounts_of(chain: usize) -> Vec<usize> {
    let all = SENDING.chain(ORPHANED).chain(SECOND);
    all.filter(|account| chain_of(*account) == chain).collect()
}

/// So many blocks, its own included, settle a receipt.
pub(crate) const CONFIRMATIONS: u64 = 4;

/// A block comes every so many seconds.
const BLOCK_SECONDS: u64 = 1;

/// The settings that all nodes share.
const SETTINGS: [(&str, &str); 14] = [
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
    ("TOLLGATE_RESERVATIONS_ENABLED", "true"),
    ("TOLLGATE_NO_AUTH", "true"),
    ("RUST_LOG", "warn,tollgate=info,tollgate_engine=info,tollgate_server=info"),
    ("NO_COLOR", "1"),
];

/// All that a run consists of.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) server: Arc<PgServer>,
    /// By their places; the second has the same accounts.
    pub(crate) chains: [Anvil; 2],
    pub(crate) audit: Audit,
    /// By account: the place of the node that lacks its key.
    missing_keys: Vec<Option<usize>>,
    /// The database without a proxy.
    database_url: String,
    folder: TempDir,
}

/// One node: its process comes and goes, its name, port and ways stay.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) database: PgProxy,
    /// Its two endpoints of each chain.
    pub(crate) proxies: Vec<[RpcProxy; 2]>,
    /// The faults that the second endpoint has when it is not broken otherwise.
    lasting: RpcFaults,
    /// Held by whoever does something to it.
    pub(crate) process: Mutex<Process>,
    start: Start,
}

struct Start {
    program: PathBuf,
    folder: PathBuf,
    /// The node knows its second endpoint only.
    is_trusting: bool,
    /// The place of the endpoint that is called over a WebSocket.
    socket: usize,
}

impl Cluster {
    /// Builds it up, with everything in good health but for what is broken all the time.
    pub(crate) async fn build(options: &Options, plan: &Plan) -> Self {
        let folder = tempfile::Builder::new().prefix("tollgate-chaos-").tempdir().unwrap();
        let server = Arc::new(PgServer::start_own().await);
        let database_url = server.url(&server.fresh_database().await);
        let chains = [start_chain(CHAIN_IDS[0]).await, start_chain(CHAIN_IDS[1]).await];
        let mut nodes = Vec::new();
        for (place, name) in NAMES.into_iter().enumerate() {
            let has_key = |account: &usize| plan.missing_keys[*account] != Some(place);
            let start = Start {
                program: options.program.clone(),
                folder: folder.path().to_owned(),
                is_trusting: options.is_trusting,
                socket: plan.sockets[place],
            };
            let keys = SENDING.filter(has_key);
            let (seed, errors) = (options.seed, plan.steady_errors);
            let (mut proxies, mut number) = (Vec::new(), place as u64);
            for chain in &chains {
                let url = chain.url();
                proxies.push([
                    RpcProxy::seeded(url, seed.wrapping_add(number), errors).await,
                    RpcProxy::seeded(url, seed.wrapping_sub(number + 1), errors).await,
                ]);
                number += NAMES.len() as u64;
            }
            let lasting = plan.lasting.map(|it| broken_calls(it.kind, it.severity));
            let lasting = lasting.unwrap_or_default();
            nodes.push(Node::start(start, name, &database_url, (proxies, lasting), keys).await);
        }
        for node in &nodes {
            node.wait_until_ready().await;
        }
        // After their migrations, and before the first create.
        let audit = Audit::install(&database_url).await;
        nodes.iter().for_each(|node| node.restore_calls());
        let missing_keys = plan.missing_keys.clone();
        Self { nodes, server, chains, audit, missing_keys, database_url, folder }
    }

    /// Starts one more node of the first chain, with the keys of these accounts. The chain never gets
    /// its sends.
    pub(crate) async fn start_one_that_sends_nothing(
        &self,
        name: &'static str,
        accounts: std::ops::Range<usize>,
    ) -> Arc<Node> {
        let Start { program, folder, .. } = &self.nodes[0].start;
        let start = Start {
            program: program.clone(),
            folder: folder.clone(),
            is_trusting: false,
            socket: 0,
        };
        let url = self.chains[0].url();
        let proxies = [RpcProxy::to(url).await, RpcProxy::to(url).await];
        let swallows = RpcFaults { discarded_sends: 100, ..RpcFaults::default() };
        proxies.iter().for_each(|proxy| proxy.change(|faults| *faults = swallows));
        let calls = (vec![proxies], swallows);
        let node = Node::start(start, name, &self.database_url, calls, accounts).await;
        node.wait_until_ready().await;
        node
    }

    /// The port of the node that lacks the key of an account.
    pub(crate) fn port_without_key(&self, account: usize) -> Option<u16> {
        self.missing_keys[key_of(account)].map(|place| self.nodes[place].port)
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
    async fn start(
        start: Start,
        name: &'static str,
        database_url: &str,
        (proxies, lasting): (Vec<[RpcProxy; 2]>, RpcFaults),
        accounts: impl Iterator<Item = usize>,
    ) -> Arc<Self> {
        write_keys(&start.keys(name), accounts);
        let database = PgProxy::to(database_url).await;
        let port = lasting_port();
        let process = Mutex::new(start.run(name, port, database.url(), &proxies));
        Arc::new(Self { name, port, database, proxies, lasting, process, start })
    }

    pub(crate) async fn wait_until_ready(&self) {
        wait::until("a node to be ready", || async { self.is_ready().await.then_some(()) }).await;
    }

    /// Starts it again, in place of a process that has ended.
    pub(crate) fn start_again(&self, process: &mut Process) {
        *process = self.start.run(self.name, self.port, self.database.url(), &self.proxies);
    }

    /// Its calls to the chain work again, except for what never does.
    pub(crate) fn restore_calls(&self) {
        (0..self.proxies.len()).for_each(|chain| self.restore_calls_to(chain));
    }

    pub(crate) fn restore_calls_to(&self, chain: usize) {
        let [first, second] = &self.proxies[chain];
        first.change(|faults| *faults = RpcFaults::default());
        second.change(|faults| *faults = self.lasting);
    }

    pub(crate) async fn is_ready(&self) -> bool {
        is_ok(self.port, "/readyz").await
    }

    pub(crate) async fn is_alive(&self) -> bool {
        is_ok(self.port, "/livez").await
    }
}

impl Start {
    /// The file with the keys of a node.
    fn keys(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.keys"))
    }

    /// The settings of the chains of a node.
    fn chains(&self, proxies: &[[RpcProxy; 2]]) -> String {
        let mut text = String::new();
        for (id, proxies) in CHAIN_IDS.iter().zip(proxies) {
            let known = proxies.iter().enumerate().skip(usize::from(self.is_trusting));
            let urls = known.map(
                |(place, proxy)| {
                    if place == self.socket { proxy.ws_url() } else { proxy.url() }
                },
            );
            let urls: Vec<String> = urls.collect();
            let _ =
                writeln!(text, "[[chains]]\nid = {id}\nname = \"chain-{id}\"\nrpc_urls = {urls:?}");
        }
        text
    }

    fn run(&self, name: &str, port: u16, database_url: &str, rpc: &[[RpcProxy; 2]]) -> Process {
        let config = self.folder.join(format!("{name}.toml"));
        std::fs::write(&config, self.chains(rpc)).unwrap();
        let mut command = command(&self.program);
        command
            .args(["serve", "--node-name", name, "--listen", &format!("127.0.0.1:{port}")])
            .args(["--database-url", database_url])
            .args(["--finality", &format!("confirmations:{CONFIRMATIONS}")])
            .arg("--config")
            .arg(config)
            .arg("--private-key-file")
            .arg(self.keys(name))
            .env("TOLLGATE_SUBMITTER_STRICT", strict_accounts())
            .envs(SETTINGS);
        Process::start(command, &self.folder.join(format!("{name}.log")))
    }
}

async fn start_chain(id: u64) -> Anvil {
    let anvil = Anvil::start(&["--accounts", "20", "--chain-id", &id.to_string()]).await;
    anvil.call("evm_setIntervalMining", json!([BLOCK_SECONDS])).await;
    anvil
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
