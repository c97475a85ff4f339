//! A database, a chain, nodes that can be killed, and callers that do not give up.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::{JoinHandle, JoinSet};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_model::port::Checkpoint;
pub(super) use tollgate_testkit::StoreKind;
use tollgate_testkit::anvil::Anvil;
use tollgate_testkit::cluster::write_keys;
use tollgate_testkit::{PgServer, outcome, rpc, wait};

#[derive(Clone, Copy, Debug)]
pub(super) enum ChainKind {
    Devchain,
    Anvil,
}

enum ChainServer {
    Devchain(RunningDevChain),
    Anvil(Anvil),
}

pub(super) struct Stage {
    folder: tempfile::TempDir,
    database_url: String,
    chain: ChainServer,
    listen: String,
    mode: String,
    /// Stops when it is dropped.
    _server: Option<PgServer>,
}

impl Stage {
    pub(super) async fn set(store: StoreKind, chain: ChainKind, mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (database_url, server) = match store {
            StoreKind::Postgres => {
                let server = PgServer::start().await;
                let database = server.fresh_database().await;
                (server.url(&database), Some(server))
            }
            StoreKind::Sqlite => {
                let file = folder.path().join("tollgate.db");
                (format!("sqlite:{}", file.display()), None)
            }
        };
        let chain = match chain {
            ChainKind::Devchain => {
                let block_interval = Some(Duration::from_millis(50));
                let options = DevChainOptions { block_interval, ..Default::default() };
                ChainServer::Devchain(DevChain::start(options).await.unwrap())
            }
            ChainKind::Anvil => {
                let anvil = Anvil::start(&[]).await;
                anvil.call("evm_setIntervalMining", json!([1])).await;
                ChainServer::Anvil(anvil)
            }
        };
        write_keys(&folder.path().join("keys"), [0]);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = port.local_addr().unwrap().to_string();
        Self { folder, database_url, chain, listen, mode: mode.to_owned(), _server: server }
    }

    fn rpc_url(&self) -> String {
        match &self.chain {
            ChainServer::Devchain(chain) => chain.url(),
            ChainServer::Anvil(anvil) => anvil.url().to_owned(),
        }
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("keys")
    }

    /// Starts a node, which may be told where to die.
    pub(super) fn node(&self, dies_at: Option<(Checkpoint, u32)>) -> Node {
        let mut command = self.command("500ms");
        if let Some((at, passes)) = dies_at {
            command.env("TOLLGATE_KILL_AT", format!("{}:{passes}", at.name()));
        }
        Node(command.spawn().unwrap())
    }

    /// Starts a node that dies at the point when it comes there after [`Self::arm`]. It sends
    /// nothing again by itself: at rest it passes no point.
    pub(super) fn doomed(&self, at: Checkpoint) -> Node {
        let _ = std::fs::remove_file(self.trigger());
        let mut command = self.command("5m");
        command.env("TOLLGATE_KILL_AT", at.name()).env("TOLLGATE_KILL_ONCE", self.trigger());
        Node(command.spawn().unwrap())
    }

    /// From now on the point counts.
    pub(super) fn arm(&self) {
        std::fs::write(self.trigger(), "").unwrap();
    }

    fn trigger(&self) -> PathBuf {
        self.folder.path().join("armed")
    }

    fn command(&self, resubmit_interval: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command
            .args(["serve", "--no-auth", "--listen", &self.listen, "--mode", &self.mode])
            .args(["--database-url", &self.database_url, "--rpc-url", &self.rpc_url()])
            .args(["--finality", "confirmations:2", "--resubmit-interval", resubmit_interval])
            .args(["--lease-duration", "1s", "--lease-renew-interval", "300ms"])
            .arg("--private-key-file")
            .arg(self.keys())
            .env("RUST_LOG", "error")
            .env("TOLLGATE_ALLOW_TEST_FEATURES", "1")
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts or stops the dev chain's blocks.
    pub(super) async fn mine(&self, by_itself: bool) {
        let method = if by_itself { "devchain_resumeMining" } else { "devchain_pauseMining" };
        rpc::call(&self.rpc_url(), method, json!([])).await;
    }

    /// A pool has it, and no block.
    pub(super) async fn is_pooled(&self, hash: &str) -> bool {
        let found = rpc::call(&self.rpc_url(), "eth_getTransactionByHash", json!([hash])).await;
        found.is_object() && found["blockNumber"].is_null()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/api/v1/{path}", self.listen)
    }

    /// Reads a path, as soon as a node answers.
    pub(super) async fn get(&self, path: &str) -> Value {
        wait::until(path, || async {
            let (status, body) = rpc::request("GET", &self.url(path), "").await.ok()?;
            (status == 200).then(|| serde_json::from_str(&body).unwrap())
        })
        .await
    }

    /// One caller's transaction; the id.
    pub(super) async fn create(&self, value: u64) -> String {
        insist(&self.url("tx"), value).await
    }

    /// Callers that each want one transaction, and ask under the same name until it is taken.
    /// Returns the ids that they were given, by value.
    pub(super) fn callers(&self, count: u64) -> JoinHandle<BTreeMap<u64, String>> {
        let url = self.url("tx");
        tokio::spawn(async move {
            let mut callers = JoinSet::new();
            for value in 1..=count {
                let url = url.clone();
                callers.spawn(async move { (value, insist(&url, value).await) });
            }
            callers.join_all().await.into_iter().collect()
        })
    }

    /// The verdict: the feed has each accepted one once, and so has the chain, without a gap.
    pub(super) async fn check(&self, accepted: BTreeMap<u64, String>) {
        let feed = self.feed(accepted.len()).await;
        let accepted = accepted.into_iter().map(|(value, tx_id)| (tx_id, value)).collect();
        outcome::check(&self.rpc_url(), &feed, &accepted).await;
    }

    /// The feed, when it has so many entries.
    pub(super) async fn feed(&self, count: usize) -> Vec<Value> {
        let url = self.url("tx/completions?after=0&limit=1000");
        wait::until("everything to be final", || async {
            let (_, body) = rpc::request("GET", &url, "").await.ok()?;
            let items = serde_json::from_str::<Value>(&body).ok()?["items"].as_array()?.clone();
            (items.len() >= count).then_some(items)
        })
        .await
    }

    /// The transactions in the chain's own blocks; the nonces must have no gap.
    pub(super) async fn mined(&self) -> Vec<Value> {
        outcome::mined(&self.rpc_url()).await
    }
}

async fn insist(url: &str, value: u64) -> String {
    let body = json!({
        "submitter": dev_accounts()[0].address,
        "requestId": format!("order-{value}"),
        "payload": { "to": dev_accounts()[1].address, "value": value.to_string() },
    });
    wait::until("a create to be taken", || async {
        let (status, body) = rpc::request("POST", url, &body.to_string()).await.ok()?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        match status {
            200 | 202 => answer["txId"].as_str().map(str::to_owned),
            409 | 429 | 503 if answer["retryable"] == true => None,
            _ => panic!("{status}: {answer}"),
        }
    })
    .await
}

/// A node's process; killed when it is dropped.
pub(super) struct Node(Child);

impl Node {
    /// The signal that ended it.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        wait::within("the node's end", self.0.wait()).await.unwrap().signal()
    }
}
