//! A commit whose answer is lost on the way from PostgreSQL: every caller is told what is true, and
//! nothing is doubled (I6, I7).

use std::sync::Arc;

use tokio::task::JoinHandle;
use tollgate_engine::{CreateError, Created, Engine, Unserved};
use tollgate_model::port::{Checkpoint, Store};
use tollgate_model::{Intent, RequestId, TxId};
use tollgate_postgres::PgStore;
use tollgate_testkit::wait::{until, within};
use tollgate_testkit::wire::{HeldStatement, Wire};
use tollgate_testkit::world::NodeOptions;
use tollgate_testkit::{Gate, PgWorld, World};

use super::chains::{ChainKind, Era, TestChain};
use super::rig::{Pipeline, Sent, account, options, transfer};
use crate::rig::request;

/// What the transaction that writes new creates says, and its end.
const CREATES_COMMIT: [&str; 2] = ["insert into managed_tx", "commit"];

/// What only a renewal of leases says.
const RENEWAL: &str = "l.fencing_token = u.token and l.expires_at";

/// A node whose way to the database can be cut.
struct Wired {
    pipeline: Pipeline,
    world: Arc<PgWorld>,
    wire: Wire,
    gate: Arc<Gate>,
    engine: Engine,
    /// What is done already.
    sent: Vec<Sent>,
}

impl Wired {
    async fn new() -> Self {
        let (world, gate) = (Arc::new(PgWorld::new().await), Gate::new());
        let wire = Wire::to(&world.url()).await;
        let node = NodeOptions { watch: gate.clone(), ..NodeOptions::default() };
        let mut through = world.options(node);
        through.url = wire.url().to_owned();
        let chain = TestChain::start(ChainKind::Devchain, Era::London).await;
        let pipeline = Pipeline::of(world.clone(), chain).await;
        let store: Arc<dyn Store> = Arc::new(PgStore::open(through).await.unwrap());
        let urls = [pipeline.chain.ws_url()];
        let engine = pipeline.start(store, "wired", options().into(), &urls).await;
        let sent = pipeline.send(&engine, account(0), 0..5).await;
        pipeline.mine_until_final(&sent).await;
        Self { pipeline, world, wire, gate, engine, sent }
    }

    /// Stops the commit of the next creates. Other batches pass: also when nothing is open, a
    /// worker may still have something to write down.
    fn hold_commit_of_creates(&self) -> HeldStatement {
        self.wire.hold_before(&CREATES_COMMIT)
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
    let wired = Wired::new().await;
    let mut hold = wired.hold_commit_of_creates();
    let first = wired.create(10);
    hold.reached().await;
    // These wait while the first one's commit is under way.
    let behind: Vec<_> = (11..20).map(|value| wired.create_unnamed(value)).collect();
    wired.wire.go_deaf();
    hold.release();
    let stored = wired.stored(10).await;
    wired.wire.cut();
    wired.wire.mend();
    let answer = within("the answer", first).await.unwrap();
    assert_eq!(new(answer), stored.id, "I6: it is there, and so it is said");
    let mut sent = vec![stored];
    for (value, answer) in (11..).zip(behind) {
        let answer = within("the answer", answer).await.unwrap();
        sent.push(Sent::new(new(answer), value));
    }
    wired.finish(&sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_commit_never_arrived_is_refused_and_leaves_no_gap() {
    let wired = Wired::new().await;
    let mut hold = wired.hold_commit_of_creates();
    let first = wired.create(10);
    hold.reached().await;
    wired.wire.cut();
    wired.wire.mend();
    hold.release();
    let answer = within("the answer", first).await.unwrap();
    assert!(matches!(answer, Err(CreateError::Unserved(Unserved::Unavailable(_)))), "{answer:?}");
    let again = within("the second try", wired.create(10)).await.unwrap();
    wired.finish(&[Sent::new(new(again), 10)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_commit_lost_its_answer_and_then_its_lease_is_still_told_the_truth() {
    let wired = Wired::new().await;
    let mut hold = wired.hold_commit_of_creates();
    let first = wired.create(10);
    hold.reached().await;
    wired.wire.go_deaf();
    hold.release();
    let stored = wired.stored(10).await;
    wired.pipeline.world.expire(account(0)).await;
    let heir = wired.pipeline.node("heir", options()).await;
    let more = wired.pipeline.send(&heir, account(0), [11]).await;
    wired.wire.cut();
    wired.wire.mend();
    let answer = within("the answer", first).await.unwrap();
    assert_eq!(new(answer), stored.id, "I6: it is there, and so it is said");
    wired.finish(&[&[stored], more.as_slice()].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_still_on_its_way_when_its_lease_ends_is_waited_for() {
    let wired = Wired::new().await;
    let hang = wired.world.hang_commits("managed_tx", account(0)).await;
    let first = wired.create(10);
    let world: &dyn World = wired.world.as_ref();
    world.somebody_waits_for_a_lock().await;
    wired.wire.cut();
    let mut hold = wired.gate.arm(Checkpoint::TakeoverStarted);
    let mut renewal = wired.wire.hold_before(&[RENEWAL]);
    world.expire(account(0)).await;
    wired.wire.mend();
    // The row is not there yet, and nobody may say that it never will be.
    hold.reached().await;
    // The old lease is renewed in vain: that must not end the new one.
    renewal.reached().await;
    renewal.release();
    hold.release();
    assert!(!first.is_finished(), "I6: answered while it was still open");
    hang.release().await;
    let stored = wired.stored(10).await;
    let answer = within("the answer", first).await.unwrap();
    assert_eq!(new(answer), stored.id, "I6: it is there, and so it is said");
    wired.finish(&[stored]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_that_fails_is_made_up_for_before_anything_is_read_back() {
    let wired = Wired::new().await;
    let hang = wired.world.hang_commits("managed_tx", account(0)).await;
    let first = wired.create(10);
    let world: &dyn World = wired.world.as_ref();
    world.somebody_waits_for_a_lock().await;
    wired.wire.cut();
    let answer = within("the answer", first).await.unwrap();
    let Err(CreateError::Unserved(Unserved::Unavailable(why))) = answer else {
        panic!("{answer:?}")
    };
    assert!(why.to_string().contains("may be taken"), "I6: nobody knows: {why}");
    // Whoever asks now is turned away once the worker could not settle it.
    let refused = within("the refusal", wired.create(11)).await.unwrap();
    assert!(matches!(refused, Err(CreateError::Unserved(Unserved::Unavailable(_)))), "{refused:?}");
    wired.wire.mend();
    // The commit waits, and the worker waits for it: what it would read now is not the truth.
    let waiting = "select count(*) from pg_locks where not granted";
    until("the worker waits for the commit", || async {
        (world.query_i64(waiting).await >= 2).then_some(())
    })
    .await;
    hang.release().await;
    let stored = wired.stored(10).await;
    wired.finish(&[stored]).await;
}
