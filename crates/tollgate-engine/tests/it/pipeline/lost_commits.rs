//! Statements that are held up or lost on the way to PostgreSQL and back: every caller is told what is true,
//! and nothing is doubled (I6, I7).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate_engine::{
    CreateError, Created, Engine, EngineOptions, ReservationLimits, ReserveError, Unserved,
};
use tollgate_model::port::{Checkpoint, Page, Store};
use tollgate_model::{Intent, RequestId, TxId};
use tollgate_postgres::PgStore;
use tollgate_testkit::pause_points::Paused;
use tollgate_testkit::pg_proxy::PgProxy;
use tollgate_testkit::store_fixture::NodeOptions;
use tollgate_testkit::wait::{until, within};
use tollgate_testkit::{PausePoints, PgFixture, StoreFixture};

use super::chains::{ChainKind, Era, TestChain};
use super::support::{Pipeline, Sent, account, options, transfer};
use crate::support::request;

/// Statements of the transaction that writes new creates, and its end.
const CREATES_COMMIT: [&str; 2] = ["insert into managed_tx", "commit"];

/// A part of the statement that only a renewal of leases sends.
const RENEWAL: &str = "l.fencing_token = u.token and l.expires_at";

/// A node whose way to the database can be cut.
struct Proxied {
    pipeline: Pipeline,
    fixture: Arc<PgFixture>,
    proxy: PgProxy,
    checkpoints: Arc<PausePoints>,
    engine: Engine,
    /// The creates that are done already.
    sent: Vec<Sent>,
}

impl Proxied {
    async fn new() -> Self {
        Self::with(options()).await
    }

    async fn with(options: EngineOptions) -> Self {
        let (fixture, checkpoints) = (Arc::new(PgFixture::new().await), PausePoints::new());
        let proxy = PgProxy::to(&fixture.url()).await;
        let node = NodeOptions { checkpoints: checkpoints.clone(), ..NodeOptions::default() };
        let mut through = fixture.options(node);
        through.url = proxy.url().to_owned();
        let chain = TestChain::start(ChainKind::Devchain, Era::London).await;
        let pipeline = Pipeline::of(fixture.clone(), chain).await;
        let store: Arc<dyn Store> = Arc::new(PgStore::open(through).await.unwrap());
        let urls = [pipeline.chain.ws_url()];
        let engine = pipeline.start(store, "proxied", options.into(), &urls).await;
        let sent = pipeline.send(&engine, account(0), 0..5).await;
        pipeline.mine_until_final(&sent).await;
        Self { pipeline, fixture, proxy, checkpoints, engine, sent }
    }

    /// Stops the commit of the next creates. Other batches pass: also when nothing is open, a
    /// worker may still have something to write down.
    fn hold_commit_of_creates(&self) -> Paused {
        self.proxy.pause_before(&CREATES_COMMIT)
    }

    fn create(&self, value: u64) -> JoinHandle<Result<Created, CreateError>> {
        self.spawn_create(value, request(&format!("request-{value}")))
    }

    /// A create that reaches the worker without a read of the store or the chain: it has no request id
    /// to look up, and names its gas.
    fn create_unnamed(&self, value: u64) -> JoinHandle<Result<Created, CreateError>> {
        self.spawn_create(value, None)
    }

    fn spawn_create(
        &self,
        value: u64,
        name: Option<RequestId>,
    ) -> JoinHandle<Result<Created, CreateError>> {
        let engine = self.engine.clone();
        let intent = Intent { gas: Some(21_000), ..transfer(value) };
        tokio::spawn(async move { engine.create(account(0), name, intent).await })
    }

    /// Waits until a request is in the database, by another way.
    async fn stored(&self, value: u64) -> Sent {
        let name = request(&format!("request-{value}")).unwrap();
        let store = &self.pipeline.store;
        let found =
            until("the commit", || async { store.tx_by_request(account(0), &name).await.unwrap() });
        Sent::new(found.await.tx_id, value)
    }

    /// All is well again: everything ends, once.
    async fn finish(mut self, more: &[Sent]) {
        self.sent.extend(more);
        self.pipeline.mine_until_final(&self.sent).await;
        self.pipeline.verify(account(0), &self.sent).await;
    }
}

