//! Nodes in this process, each behind a socket of its own and on the list of nodes.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::keccak256;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_engine::{Engine, EngineOptions, ReservationLimits};
use tollgate_model::ownership::preferred;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{LeaseTerms, LiveNode, Owner, PeerKey, ServedSet, Store};
use tollgate_model::{B256, ChainId, NodeId, Submitter, Text};
use tollgate_server::{ApiOptions, Chains, PeerIdentity, SignedHead, router, sign};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::clock::TestClock;
use tollgate_testkit::wait;
use uuid::Uuid;

use crate::dev_site::{node_with, target};
use crate::site::{Answer, Door};

/// Dev accounts whose keys all nodes have.
pub(super) const ACCOUNTS: [usize; 5] = [0, 2, 3, 4, 5];

/// One database, one chain.
pub(super) struct Room {
    pub(super) store: Arc<dyn Store>,
    pub(super) chain: RunningDevChain,
    chain_id: ChainId,
}

/// A request as it came to a socket.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
}

/// A node. What its door gets does not go through the socket; what comes through it is noted.
pub(super) struct Seat {
    pub(super) door: Door,
    pub(super) engine: Engine,
    pub(super) entry: LiveNode,
    pub(super) identity: PeerIdentity,
    /// The clock of its signatures.
    pub(super) clock: Arc<TestClock>,
    heard: Arc<Mutex<Vec<Heard>>>,
    serving: JoinHandle<()>,
    heart: JoinHandle<()>,
}

impl Room {
    pub(super) async fn new() -> Self {
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        Self::on(Arc::new(store), DevChainOptions::default()).await
    }

    /// On a database that others may share.
    pub(super) async fn on(store: Arc<dyn Store>, options: DevChainOptions) -> Self {
        let chain_id = ChainId::new(options.chain.chain_id).unwrap();
        Self { store, chain: DevChain::start(options).await.unwrap(), chain_id }
    }

    pub(super) async fn seat(&self, name: &str) -> Seat {
        self.seat_with(name, &ACCOUNTS).await
    }

    /// One that does not say whom it serves, as those of older versions.
    pub(super) async fn seat_with(&self, name: &str, keys: &[usize]) -> Seat {
        self.seat_on_list(name, keys, None).await
    }

    /// One that says whom it serves.
    pub(super) async fn seat_saying(&self, name: &str, keys: &[usize]) -> Seat {
        let served = ServedSet::new(keys.iter().map(|n| dev_accounts()[*n].address));
        self.store.publish_served(&served).await.unwrap();
        self.seat_on_list(name, keys, Some(served.digest())).await
    }

