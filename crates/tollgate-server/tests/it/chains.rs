//! Several chains in one node, and nodes with overlapping sets of chains: the real binary.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_devchain::chain::ChainConfig;
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_testkit::http::ask;
use tollgate_testkit::postgres::PgServer;
use tollgate_testkit::wait::until;
use tollgate_testkit::{outcome, program};

use crate::dev_site::target;
use crate::program::{Program, command, free_port, http};

const CHAINS: [u64; 3] = [31_401, 31_402, 31_403];

pub(crate) async fn chain(chain_id: u64) -> RunningDevChain {
    let defaults = DevChainOptions::default();
    let options = DevChainOptions {
        block_interval: Some(Duration::from_millis(100)),
        chain: ChainConfig { chain_id, ..defaults.chain },
        ..defaults
    };
    DevChain::start(options).await.unwrap()
}

/// A folder with keys, and a configuration with `[[chains]]`.
pub(crate) struct NodeFiles {
    folder: tempfile::TempDir,
    port: u16,
}

impl NodeFiles {
    pub(crate) fn new(database: Option<&str>, chains: &[(u64, String)]) -> Self {
        Self::with_keys(database, chains, "")
    }

    /// The same with more lines in the section `keys`.
    pub(crate) fn with_keys(database: Option<&str>, chains: &[(u64, String)], more: &str) -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap(), port: program::lasting_port() };
        let keys = files.path("keys");
        let lines: Vec<String> =
            dev_accounts()[..4].iter().map(|account| account.private_key.to_string()).collect();
        std::fs::write(&keys, lines.join("\n")).unwrap();
        let database =
            database.map_or_else(|| format!("sqlite:{}", files.path("t.db")), Into::into);
        let mut text = format!(
            "no_auth = true\nlisten = \"127.0.0.1:{}\"\nfinality = \"confirmations:2\"\n\
             [database]\nurl = {database:?}\n[keys]\nprivate_key_files = [{keys:?}]\n{more}\
             [lease]\nduration = \"2s\"\nrenew_interval = \"500ms\"\n\
             clock_skew_allowance = \"100ms\"\n[startup]\nwait = \"2s\"\n[drain]\nwait = \"0s\"\n",
            files.port
        );
        for (id, url) in chains {
            text +=
                &format!("[[chains]]\nname = \"chain-{id}\"\nid = {id}\nrpc_urls = [{url:?}]\n");
        }
        std::fs::write(files.path("tollgate.toml"), text).unwrap();
        files
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn serve(&self) -> Command {
        let mut serve = command();
        serve.args(["serve", "--config", &self.path("tollgate.toml")]).env("RUST_LOG", "warn");
        serve
    }

    pub(crate) async fn start(&self) -> Program {
        let program = Program::start(&mut self.serve());
        until("the node to be ready", || async {
            ask(self.port, "GET", "/readyz", "").await.ok().filter(|said| said.status == 200)
        })
        .await;
        program
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let said = ask(self.port, "GET", path, "").await.unwrap();
        (said.status, said.body)
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let said = ask(self.port, method, path, body).await.unwrap();
        (said.status, said.body)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let said = ask(self.port, "POST", path, &body.to_string()).await.unwrap();
        (said.status, said.body)
    }
}

pub(crate) fn create(account: usize, request: &str, value: u64, chain_id: Option<u64>) -> Value {
    let mut create = json!({
        "submitter": dev_accounts()[account].address,
        "requestId": request,
        "payload": { "to": target(9), "value": value.to_string(), "gas": 30_000 },
    });
    if let Some(chain_id) = chain_id {
        create["chainId"] = json!(chain_id);
    }
    create
}