/// The answer must be that it was made.
fn new(answer: Result<Created, CreateError>) -> TxId {
    let Ok(Created::New(record)) = answer else { panic!("{answer:?}") };
    record.tx_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_commit_lost_its_answer_is_new_and_made_once() {
    let proxied = Proxied::new().await;
    let mut hold = proxied.hold_commit_of_creates();
    let first = proxied.create(10);
    hold.reached().await;
    // These wait while the first one's commit is under way.
    let behind: Vec<_> = (11..20).map(|value| proxied.create_unnamed(value)).collect();
    proxied.proxy.lose_answers();
    hold.release();
    let stored = proxied.stored(10).await;
    proxied.proxy.cut();
    proxied.proxy.restore();
    let answer = within("the answer", first).await.unwrap();
    assert_eq!(new(answer), stored.id, "I6: it is there, and so it is said");
    let mut sent = vec![stored];
    for (value, answer) in (11..).zip(behind) {
        let answer = within("the answer", answer).await.unwrap();
        sent.push(Sent::new(new(answer), value));
    }
    proxied.finish(&sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_commit_never_arrived_is_refused_and_leaves_no_gap() {
    let proxied = Proxied::new().await;
    let mut hold = proxied.hold_commit_of_creates();
    let first = proxied.create(10);
    hold.reached().await;
    proxied.proxy.cut();
    proxied.proxy.restore();
    hold.release();
    let answer = within("the answer", first).await.unwrap();
    assert!(matches!(answer, Err(CreateError::Unserved(Unserved::Unavailable(_)))), "{answer:?}");
    let again = within("the second try", proxied.create(10)).await.unwrap();
    proxied.finish(&[Sent::new(new(again), 10)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_whose_commit_lost_its_answer_and_then_its_lease_is_answered_truthfully() {
    let proxied = Proxied::new().await;
    let mut hold = proxied.hold_commit_of_creates();
    let first = proxied.create(10);
    hold.reached().await;
    proxied.proxy.lose_answers();
    hold.release();
    let stored = proxied.stored(10).await;
    proxied.pipeline.fixture.expire(account(0)).await;
    let heir = proxied.pipeline.node("heir", options()).await;
    let more = proxied.pipeline.send(&heir, account(0), [11]).await;
    proxied.proxy.cut();
    proxied.proxy.restore();
    let answer = within("the answer", first).await.unwrap();
    assert_eq!(new(answer), stored.id, "I6: it is there, and so it is said");
    proxied.finish(&[&[stored], more.as_slice()].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_still_on_its_way_when_its_lease_ends_is_waited_for() {
    let proxied = Proxied::new().await;
    let hang = proxied.fixture.hang_commits("managed_tx", account(0)).await;
    let first = proxied.create(10);
    let fixture: &dyn StoreFixture = proxied.fixture.as_ref();
    fixture.somebody_waits_for_a_lock().await;
    proxied.proxy.cut();
    let mut hold = proxied.checkpoints.pause_at(Checkpoint::TakeoverStarted);
    let mut renewal = proxied.proxy.pause_before(&[RENEWAL]);
    fixture.expire(account(0)).await;
    proxied.proxy.restore();
    // The row is not there yet, and nobody may say that it never will be.
    hold.reached().await;
    // The old lease is renewed in vain: that must not end the new one.
    renewal.reached().await;
    renewal.release();
    hold.release();
    assert!(!first.is_finished(), "I6: answered while it was still open");
    hang.release().await;
    let stored = proxied.stored(10).await;
    let answer = within("the answer", first).await.unwrap();
    assert_eq!(new(answer), stored.id, "I6: it is there, and so it is said");
    proxied.finish(&[stored]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_settlement_is_repeated_before_anything_is_read_back() {
    let proxied = Proxied::new().await;
    let hang = proxied.fixture.hang_commits("managed_tx", account(0)).await;
    let first = proxied.create(10);
    let fixture: &dyn StoreFixture = proxied.fixture.as_ref();
    fixture.somebody_waits_for_a_lock().await;
    proxied.proxy.cut();
    let answer = within("the answer", first).await.unwrap();
    let Err(CreateError::Unserved(Unserved::Unavailable(why))) = answer else {
        panic!("{answer:?}")
    };
    assert!(why.to_string().contains("may be taken"), "I6: nobody knows: {why}");
    // Whoever asks now is turned away once the worker could not settle it.
    let refused = within("the refusal", proxied.create(11)).await.unwrap();
    assert!(matches!(refused, Err(CreateError::Unserved(Unserved::Unavailable(_)))), "{refused:?}");
    proxied.proxy.restore();
    // The commit waits, and the worker waits for it: what it would read now is not the truth.
    let waiting = "select count(*) from pg_locks where not granted";
    until("the worker waits for the commit", || async {
        (fixture.query_i64(waiting).await >= 2).then_some(())
    })
    .await;
    hang.release().await;
    let stored = proxied.stored(10).await;
    proxied.finish(&[stored]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reservation_with_unknown_outcome_is_resolved_before_the_nonces_are_read_again() {
    let reservations = Some(ReservationLimits::default());
    let proxied = Proxied::with(EngineOptions { reservations, ..options() }).await;
    let hang = proxied.fixture.hang_commits("nonce_reservation", account(0)).await;
    let engine = proxied.engine.clone();
    let first = tokio::spawn(async move { engine.reservations().reserve(account(0), None).await });
    let fixture: &dyn StoreFixture = proxied.fixture.as_ref();
    fixture.somebody_waits_for_a_lock().await;
    proxied.proxy.cut();
    let answer = within("the answer", first).await.unwrap();
    assert!(matches!(answer, Err(ReserveError::Unserved(Unserved::Unavailable(_)))), "{answer:?}");
    proxied.proxy.restore();
    let waiting = "select count(*) from pg_locks where not granted";
    until("the worker waits for the commit", || async {
        (fixture.query_i64(waiting).await >= 2).then_some(())
    })
    .await;
    hang.release().await;
    let held = until("the reservation", || async {
        let page = Page::new(10).unwrap();
        let all = proxied.pipeline.store.reservations(account(0), None, page).await.unwrap();
        all.first().map(|reservation| reservation.nonce.get())
    });
    assert_eq!(held.await, 5, "it was committed after all");
    let next = until("the worker", || async {
        proxied.engine.reservations().reserve(account(0), None).await.ok()
    });
    assert_eq!(next.await.nonce.get(), 6, "I3");
}

/// A part of the statement that only the release of leases sends.
const RELEASE: &str = "owner_node = ''";

#[tokio::test(flavor = "multi_thread")]
async fn create_that_comes_while_an_idle_worker_releases_its_lease_is_accepted() {
    // Longer than it takes to lay the trap: a worker that has released its lease does so once.
    let lease_idle = Duration::from_secs(3);
    let mut proxied = Proxied::with(EngineOptions { lease_idle, ..options() }).await;
    let mut release = proxied.proxy.pause_before(&[RELEASE]);
    release.reached().await;
    let create = proxied.create_unnamed(10);
    // Long enough for the create to wait for the worker.
    tokio::time::sleep(Duration::from_millis(100)).await;
    release.release();
    let answer = within("the answer", create).await.unwrap();
    proxied.sent.push(Sent::new(new(answer), 10));
    proxied.finish(&[]).await;
}
