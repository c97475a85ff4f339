//! A node as a process, and everything that can happen to it in a few seconds: work, trouble with endpoints, a
//! reorganisation, an outsider, a lost lease, a database that is held by somebody else.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_devchain::chain::{DroppedTxs, Reorg};
use tollgate_devchain::fault::{Fault, FaultRule};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_model::port::{
    Checkpoint, FencedBatch, Lease, LeaseStore as _, Section, TxStore as _,
};
use tollgate_model::{ChainId, FencingToken, Submitter};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::builders::node_id;
use tollgate_testkit::{PausePoints, rpc, wait};

use super::changed;
use crate::program::{Program, free_port, http};
use crate::signed::signed_by;
use crate::start::Ground;

/// The dev account whose key the node has.
const SENDER: usize = 0;
/// Times that make everything happen at once.
const FAST: [(&str, &str); 13] = [
    ("TOLLGATE_METRICS_PER_SUBMITTER", "true"),
    ("TOLLGATE_METRICS_BALANCE_INTERVAL", "100ms"),
    ("TOLLGATE_LEASE_DURATION", "2s"),
    ("TOLLGATE_LEASE_RENEW_INTERVAL", "200ms"),
    ("TOLLGATE_RESUBMIT_INTERVAL", "500ms"),
    ("TOLLGATE_STUCK_HEAD_AFTER", "1s"),
    ("TOLLGATE_RESERVATIONS_ENABLED", "true"),
    ("TOLLGATE_RECONCILE_INTERVAL", "500ms"),
    ("TOLLGATE_CHAIN_POLL_INTERVAL", "50ms"),
    ("TOLLGATE_DATABASE_BUSY_TIMEOUT", "300ms"),
    ("TOLLGATE_FINALITY", "confirmations:3"),
    ("RUST_LOG", "info"),
    ("TOLLGATE_LOG_FORMAT", "json"),
];

pub(super) struct Scenario {
    ground: Ground,
    chain: RunningDevChain,
    _node: Program,
}

impl Scenario {
    /// A node on a chain that mines when it is told to.
    pub(super) async fn begin(settings: &[(&str, &str)]) -> Self {
        let (ground, chain) = (Ground::new(), Self::chain().await);
        let mut serve = ground.serve(&chain.url(), &[]);
        serve.envs(FAST).envs(settings.iter().copied());
        let node = ground.started(&mut serve).await;
        Self { ground, chain, _node: node }
    }

    async fn chain() -> RunningDevChain {
        DevChain::start(DevChainOptions::default()).await.unwrap()
    }

    /// With an address for metrics alone.
    pub(super) async fn with_own_listener() -> (Self, u16) {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        (Self::begin(&[("TOLLGATE_METRICS_LISTEN", &listen)]).await, port)
    }

    /// Everything that happens; the names that have changed on the way.
    pub(super) async fn run_all() -> BTreeSet<String> {
        let scenario = Self::begin(&[]).await;
        let mut seen = BTreeSet::new();
        scenario.work(&mut seen).await;
        scenario.grey_zone(&mut seen).await;
        scenario.reorg(&mut seen).await;
        scenario.held_database(&mut seen).await;
        scenario.lost_lease(&mut seen).await;
        drop(scenario);
        Self::outsider(&mut seen).await;
        seen
    }

    pub(super) fn account(&self) -> String {
        dev_accounts()[SENDER].address.to_string()
    }

    pub(super) async fn get(&self, path: &str) -> String {
        self.get_at(self.ground.port, path).await
    }

