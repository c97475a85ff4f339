//! Accounts below their floor are paid from a funding account: the real binary, several nodes, kills, both stores.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_model::port::Checkpoint;
use tollgate_testkit::cluster::write_keys;
use tollgate_testkit::http::ask;
use tollgate_testkit::wait::until;
use tollgate_testkit::{PgServer, StoreKind, outcome, rpc};

use crate::program::{Program, Ran, command, free_port, http_get};

/// An account that no node has a key of.
const PAID: &str = "0x7070707070707070707070707070707070707070";
const ETHER: u64 = 1_000_000_000_000_000_000;
/// Pays the account from the first dev account. The period ends in the last minute of a month only.
const TOP_UP: &str =
    "floor = \"2 ether\"\ntarget = \"3 ether\"\ndaily_cap = \"5 ether\"\nperiod = \"30d\"\n";

struct Stage {
    folder: tempfile::TempDir,
    database_url: String,
    chain: RunningDevChain,
    /// Stops when it is dropped.
    _server: Option<PgServer>,
}

struct Node {
    port: u16,
    program: Program,
}

impl Stage {
    async fn set(store: StoreKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (database_url, server) = match store {
            StoreKind::Postgres => {
                let server = PgServer::start().await;
                (server.url(&server.fresh_database().await), Some(server))
            }
            StoreKind::Sqlite => {
                (format!("sqlite:{}", folder.path().join("tollgate.db").display()), None)
            }
        };
        let block_interval = Some(Duration::from_millis(50));
        let options = DevChainOptions { block_interval, ..Default::default() };
        let chain = DevChain::start(options).await.unwrap();
        write_keys(&folder.path().join("keys"), [0]);
        Self { folder, database_url, chain, _server: server }
    }

    /// Starts a node; `top_up` is what the settings say about the paid account.
    fn start(&self, name: &str, top_up: Option<&str>, dies_at: Option<Checkpoint>) -> Node {
        let file = self.folder.path().join(format!("{name}.toml"));
        let mut settings =
            "[alerts]\ninterval = \"100ms\"\nresolve_after = \"1s\"\nlow_balance_days = 0\n"
                .to_owned();
        if let Some(top_up) = top_up {
            settings.push_str(&format!("\n[[topup]]\naccount = \"{PAID}\"\n{top_up}"));
        }
        std::fs::write(&file, settings).unwrap();
        let port = free_port();
        let mut command = command();
        command
            .args(["serve", "--no-auth", "--node-name", name, "--config"])
            .arg(file)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--private-key-file"])
            .arg(self.folder.path().join("keys"))
            .args(["--database-url", &self.database_url, "--rpc-url", &self.chain.url()])
            .args(["--finality", "confirmations:2", "--lease-duration", "1s"])
            .args(["--lease-renew-interval", "300ms"])
            .env("TOLLGATE_LEASE_CLOCK_SKEW_ALLOWANCE", "0s")
            .env("RUST_LOG", "warn,tollgate=info");
        if let Some(at) = dies_at {
            command.env("TOLLGATE_KILL_AT", at.name());
        }
        Node { port, program: Program::start(&mut command) }
    }

    fn paying(&self, name: &str) -> Node {
        self.start(name, Some(&from_first(TOP_UP)), None)
    }

    async fn balance(&self) -> u64 {
        rpc::number(&rpc::call(&self.chain.url(), "eth_getBalance", json!([PAID, "latest"])).await)
    }

    async fn set_balance(&self, wei: u64) {
        let parameters = json!([PAID, format!("{wei:#x}")]);
        rpc::call(&self.chain.url(), "devchain_setBalance", parameters).await;
    }

    async fn until_balance(&self, wei: u64) {
        let what = format!("a balance of {wei} wei");
        until(&what, || async { (self.balance().await == wei).then_some(()) }).await;
    }