/// The values that a chain shows as paid, each once, as soon as there are as many as expected.
async fn paid(chain: &RunningDevChain, expected: usize) -> BTreeSet<u64> {
    until("everything to be mined", || async {
        let values = outcome::paid(&chain.url()).await;
        let once: BTreeSet<u64> = values.iter().copied().collect();
        assert_eq!(once.len(), values.len(), "paid twice: {values:?}");
        (once.len() >= expected).then_some(once)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_carried_out_on_the_chain_that_it_names() {
    let (one, two) = (chain(CHAINS[0]).await, chain(CHAINS[1]).await);
    let node = NodeFiles::new(None, &[(CHAINS[0], one.url()), (CHAINS[1], two.url())]);
    let _program = node.start().await;
    let (_, listed) = until("both chains to be ready", || async {
        let listed = node.get("/api/v1/chains").await;
        let is_ready = |chain: &Value| chain["status"] == "ready";
        listed.1["items"].as_array().unwrap().iter().all(is_ready).then_some(listed)
    })
    .await;
    let names: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|chain| &chain["name"]).collect();
    assert_eq!(names, [&json!("chain-31401"), &json!("chain-31402")], "{listed}");
    assert_eq!(listed["items"][0]["endpoints"][0]["check"], "good", "{listed}");

    // Which chain is never guessed.
    let address = dev_accounts()[0].address;
    let pause = format!("/api/v1/submitters/{address}/pause");
    let shown = format!("/api/v1/submitters/{address}");
    for (status, refused) in [
        node.post("/api/v1/tx", &create(0, "a", 1, None)).await,
        node.post(&pause, &json!({ "reason": "test" })).await,
        node.get(&shown).await,
        node.get("/api/v1/submitters").await,
        node.get("/api/v1/pools").await,
    ] {
        assert_eq!((status, &refused["code"]), (422, &json!("missing_field")), "{refused}");
        assert_eq!(refused["field"], "chainId", "{refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("31401 (chain-31401), 31402 (chain-31402)"), "{detail}");
    }
    let (status, refused) = node.post("/api/v1/tx", &create(0, "a", 1, Some(5))).await;
    assert_eq!((status, &refused["code"]), (422, &json!("wrong_chain")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("31401"), "{refused}");

    // A chain that can't be read from its header may have been another one.
    for header in ["0x7aa9", "+31401", "031401", "31401.0", ""] {
        let head = format!("tollgate-chain-id: {header}\r\n");
        for request in [format!("GET {shown} HTTP/1.1"), format!("POST {pause} HTTP/1.1")] {
            let request = format!(
                "{request}\r\nhost: localhost\r\n{head}connection: close\r\ncontent-length: 0\r\n\r\n"
            );
            let said = http(node.port, &request).unwrap();
            assert!(said.starts_with("HTTP/1.1 422") && said.contains("wrong_chain"), "{said}");
        }
    }
    // A batch has its limit whether or not its items name their chains.
    for items in [json!([]), json!(vec![1; 1_001])] {
        let (status, refused) = node.post("/api/v1/tx/batch", &json!({ "items": items })).await;
        assert_eq!((status, &refused["code"]), (422, &json!("invalid_batch")), "{refused}");
    }

    // The same account and the same request id on both chains are two requests.
    for (value, chain_id) in [(10, CHAINS[0]), (20, CHAINS[1])] {
        let (status, tx) = node.post("/api/v1/tx", &create(0, "a", value, Some(chain_id))).await;
        assert_eq!((status, &tx["chainId"]), (202, &json!(chain_id)), "{tx}");
        let by_request =
            format!("/api/v1/tx/by-request?submitter={address}&requestId=a&chainId={chain_id}");
        assert_eq!(node.get(&by_request).await.1["txId"], tx["txId"]);
        let id = tx["txId"].as_str().unwrap();
        assert_eq!(node.get(&format!("/api/v1/tx/{id}")).await.1["chainId"], chain_id);
    }
    let items = json!({ "items": [
        create(1, "b1", 11, Some(CHAINS[0])), create(1, "b2", 21, Some(CHAINS[1])),
        create(1, "b3", 5, None), create(1, "b4", 12, Some(CHAINS[0])),
    ] });
    let (_, answered) = node.post("/api/v1/tx/batch", &items).await;
    let statuses: Vec<u64> = answered["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [202, 202, 422, 202], "{answered}");
    assert_eq!(answered["items"][1]["tx"]["chainId"], CHAINS[1], "{answered}");
    assert_eq!(paid(&one, 3).await, BTreeSet::from([10, 11, 12]));
    assert_eq!(paid(&two, 2).await, BTreeSet::from([20, 21]));

    // What an operator does to an account on one chain leaves it alone on the other.
    let (status, paused) =
        node.post(&format!("{pause}?chainId={}", CHAINS[0]), &json!({ "reason": "test" })).await;
    assert_eq!((status, &paused["chainId"]), (200, &json!(CHAINS[0])), "{paused}");
    for (chain_id, expected) in [(CHAINS[0], "PAUSED"), (CHAINS[1], "ACTIVE")] {
        let (_, found) = node.get(&format!("{shown}?chainId={chain_id}")).await;
        assert_eq!((&found["status"], &found["chainId"]), (&json!(expected), &json!(chain_id)));
    }
    let (_, held) = node.post("/api/v1/tx", &create(0, "c", 99, Some(CHAINS[0]))).await;
    let cancel = format!("/api/v1/tx/{}/cancel", held["txId"].as_str().unwrap());
    let (status, cancelled) = node.post(&cancel, &json!({ "reason": "test" })).await;
    assert_eq!(status, 200, "{cancelled}");
    // Lists, the feed and reports are about all chains, unless the request names one.
    let of_all = |page: &Value, count: usize| {
        let items = page["items"].as_array().unwrap();
        let both = CHAINS[..2].iter().all(|id| items.iter().any(|item| item["chainId"] == *id));
        both && items.len() == count
    };
    for (path, count) in [
        ("/api/v1/tx?limit=100", 6),
        ("/api/v1/tx/completions?limit=100", 6),
        ("/api/v1/reports/costs?from=2020-01-01T00:00:00Z", 2),
    ] {
        until("the answer of all chains", || async {
            of_all(&node.get(path).await.1, count).then_some(())
        })
        .await;
    }
    let (status, refused) = node.get(&format!("/api/v1/tx?submitter={address}")).await;
    assert_eq!((status, &refused["field"]), (422, &json!("chainId")), "{refused}");
    for (chain_id, count) in [(CHAINS[0], 4), (CHAINS[1], 2)] {
        let feed = format!("/api/v1/tx/completions?chainId={chain_id}&limit=100");
        until("the feed of the chain", || async {
            let (_, page) = node.get(&feed).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.iter().all(|item| item["chainId"] == chain_id), "{page}");
            (items.len() == count).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_whose_endpoints_are_down_harms_no_other_and_starts_later() {
    let good = chain(CHAINS[0]).await;
    let down = free_port();
    let late = format!("http://127.0.0.1:{down}");
    let node = NodeFiles::new(None, &[(CHAINS[0], good.url()), (CHAINS[1], late)]);
    let _program = node.start().await;
    let (_, ready) = node.get("/readyz").await;
    assert_eq!(ready["chains"][0]["status"], "ready", "{ready}");
    assert_eq!(ready["chains"][1]["status"], "starting", "{ready}");
    assert!(ready["chains"][1]["detail"].as_str().unwrap().contains("endpoint"), "{ready}");
    let (status, _) = node.post("/api/v1/tx", &create(0, "a", 1, Some(CHAINS[0]))).await;
    assert_eq!(status, 202);
    let (status, refused) = node.post("/api/v1/tx", &create(0, "a", 2, Some(CHAINS[1]))).await;
    assert_eq!((status, &refused["code"]), (503, &json!("unavailable")), "{refused}");
    assert_eq!(paid(&good, 1).await, BTreeSet::from([1]));

    let defaults = DevChainOptions::default();
    let late = DevChain::start(DevChainOptions {
        port: down,
        block_interval: Some(Duration::from_millis(100)),
        chain: ChainConfig { chain_id: CHAINS[1], ..defaults.chain },
        ..defaults
    })
    .await
    .unwrap();
    until("the other chain to take the create", || async {
        let (status, _) = node.post("/api/v1/tx", &create(0, "a", 2, Some(CHAINS[1]))).await;
        (status == 202).then_some(())
    })
    .await;
    assert_eq!(paid(&late, 1).await, BTreeSet::from([2]));
}

/// Three nodes, each without one of three chains, on one database. Creates go to any node for any chain,
/// while nodes are killed and started again.
#[tokio::test(flavor = "multi_thread")]
async fn creates_at_nodes_with_overlapping_chains_are_mined_once_under_kills() {
    const CREATES: u64 = 1_000;
    let server = PgServer::start_own().await;
    let database = server.url(&server.fresh_database().await);
    let chains = [chain(CHAINS[0]).await, chain(CHAINS[1]).await, chain(CHAINS[2]).await];
    let without = |left_out: usize| {
        let served: Vec<(u64, String)> = (0..3)
            .filter(|place| *place != left_out)
            .map(|place| (CHAINS[place], chains[place].url()))
            .collect();
        NodeFiles::new(Some(&database), &served)
    };
    let nodes = [without(0), without(1), without(2)];
    let mut programs = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        programs.insert(place, node.start().await);
    }
    for n in 0..CREATES {
        let (chain, account) = (usize::try_from(n % 3).unwrap(), usize::try_from(n % 4).unwrap());
        let body = create(account, &format!("order-{n}"), n + 1, Some(CHAINS[chain])).to_string();
        if n % 250 == 125 {
            // Killed in mid-work; the others go on, and it comes back while they do.
            let victim = usize::try_from(n / 250).unwrap() % 3;
            programs.remove(&victim);
            programs.insert(victim, Program::start(&mut nodes[victim].serve()));
        }
        let mut at = usize::try_from(n / 3).unwrap();
        until("the create to be accepted", || {
            at += 1;
            let (port, body) = (nodes[at % 3].port, body.clone());
            async move {
                let said = ask(port, "POST", "/api/v1/tx", &body).await.ok()?;
                assert!(
                    said.status < 300 || said.body["retryable"] == true,
                    "refused for good: {:?}",
                    said.body
                );
                (said.status < 300).then(|| assert_eq!(said.body["chainId"], CHAINS[chain]))
            }
        })
        .await;
    }
    for (place, chain) in chains.iter().enumerate() {
        let expected: BTreeSet<u64> =
            (0..CREATES).filter(|n| n % 3 == place as u64).map(|n| n + 1).collect();
        assert_eq!(paid(chain, expected.len()).await, expected);
    }
}