    pub(super) async fn get_at(&self, port: u16, path: &str) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        answer(port, &head).await
    }

    pub(super) async fn get_accepting(&self, path: &str, accept: &str) -> String {
        let host = "host: localhost\r\nconnection: close";
        let head = format!("GET {path} HTTP/1.1\r\n{host}\r\naccept: {accept}\r\n\r\n");
        answer(self.ground.port, &head).await
    }

    pub(super) async fn scrape(&self) -> String {
        self.scrape_at(self.ground.port).await
    }

    /// The exposition, without the head of the answer.
    pub(super) async fn scrape_at(&self, port: u16) -> String {
        let answer = self.get_at(port, "/metrics").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body.to_owned()
    }

    async fn note(&self, seen: &mut BTreeSet<String>) {
        seen.extend(changed(&self.scrape().await));
    }

    /// Waits until these have changed.
    async fn until_seen(&self, names: &[&str], seen: &mut BTreeSet<String>) {
        for name in names {
            let mut limit = wait::Limit::new();
            loop {
                self.note(seen).await;
                if seen.contains(*name) {
                    break;
                }
                assert!(!limit.is_over(), "{name} never changes:\n{}", self.scrape().await);
                limit.pause().await;
            }
        }
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = answer(self.ground.port, &head).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    async fn create(&self, request_id: &str, more: &Value) -> String {
        let mut body = json!({
            "submitter": self.account(), "requestId": request_id,
            "payload": { "to": dev_accounts()[5].address, "value": "1000", "gas": 21_000 },
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let (status, tx) = self.post("/api/v1/tx", &body).await;
        assert!([200, 202].contains(&status), "{status} {tx}");
        tx["txId"].as_str().unwrap().to_owned()
    }

    async fn until_state(&self, tx_id: &str, state: &str, sub_state: Option<&str>, mines: bool) {
        let is_there =
            |tx: &Value| tx["state"] == state && sub_state.is_none_or(|sub| tx["subState"] == sub);
        self.until(tx_id, state, mines, is_there).await;
    }

    /// Waits until a transaction is as wanted; mines a block after each look if that is asked for.
    async fn until(&self, tx_id: &str, what: &str, mines: bool, test: impl Fn(&Value) -> bool) {
        let mut limit = wait::Limit::new();
        loop {
            let answer = self.get(&format!("/api/v1/tx/{tx_id}")).await;
            let tx: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            if test(&tx) {
                return;
            }
            assert!(!limit.is_over(), "never {what}: {tx}");
            if mines {
                self.chain.mine(1);
            }
            limit.pause().await;
        }
    }

    pub(super) async fn confirm_one(&self, request_id: &str) {
        let tx_id = self.create(request_id, &json!({})).await;
        self.until_state(&tx_id, "CONFIRMED", None, true).await;
    }

    /// Ordinary work: creates of all kinds, reservations, a head that waits for too long.
    async fn work(&self, seen: &mut BTreeSet<String>) {
        let waits = self.create("waits", &json!({})).await;
        assert_eq!(self.create("waits", &json!({})).await, waits);
        let later = json!({ "notBefore": in_seconds(3_600) });
        let _queued = self.create("later", &later).await;
        let path = format!("/api/v1/submitters/{}/nonces", self.account());
        let (status, reserved) = self.post(&path, &json!({})).await;
        assert_eq!(status, 201, "{reserved}");
        let stuck = [
            "tollgate_head_stuck_total",
            "tollgate_alerts_total",
            "tollgate_resubmit_total",
            "tollgate_queued_depth",
            "tollgate_pending_depth",
            "tollgate_reservations_outstanding",
            "tollgate_pending_oldest_age_seconds",
            "tollgate_submitter_queued_depth",
        ];
        self.until_seen(&stuck, seen).await;
        let body = json!({ "ownerToken": reserved["ownerToken"], "reason": "a test" });
        let path = format!("{path}/{}/recyclable", reserved["nonce"]);
        let (status, back) = self.post(&path, &body).await;
        assert_eq!(status, 200, "{back}");
        self.until_state(&waits, "CONFIRMED", None, true).await;
        let spent = ["tollgate_balance_left_seconds", "tollgate_submitter_balance_left_seconds"];
        self.until_seen(&spent, seen).await;
    }

    /// An endpoint takes a transaction and the answer is lost; then it expires, with a slot.
    async fn grey_zone(&self, seen: &mut BTreeSet<String>) {
        let hang = Fault::Http { status: 503, retry_after_s: None };
        assert!(self.chain.view().fail(FaultRule {
            times: Some(6),
            ..FaultRule::always("eth_sendRawTransaction", hang)
        }));
        let soon = json!({ "validUntil": in_seconds(3) });
        let tx_id = self.create("unclear", &soon).await;
        self.until_seen(&["tollgate_rpc_errors_total", "tollgate_grey_zone_total"], seen).await;
        self.until_seen(&["tollgate_stuck_depth", "tollgate_stuck_total"], seen).await;
        let path = format!("/api/v1/tx/{tx_id}/resubmit");
        let _ = self.post(&path, &json!({ "reason": "a test" })).await;
        self.until(&tx_id, "the end", true, |tx| {
            tx["state"] == "CONFIRMED" || tx["state"] == "FAILED_FINAL"
        })
        .await;
    }

    /// The block of a receipt leaves the chain.
    async fn reorg(&self, seen: &mut BTreeSet<String>) {
        let tx_id = self.create("reorged", &json!({})).await;
        self.until_state(&tx_id, "TRACKING", Some("PENDING"), false).await;
        self.chain.mine(1);
        self.until_state(&tx_id, "TRACKING", Some("MINED"), false).await;
        self.chain.reorg(Reorg::new(2, DroppedTxs::Returned)).unwrap();
        let names = ["tollgate_reorg_total", "tollgate_confirmations_new_fork_total"];
        self.until_seen(&names, seen).await;
        self.until_state(&tx_id, "CONFIRMED", None, true).await;
    }

    fn store_options(&self, checkpoints: Arc<PausePoints>) -> SqliteOptions {
        let url = self.ground.database_url();
        let file = url.strip_prefix("sqlite:").unwrap();
        SqliteOptions { checkpoints, ..SqliteOptions::file(file) }
    }

    fn submitter(&self) -> Submitter {
        Submitter::new(self.chain_id(), dev_accounts()[SENDER].address)
    }

    fn chain_id(&self) -> ChainId {
        ChainId::new(self.chain.with_chain(|chain| chain.config().chain_id)).unwrap()
    }

    /// Another process holds the database's write lock for longer than a commit waits.
    async fn held_database(&self, seen: &mut BTreeSet<String>) {
        let points = PausePoints::new();
        let store = SqliteStore::open(self.store_options(points.clone())).await.unwrap();
        let mut paused = points.pause_at(Checkpoint::BatchGuarded);
        let (token, submitter) = (FencingToken::MIN, self.submitter());
        let section = Section::new(Lease { submitter, token });
        let batch = FencedBatch::new(node_id("another"), vec![section]).unwrap();
        let held = tokio::spawn(async move { store.commit(&batch).await });
        paused.reached().await;
        let body = json!({
            "submitter": self.account(), "requestId": "held",
            "payload": { "to": dev_accounts()[5].address, "value": "1", "gas": 21_000 },
        });
        let waits = self.post("/api/v1/tx", &body);
        let names = ["tollgate_writer_queue_depth", "tollgate_worker_restarts_total"];
        let (_refused, ()) = tokio::join!(waits, self.until_seen(&names, seen));
        paused.release();
        assert!(held.await.unwrap().is_ok());
        self.confirm_one("after").await;
    }

    /// Somebody takes the lease away.
    async fn lost_lease(&self, seen: &mut BTreeSet<String>) {
        let store = SqliteStore::open(self.store_options(PausePoints::new())).await.unwrap();
        let _held = self.create("fenced", &json!({})).await;
        let owner = store.owners(&[self.submitter()]).await.unwrap().remove(0).unwrap();
        let lease = Lease { submitter: self.submitter(), token: owner.token };
        assert_eq!(store.release(&owner.node, &[lease]).await.unwrap(), 1);
        self.until_seen(&["tollgate_lease_fenced_total"], seen).await;
    }

    /// A strict account whose key somebody else has, too.
    async fn outsider(seen: &mut BTreeSet<String>) {
        let scenario = Self::begin(&[("TOLLGATE_SUBMITTER_MODE", "strict")]).await;
        scenario.confirm_one("own").await;
        let signed = signed_by(SENDER, 1, 5, scenario.chain_id().get()).await;
        let raw = json!([signed]);
        let _hash = rpc::call(&scenario.chain.url(), "eth_sendRawTransaction", raw).await;
        scenario.chain.mine(8);
        scenario.until_seen(&["tollgate_protected_submitters"], seen).await;
    }
}

fn in_seconds(seconds: i64) -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    at.to_string()
}

/// The answer to these bytes, which must come.
async fn answer(port: u16, request: &str) -> String {
    let asked = || {
        let request = request.to_owned();
        async move { tokio::task::spawn_blocking(move || http(port, &request)).await.unwrap() }
    };
    wait::until("an answer", asked).await
}