    fn alerts(&self, kind: &str) -> Vec<Value> {
        let args = ["alert", "list", "--database-url", &self.database_url, "--json"];
        let listed = Ran::of(command().args(args));
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let all = listed.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|alert| alert["kind"] == kind).collect()
    }

    /// Waits for an alert about the paid account that says this, until it was reported so often again; returns its
    /// detail. Nodes look for payments that are due as often as they report.
    async fn alert(&self, kind: &str, text: &str, more: u64) -> String {
        let find = || {
            let told = |alert: &Value| alert["detail"].as_str().unwrap().contains(text);
            self.alerts(kind).into_iter().find(told)
        };
        let times = |alert: &Value| alert["times"].as_u64().unwrap();
        let first = until(kind, || async { find() }).await;
        let again =
            until(kind, || async { find().filter(|alert| times(alert) >= times(&first) + more) });
        let alert = again.await;
        assert_eq!(alert["submitter"], PAID, "{alert}");
        alert["detail"].as_str().unwrap().to_owned()
    }

    /// The values of all transactions on the chain.
    async fn paid(&self) -> Vec<u64> {
        outcome::paid(&self.chain.url()).await
    }
}

impl Node {
    async fn ready(self) -> Self {
        until("a node to be ready", || async {
            ask(self.port, "GET", "/readyz", "")
                .await
                .is_ok_and(|said| said.status == 200)
                .then_some(())
        })
        .await;
        self
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let said = ask(self.port, method, path, &body.to_string()).await.unwrap();
        assert!(said.status < 300, "{}: {}", said.status, said.body);
        said.body
    }

    /// The feed, once it has so many entries.
    async fn feed(&self, count: usize) -> Vec<Value> {
        until("the payment to be final", || async {
            outcome::feed(self.port).await.filter(|feed| feed.len() >= count)
        })
        .await
    }
}

