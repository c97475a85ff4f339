//! A node on a loopback port, with reservations, on a dev chain that mines on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tollgate_client::nonce::Tx;
use tollgate_client::{Client, RetryPolicy};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_engine::{Engine, EngineOptions, ReservationLimits};
use tollgate_evm::chain::EvmChain;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::{Page, ReservationState, ReservationStore, TxStore};
use tollgate_model::{Address, GasPrice, Intent, Submitter, U256};
use tollgate_server::{Chains, router};
use tollgate_signer::LocalSigner;
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::cluster::{chain_config, dev_signer, ports, register};
use tollgate_testkit::{rpc, wait};

/// Network faults for the next calls of `used`.
#[derive(Default)]
pub(super) struct Faults {
    /// Calls that are executed, but whose answer is lost.
    pub(super) lost: AtomicUsize,
    /// Calls that never arrive.
    pub(super) swallowed: AtomicUsize,
}

pub(super) struct Site {
    pub(super) url: String,
    pub(super) chain: RunningDevChain,
    pub(super) faults: Arc<Faults>,
    pub(super) engine: Engine,
    store: SqliteStore,
    submitter: Submitter,
}

/// The account whose key both Tollgate and the callers hold.
pub(super) fn account() -> Address {
    dev_accounts()[0].address
}

pub(super) fn signer() -> LocalSigner {
    dev_signer([0])
}

/// A transfer; the value tells transfers apart.
pub(super) fn transfer(wei: u64) -> Tx {
    let gwei = |n: u128| GasPrice::from_wei(n * 1_000_000_000).unwrap();
    Tx::transfer(Address::repeat_byte(0xee), wei, gwei(20), gwei(1))
}

/// Few tries with short pauses.
pub(super) const FAST: RetryPolicy = RetryPolicy {
    tries: 3,
    timeout: Duration::from_secs(10),
    first_pause: Duration::from_millis(10),
};

impl Site {
    pub(super) async fn new() -> Self {
        let chain = DevChain::start(DevChainOptions::default()).await.unwrap();
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        let evm = EvmChain::connect(chain_config([chain.ws_url()])).await.unwrap();
        let (chain_id, genesis) = (evm.chain_id(), evm.genesis());
        let submitter = Submitter::new(chain_id, account());
        let options = EngineOptions {
            finality: FinalityRule::Confirmations(2),
            reservations: Some(ReservationLimits::default()),
            ..EngineOptions::default()
        };
        register(&store, (chain_id, genesis), [account()], options.nonces.mode).await;
        let ports = ports("site", Arc::new(store.clone()), Arc::new(evm), Arc::new(signer()));
        let engine = Engine::start(ports, options);
        let faults = Arc::new(Faults::default());
        let chains = Chains::of_one(engine.clone(), Arc::new(store.clone()));
        let routes = router(chains).layer(middleware::from_fn_with_state(faults.clone(), inject));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, chain, faults, engine, store, submitter }
    }

    pub(super) fn client(&self) -> Client {
        Client::new([&self.url]).unwrap().with_retry_policy(FAST)
    }

    /// The nonces that are reserved or recyclable.
    pub(super) async fn out(&self) -> Vec<(u64, ReservationState)> {
        let page = Page::new(Page::MAX).unwrap();
        let out = self.store.reservations(self.submitter, None, page).await.unwrap();
        out.iter().map(|one| (one.nonce.get(), one.state)).collect()
    }

    pub(super) async fn until_out(&self, wanted: &[(u64, ReservationState)]) {
        let what = format!("{wanted:?} to be out");
        wait::until(&what, || async { (self.out().await == wanted).then_some(()) }).await;
    }

    /// The nonce of a transaction that Tollgate sends.
    pub(super) async fn managed(&self, wei: u64) -> u64 {
        let intent = Intent::transfer(Address::repeat_byte(0xee), U256::from(wei));
        let created = self.engine.create(self.submitter, None, intent).await.unwrap();
        let tx = self.store.tx(created.tx_id()).await.unwrap().unwrap();
        tx.nonce.unwrap().get()
    }

    /// Sends signed bytes to the chain, as callers do.
    pub(super) async fn send(&self, raw: &tollgate_model::Bytes) {
        rpc::call(&self.chain.url(), "eth_sendRawTransaction", json!([raw.to_string()])).await;
    }

    /// Mines until the chain has this many transactions of the account.
    pub(super) async fn mine_until(&self, count: u64) {
        wait::until(&format!("{count} to be mined"), || async {
            self.chain.mine(1);
            let params = json!([account().to_string(), "latest"]);
            let mined = rpc::call(&self.chain.url(), "eth_getTransactionCount", params).await;
            (rpc::number(&mined) == count).then_some(())
        })
        .await;
    }
}

async fn inject(State(faults): State<Arc<Faults>>, request: Request, next: Next) -> Response {
    let is_used = request.uri().path().ends_with("/used");
    let take = |left: &AtomicUsize| {
        let one_less = |left: usize| left.checked_sub(1);
        is_used && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    };
    if take(&faults.swallowed) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let lost = take(&faults.lost);
    let answer = next.run(request).await;
    if lost { StatusCode::BAD_GATEWAY.into_response() } else { answer }
}
