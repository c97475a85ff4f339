//! A node on a loopback port, with reservations, on a dev chain that mines when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_engine::{
    Engine, EngineOptions, EnginePorts, LoggedAlerts, Policies, RandomIds, ReservationLimits,
};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_evm::signer::{Key, LocalSigner};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    ChainRegistration, Page, ReservationState, ReservationStore, SubmitterSetup, TxStore, Unwatched,
};
use tollgate_model::{Address, GasPrice, Intent, NodeId, Nonce, Submitter, Timestamp, U256};
use tollgate_server::{Api, router};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::{rpc, wait};
use uuid::Uuid;
use with_nonce::{Client, Patience, Tx};

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// What happens to the next calls on their way back.
#[derive(Default)]
pub(crate) struct Weather {
    /// Answers to `used` that get lost after they were carried out.
    pub(crate) lost: AtomicUsize,
    /// Calls of `used` that never arrive.
    pub(crate) swallowed: AtomicUsize,
}

pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) chain: RunningDevChain,
    pub(crate) weather: Arc<Weather>,
    pub(crate) engine: Engine,
    store: SqliteStore,
    submitter: Submitter,
}

/// The account that both Tollgate and the callers have the key of.
pub(crate) fn account() -> Address {
    dev_accounts()[0].address
}

pub(crate) fn signer() -> LocalSigner {
    LocalSigner::new([Key::from_bytes(&dev_accounts()[0].private_key).unwrap()])
}

/// A transfer that differs from all others by what it pays.
pub(crate) fn transfer(wei: u64) -> Tx {
    let gwei = |n: u128| GasPrice::from_wei(n * 1_000_000_000).unwrap();
    Tx::transfer(Address::repeat_byte(0xee), wei, gwei(20), gwei(1))
}

/// Soon tired.
pub(crate) const HASTY: Patience =
    Patience { tries: 3, timeout: Duration::from_secs(10), first_pause: Duration::from_millis(10) };

impl Site {
    pub(crate) async fn new() -> Self {
        let chain = DevChain::start(DevChainOptions::default()).await.unwrap();
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        let poll_interval = Duration::from_millis(50);
        let endpoints = vec![EndpointConfig::new(chain.ws_url())];
        let evm = ChainConfig { poll_interval, ..ChainConfig::new(endpoints) };
        let evm = EvmChain::connect(evm).await.unwrap();
        let (chain_id, genesis) = (evm.chain_id(), evm.genesis());
        store.register_chain(&ChainRegistration { chain_id, genesis }).await.unwrap();
        let submitter = Submitter::new(chain_id, account());
        let options = EngineOptions {
            finality: FinalityRule::Confirmations(2),
            reservations: Some(ReservationLimits::default()),
            ..EngineOptions::default()
        };
        let (mode, start_from) = (options.nonces.mode, Nonce::MIN);
        let setup = SubmitterSetup { submitter, mode, start_from };
        store.register_submitters(&[setup]).await.unwrap();
        let ports = EnginePorts {
            node: NodeId::new("site", Uuid::now_v7()).unwrap(),
            store: Arc::new(store.clone()),
            chain: Arc::new(evm),
            signer: Arc::new(signer()),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            checkpoints: Arc::new(Unwatched),
            policies: Policies::default(),
            alerts: Arc::new(LoggedAlerts),
        };
        let engine = Engine::start(ports, options);
        let weather = Arc::new(Weather::default());
        let api = Api::new(engine.clone(), Arc::new(store.clone()));
        let routes = router(api).layer(middleware::from_fn_with_state(weather.clone(), rain));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, chain, weather, engine, store, submitter }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url).unwrap().with_patience(HASTY)
    }

    /// The nonces that callers hold or that came back.
    pub(crate) async fn out(&self) -> Vec<(u64, ReservationState)> {
        let page = Page::new(Page::MAX).unwrap();
        let out = self.store.reservations(self.submitter, None, page).await.unwrap();
        out.iter().map(|one| (one.nonce.get(), one.state)).collect()
    }

    pub(crate) async fn until_out(&self, wanted: &[(u64, ReservationState)]) {
        let what = format!("{wanted:?} to be out");
        wait::until(&what, || async { (self.out().await == wanted).then_some(()) }).await;
    }

    /// The nonce of a transaction that Tollgate sends.
    pub(crate) async fn managed(&self, wei: u64) -> u64 {
        let intent = Intent::transfer(Address::repeat_byte(0xee), U256::from(wei));
        let created = self.engine.create(self.submitter, None, intent).await.unwrap();
        let tx = self.store.tx(created.tx_id()).await.unwrap().unwrap();
        tx.nonce.unwrap().get()
    }

    /// Hands bytes to the chain, as callers do.
    pub(crate) async fn send(&self, raw: &tollgate_model::Bytes) {
        rpc::call(&self.chain.url(), "eth_sendRawTransaction", json!([raw.to_string()])).await;
    }

    /// Mines until the chain counts this many of the account's.
    pub(crate) async fn mine_until(&self, count: u64) {
        wait::until(&format!("{count} to be mined"), || async {
            self.chain.mine(1);
            let params = json!([account().to_string(), "latest"]);
            let mined = rpc::call(&self.chain.url(), "eth_getTransactionCount", params).await;
            (rpc::number(&mined) == count).then_some(())
        })
        .await;
    }
}

async fn rain(State(weather): State<Arc<Weather>>, request: Request, next: Next) -> Response {
    let is_used = request.uri().path().ends_with("/used");
    let take = |drops: &AtomicUsize| {
        let one_less = |left: usize| left.checked_sub(1);
        is_used && drops.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    };
    if take(&weather.swallowed) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let lost = take(&weather.lost);
    let answer = next.run(request).await;
    if lost { StatusCode::BAD_GATEWAY.into_response() } else { answer }
}