/// The same, paid by the dev account whose key the nodes have.
fn from_first(top_up: &str) -> String {
    format!("{top_up}from = \"{}\"\n", dev_accounts()[0].address)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_restore_a_balance_with_one_payment_in_a_period() {
    let stage = Stage::set(StoreKind::Postgres).await;
    stage.set_balance(ETHER / 2).await;
    let (one, two) = (stage.paying("one"), stage.paying("two"));
    let (one, _two) = (one.ready().await, two.ready().await);
    stage.until_balance(3 * ETHER).await;
    let feed = one.feed(1).await;
    assert_eq!((feed.len(), &feed[0]["state"]), (1, &json!("CONFIRMED")));
    let id = format!(
        "topup:{}:{PAID}:",
        rpc::number(&rpc::call(&stage.chain.url(), "eth_chainId", json!([])).await)
    );
    assert!(feed[0]["requestId"].as_str().unwrap().starts_with(&id), "{feed:?}");

    // Empty again in the same period: it is told, and many looks later nothing more was paid.
    stage.set_balance(ETHER).await;
    let detail = stage.alert("low_balance", "balance of 1 eth", 10).await;
    assert_eq!(detail, "the balance of 1 eth is below the floor of 2 eth");
    assert_eq!(stage.paid().await, [5 * ETHER / 2]);
    stage.set_balance(2 * ETHER).await;
    until("the alert to be over", || async {
        stage.alerts("low_balance").is_empty().then_some(())
    })
    .await;
}

/// `slots_chosen`: decided, and nothing is durable. `batch_committed`: durable, and nobody knows.
async fn payment_is_made_once_though_its_node_is_killed(store: StoreKind) {
    for at in [Checkpoint::SlotsChosen, Checkpoint::BatchCommitted] {
        let stage = Stage::set(store).await;
        let doomed = stage.start("doomed", Some(&from_first(TOP_UP)), Some(at));
        assert_eq!(doomed.program.end().code, None, "killed at {}", at.name());
        let (heir, other) = (stage.paying("heir"), stage.paying("other"));
        stage.until_balance(3 * ETHER).await;
        heir.feed(1).await;
        // Another one that begins from nothing, with the same settings, has nothing to do.
        drop((heir, other));
        let last = stage.paying("last").ready().await;
        stage.set_balance(ETHER).await;
        stage.alert("low_balance", "balance of 1 eth", 10).await;
        assert_eq!((stage.paid().await, last.feed(1).await.len()), (vec![3 * ETHER], 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payment_is_made_once_though_its_node_is_killed_on_postgres() {
    payment_is_made_once_though_its_node_is_killed(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payment_is_made_once_though_its_node_is_killed_on_sqlite() {
    payment_is_made_once_though_its_node_is_killed(StoreKind::Sqlite).await;
}

/// A payment of another period, made before.
async fn pay_earlier(stage: &Stage, node: &Node, wei: u64) {
    let chain = rpc::number(&rpc::call(&stage.chain.url(), "eth_chainId", json!([])).await);
    let create = json!({
        "submitter": dev_accounts()[0].address,
        "requestId": format!("topup:{chain}:{PAID}:1"),
        "payload": { "to": PAID, "value": wei.to_string() },
    });
    node.call("POST", "/api/v1/tx", &create).await;
    node.feed(1).await;
}

/// A node begins anew: its memory is not asked.
async fn cap_counts_what_the_store_has(store: StoreKind) {
    let stage = Stage::set(store).await;
    let before = stage.start("before", None, None).ready().await;
    pay_earlier(&stage, &before, ETHER).await;
    drop(before);
    let capped = TOP_UP.replace("5 ether", "1.75 ether");
    let node = stage.start("node", Some(&from_first(&capped)), None);
    stage.until_balance(7 * ETHER / 4).await;
    node.feed(2).await;
    assert_eq!(stage.paid().await, [ETHER, 3 * ETHER / 4], "the rest of the cap");
    drop(node);

    let lower = TOP_UP.replace("5 ether", "1 ether").replace("30d", "29d");
    let _node = stage.start("lower", Some(&from_first(&lower)), None);
    let detail = stage.alert("top_up_failed", "pays nothing", 3).await;
    let payer = dev_accounts()[0].address;
    assert_eq!(detail, format!("{payer} pays nothing: the daily cap is reached"));
    assert_eq!(stage.paid().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cap_counts_what_the_store_has_on_postgres() {
    cap_counts_what_the_store_has(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cap_counts_what_the_store_has_on_sqlite() {
    cap_counts_what_the_store_has(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spending_rules_of_the_funding_account_hold_for_top_ups() {
    let stage = Stage::set(StoreKind::Sqlite).await;
    let before = stage.start("before", None, None).ready().await;
    let path = format!("/api/v1/submitters/{}", dev_accounts()[0].address);
    before.call("PATCH", &path, &json!({ "maxValue": (2 * ETHER).to_string() })).await;
    drop(before);
    let node = stage.paying("node").ready().await;
    let detail = stage.alert("top_up_failed", "pays nothing", 3).await;
    assert!(detail.contains("pays nothing: ") && detail.contains("value"), "{detail}");
    assert_eq!(stage.paid().await, [0; 0]);
    node.call("PATCH", &path, &json!({ "maxValue": null })).await;
    stage.until_balance(3 * ETHER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn funding_account_that_no_node_serves_pays_nothing_and_is_told() {
    let stage = Stage::set(StoreKind::Sqlite).await;
    let stranger = format!("{TOP_UP}from = \"{}\"\n", dev_accounts()[5].address);
    let _node = stage.start("node", Some(&stranger), None).ready().await;
    let detail = stage.alert("top_up_failed", "pays nothing", 3).await;
    assert!(detail.ends_with("no node of this cluster serves the funding account"), "{detail}");
    assert_eq!(stage.balance().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn account_with_a_floor_alone_is_watched_and_never_paid() {
    let stage = Stage::set(StoreKind::Sqlite).await;
    let node = stage.start("node", Some("floor = \"2 ether\"\n"), None).ready().await;
    let detail = stage.alert("low_balance", "balance of 0 eth", 5).await;
    assert_eq!(detail, "the balance of 0 eth is below the floor of 2 eth");
    assert_eq!((stage.paid().await, stage.balance().await), (vec![], 0));
    let shown = http_get(node.port, "/metrics").await.unwrap();
    let sum = |name: &str, label: &str| {
        let is_meant = |line: &&str| line.starts_with(name) && line.contains(label);
        let samples = shown.lines().filter(is_meant);
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    assert_eq!(sum("tollgate_accounts_below_floor{", ""), 1.0);
    let raised = sum("tollgate_alerts_total{", "kind=\"low_balance\"");
    assert_eq!(raised, 1.0, "one alert, many reports");
}
