//! Real `tollgate serve` processes on one PostgreSQL and one dev chain.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_model::ownership::preferred;
use tollgate_model::port::LiveNode;
use tollgate_model::{ChainId, NodeId, Submitter, Text};
use tollgate_testkit::cluster::write_keys;
pub(crate) use tollgate_testkit::http::{NoResponse, Response, ask};
pub(crate) use tollgate_testkit::outcome::feed;
use tollgate_testkit::{PgServer, outcome, rpc, wait};
use uuid::Uuid;

use crate::program::{Program, command, free_port};

/// Dev accounts that send; the last one is paid.
pub(crate) const SENDERS: std::ops::Range<usize> = 0..6;
const PAID: usize = 9;
pub(crate) const BLOCK_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    pub(crate) server: PgServer,
    /// The nodes' way to their database.
    pub(crate) database_url: String,
    pub(crate) chain: RunningDevChain,
    lease: (&'static str, &'static str),
    /// The time for which a node that stops still forwards requests.
    pub(crate) drain_wait: &'static str,
    /// Further settings of its nodes, as variables.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
}

/// A node's process.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) program: Program,
}

impl Stage {
    /// With leases of this length, renewed this often.
    pub(crate) async fn set(lease: &'static str, renewed: &'static str) -> Self {
        Self::on(PgServer::start().await, lease, renewed).await
    }

    /// The same, on a server of the test's choice.
    pub(crate) async fn on(server: PgServer, lease: &'static str, renewed: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database_url = server.url(&server.fresh_database().await);
        let block_interval = Some(BLOCK_INTERVAL);
        let options = DevChainOptions { block_interval, ..Default::default() };
        let chain = DevChain::start(options).await.unwrap();
        write_keys(&folder.path().join("keys"), SENDERS);
        let lease = (lease, renewed);
        let (drain_wait, settings) = ("1s", Vec::new());
        Self { folder, server, database_url, chain, lease, drain_wait, settings }
    }

    /// The name of the node that should own an account.
    pub(crate) fn preferred(&self, account: usize, nodes: [&Node; 2]) -> String {
        let said = self.chain.view().call("eth_chainId", &json!([])).unwrap();
        let chain_id = ChainId::new(rpc::number(&said)).unwrap();
        let live = nodes.map(|node| LiveNode {
            node: NodeId::new(&node.name, Uuid::nil()).unwrap(),
            chain_id,
            advertise_url: Text::lossy(&format!("http://127.0.0.1:{}", node.port)),
            draining: false,
            serves: None,
        });
        let of = Submitter::new(chain_id, dev_accounts()[account].address);
        let should = &preferred(of, &live).unwrap().node;
        nodes.iter().zip(&live).find(|(_, it)| it.node == *should).unwrap().0.name.clone()
    }

    pub(crate) fn rpc_url(&self) -> String {
        self.chain.url()
    }

    /// Starts a node and waits until it is ready.
    pub(crate) async fn node(&self, name: &str) -> Node {
        self.node_at(name, free_port()).await
    }

    pub(crate) async fn node_at(&self, name: &str, port: u16) -> Node {
        self.start(name, port, &self.folder.path().join("keys")).await
    }

    /// The same with the keys of these accounts alone.
    pub(crate) async fn node_for(&self, name: &str, accounts: &[usize]) -> Node {
        let keys = self.folder.path().join(format!("keys-of-{name}"));
        write_keys(&keys, accounts.iter().copied());
        self.start(name, free_port(), &keys).await
    }

    async fn start(&self, name: &str, port: u16, keys: &Path) -> Node {
        let mut command = command();
        command
            .args(["serve", "--no-auth", "--node-name", name])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--database-url", &self.database_url])
            .args(["--rpc-url", &self.chain.url(), "--finality", "confirmations:2"])
            .args(["--lease-duration", self.lease.0, "--lease-renew-interval", self.lease.1])
            .arg("--private-key-file")
            .arg(keys)
            .env("TOLLGATE_LEASE_CLOCK_SKEW_ALLOWANCE", "0s")
            .env("TOLLGATE_DRAIN_WAIT", self.drain_wait)
            .envs(self.settings.iter().copied())
            .env("RUST_LOG", "warn,tollgate_engine=info");
        let program = Program::start(&mut command);
        let node = Node { name: name.to_owned(), port, program };
        wait::until("a node to be ready", || async { node.is_ready().await.then_some(()) }).await;
        node
    }

    /// The verdict: the feed has each accepted one once, and so have the chain's own blocks, where no
    /// account's nonces have a gap. `accepted` has what was paid, by the transaction's id.
    pub(crate) async fn check(&self, node: &Node, accepted: &BTreeMap<String, u64>) {
        let feed = wait::until("everything to be final", || async {
            let feed = outcome::feed(node.port).await?;
            (feed.len() >= accepted.len()).then_some(feed)
        })
        .await;
        outcome::check(&self.chain.url(), &feed, accepted).await;
    }
}

impl Node {
    pub(crate) async fn is_ready(&self) -> bool {
        is_ready(self.port).await
    }

    /// The name of the node that owns an account, and the token, as this one sees it.
    pub(crate) async fn owner_of(&self, account: usize) -> Option<(String, u64)> {
        let path = format!("/api/v1/submitters/{}", dev_accounts()[account].address);
        let shown = ask(self.port, "GET", &path, "").await.ok()?.body;
        let name = shown["owner"].as_str()?.split('/').next()?.to_owned();
        Some((name, shown["fencingToken"].as_u64()?))
    }
}

/// Returns true if a node says that it takes requests; one that does not answer does not.
pub(crate) async fn is_ready(port: u16) -> bool {
    let asked = ask(port, "GET", "/readyz", "");
    let said = tokio::time::timeout(Duration::from_millis(500), asked).await;
    matches!(said, Ok(Ok(said)) if said.status == 200)
}

/// A create that pays so much.
pub(crate) fn create(account: usize, value: u64) -> String {
    let accounts = dev_accounts();
    json!({
        "submitter": accounts[account].address,
        "requestId": format!("order-{value}"),
        "payload": { "to": accounts[PAID].address, "value": value.to_string(), "gas": 30_000 },
    })
    .to_string()
}