    async fn seat_on_list(&self, name: &str, keys: &[usize], serves: Option<B256>) -> Seat {
        // Nothing moves by itself while a test looks, and nobody is taken for dead.
        let seconds = Duration::from_secs;
        let lease = LeaseTerms::new(seconds(60), seconds(25), Duration::ZERO).unwrap();
        let reservations = Some(ReservationLimits::default());
        let options = EngineOptions { lease, reservations, ..EngineOptions::default() };
        let id = NodeId::new(name, Uuid::now_v7()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (chain_id, advertise_url) = (self.chain_id, Text::lossy(&url));
        let entry = LiveNode { node: id.clone(), chain_id, advertise_url, draining: false, serves };
        self.store.heartbeat(&entry).await.unwrap();
        let id_text = id.as_str().to_owned();
        let engine = node_with(self.store.clone(), &self.chain, options, id, keys).await;
        let (key, clock) =
            (PeerKey::new(*keccak256(id_text.as_bytes())), Arc::new(TestClock::default()));
        self.store.publish_peer_key(&entry.node, &key).await.unwrap();
        let identity = PeerIdentity { key, advertise_url: url, clock: clock.clone() };
        let options = ApiOptions { identity: Some(identity.clone()), ..ApiOptions::default() };
        let routes = router(Chains::of_one_with(engine.clone(), self.store.clone(), options));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let noted: Router = routes.clone().layer(from_fn_with_state(heard.clone(), note));
        let serving = tokio::spawn(async move { axum::serve(listener, noted).await.unwrap() });
        let heart = beat(self.store.clone(), entry.clone());
        Seat { door: Door(routes), engine, entry, identity, clock, heard, serving, heart }
    }

    pub(super) async fn owner(&self, of: Submitter) -> Option<Owner> {
        self.store.owners(&[of]).await.unwrap().pop().flatten()
    }

    /// Accounts for which the first of these nodes is preferred.
    pub(super) fn preferring(&self, seats: &[&Seat]) -> Vec<Submitter> {
        let nodes: Vec<LiveNode> = seats.iter().map(|seat| seat.entry.clone()).collect();
        self.preferring_first(&nodes)
    }

    /// The same for nodes of which nothing is known but their entries in the list.
    pub(super) fn preferring_first(&self, nodes: &[LiveNode]) -> Vec<Submitter> {
        let chain_id = self.chain_id;
        let all = ACCOUNTS.iter().map(|n| Submitter::new(chain_id, dev_accounts()[*n].address));
        all.filter(|of| preferred(*of, nodes).unwrap().node == nodes[0].node).collect()
    }
}

async fn note(
    axum::extract::State(heard): axum::extract::State<Arc<Mutex<Vec<Heard>>>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().to_string();
    heard.lock().await.push(Heard { path, headers: request.headers().clone() });
    next.run(request).await
}

impl Seat {
    pub(super) fn url(&self) -> &str {
        self.entry.advertise_url.as_str()
    }

    /// The requests that came through its socket since the last call.
    pub(super) async fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.heard.lock().await)
    }

    /// Posts with headers.
    pub(super) async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        self.door.post_with(path, headers, body).await
    }

    /// Posts what a node of this one's name and key would post to this one.
    pub(super) async fn post_as_node(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let headers = self.signed(self, path, headers, body);
        let named: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.post_with(path, &named, body).await
    }

    /// The headers of a post to `to` with the signature of this node, as it would send them now.
    pub(super) fn signed(
        &self,
        to: &Seat,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Vec<(String, String)> {
        let sequence = Uuid::now_v7().as_u128() as u64;
        let mut given: Vec<(String, String)> = vec![("x-request-id".into(), sequence.to_string())];
        given.extend(headers.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        let mut map = HeaderMap::new();
        map.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in &given {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let head =
            SignedHead { receiver_url: to.url(), method: &Method::POST, path, headers: &map };
        let time_ms = self.clock.now().unix_micros().unsigned_abs() / 1_000;
        let body = body.to_string();
        let (node, key) = (&self.entry.node, &self.identity.key);
        let signature = sign(node, key, head, body.as_bytes(), (time_ms, sequence)).unwrap();
        given.push(("tollgate-node".into(), signature.to_str().unwrap().to_owned()));
        given
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    /// Nobody listens at its address any more; it knows nothing of that.
    pub(super) async fn cut_off(&mut self) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
    }

    /// No sign of life any more, and off the list.
    pub(super) async fn vanish(&mut self, room: &Room) {
        self.heart.abort();
        let _ = (&mut self.heart).await;
        room.store.leave(&self.entry.node).await.unwrap();
    }
}

/// A create without a request id.
pub(super) fn unnamed(of: Submitter) -> Value {
    let payload = json!({ "to": target(6), "value": "7", "gas": 30_000 });
    json!({ "submitter": of.address, "payload": payload })
}

pub(super) fn create(of: Submitter, request_id: &str) -> Value {
    let mut create = unnamed(of);
    create["requestId"] = json!(request_id);
    create
}

/// Writes the heartbeat of a node until it is aborted.
pub(super) fn beat(store: Arc<dyn Store>, entry: LiveNode) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            store.heartbeat(&entry).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
}

/// Waits until these know of each other.
pub(super) async fn acquainted(seats: &[&Seat]) {
    for seat in seats {
        wait::until("the nodes to know each other", || async {
            seats.iter().all(|other| seat.engine.is_live(&other.entry.node)).then_some(())
        })
        .await;
    }
}
