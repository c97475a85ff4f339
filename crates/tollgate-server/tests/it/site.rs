//! A node whose routes are called without a socket.

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tollgate_engine::{Engine, EngineOptions, ReservationLimits};
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{ListFilter, Page, TxStore};
use tollgate_model::{Address, B256, ChainId, Nonce, Submitter};
use tollgate_server::{ApiOptions, Chains, router};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::fake_chain::{FakeChain, FakeSigner};
use tollgate_testkit::{cluster, wait};
use tower::ServiceExt;

use crate::contract;

pub(crate) const SENDER: &str = "0x0101010101010101010101010101010101010101";
pub(crate) const TARGET: &str = "0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn with(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self.json()
    }

    /// Checks the status and the code of a problem.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.code().as_str()), (status, code), "{self:?}");
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// The routes of a node. Every answer is held against the OpenAPI document.
pub(crate) struct Door(pub(crate) Router);

impl Door {
    pub(crate) async fn call(&self, request: Request<Body>) -> Answer {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = self.0.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let declared = parts.headers.get("content-length").map(|length| length.to_str().unwrap());
        assert!(
            declared.is_none_or(|length| length == bytes.len().to_string()),
            "{uri}: {parts:?}"
        );
        let text = String::from_utf8_lossy(&bytes).into_owned();
        contract::check(&method, uri.path(), uri.query(), parts.status, &parts.headers, &text);
        Answer { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let mut request = Request::post(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.call(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.call(request.body(body.into()).unwrap()).await
    }
}

/// One node on a store in memory and a fake chain.
pub(crate) struct Site {
    pub(crate) store: SqliteStore,
    pub(crate) chain: Arc<FakeChain>,
    pub(crate) chains: Chains,
    door: Door,
}

impl Deref for Site {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::with_reservations(None).await
    }

    pub(crate) async fn with_reservations(reservations: Option<ReservationLimits>) -> Self {
        let site = Self::on(FakeChain::new(), reservations).await;
        wait::until("the first block", || async {
            (site.get("/readyz").await.status == StatusCode::OK).then_some(())
        })
        .await;
        site
    }

    /// A site that may not have seen a block yet.
    pub(crate) async fn on(chain: FakeChain, reservations: Option<ReservationLimits>) -> Self {
        Self::with(chain, reservations, ApiOptions::default()).await
    }

    /// A site with options of its API.
    pub(crate) async fn with(
        chain: FakeChain,
        reservations: Option<ReservationLimits>,
        api: ApiOptions,
    ) -> Self {
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        let chain_id = ChainId::new(7).unwrap();
        let address = Address::repeat_byte(1);
        let id = (chain_id, B256::repeat_byte(1));
        cluster::register(&store, id, [address], Mode::Pipelined).await;
        let (chain, signer) = (Arc::new(chain), Arc::new(FakeSigner(vec![address])));
        let ports = cluster::ports("site", Arc::new(store.clone()), chain.clone(), signer);
        let finality = FinalityRule::Confirmations(2);
        let events = tollgate_model::event::EventKinds::ALL;
        let options = EngineOptions { finality, reservations, events, ..EngineOptions::default() };
        let engine = Engine::start(ports, options);
        let chains = Chains::of_one_with(engine, Arc::new(store.clone()), api);
        let door = Door(router(chains.clone()));
        Self { store, chain, chains, door }
    }

    /// Nothing was kept, no nonce was used, and nothing was sent.
    pub(crate) async fn assert_untouched(&self) {
        let everything = ListFilter::default();
        let rows = self.store.list(&everything, None, Page::new(10).unwrap()).await.unwrap();
        assert!(rows.is_empty(), "{rows:?}");
        let submitter = Submitter::new(ChainId::new(7).unwrap(), Address::repeat_byte(1));
        let record = self.store.submitter(submitter).await.unwrap().unwrap();
        assert_eq!(record.next_nonce, Nonce::MIN);
        assert_eq!(self.chain.pooled(), 0);
    }

    /// Mines until a transaction is final.
    pub(crate) async fn finish(&self, tx_id: &str) -> Value {
        wait::until("the end", || async {
            let tx = self.get(&format!("/api/v1/tx/{tx_id}")).await.json();
            let is_final = tx["state"] == "CONFIRMED" || tx["state"] == "FAILED_FINAL";
            if !is_final {
                self.chain.mine();
            }
            is_final.then_some(tx)
        })
        .await
    }
}
