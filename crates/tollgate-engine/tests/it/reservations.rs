//! Nonces for callers that send by themselves, beside the engine's own transactions.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_engine::{Engine, EngineOptions, Fill, ReservationLimits, ReserveError};
use tollgate_model::Route::Public;
use tollgate_model::fill::{FillWith, NonceRange};
use tollgate_model::nonce::{Mode, NonceRules, SubmitterStatus};
use tollgate_model::port::batch::Fees;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::{SignedTx, Signer};
use tollgate_model::port::{
    Acquisition, AlertKind, CursorMove, FencedBatch, LeaseTerms, Page, Reservation,
    ReservationState, Section, SectionOutcome, StatusChange,
};
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::{
    Address, Failed, GasPrice, Intent, NodeId, Nonce, Text, TxHash, TxState, U256,
};
use tollgate_testkit::builders::draft;
use tollgate_testkit::fake_chain::{FakeSigner, Query};
use uuid::Uuid;

use crate::support::{Cluster, account, options, transfer};

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));
/// Over by the next tick.
const A_MOMENT: Option<Duration> = Some(Duration::from_millis(1));

fn open() -> EngineOptions {
    EngineOptions { reservations: Some(ReservationLimits::default()), ..options() }
}

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

async fn reserved(engine: &Engine, hold: Option<Duration>) -> Reservation {
    engine.reservations().reserve(account(1), hold).await.unwrap()
}

async fn used(engine: &Engine, of: &Reservation, hash: TxHash) -> Result<(), ReserveError> {
    engine.reservations().used(account(1), of.nonce, of.owner_token, hash).await.map(|_| ())
}

async fn given_back(engine: &Engine, of: &Reservation) {
    let why = Text::lossy("not needed");
    let back = engine.reservations().recyclable(account(1), of.nonce, of.owner_token, why).await;
    assert_eq!(back.unwrap().state, ReservationState::Recyclable);
}

async fn created(cluster: &Cluster, engine: &Engine, value: u64) -> u64 {
    let created = engine.create(account(1), None, transfer(value)).await.unwrap();
    cluster.record(created.tx_id()).await.nonce.unwrap().get()
}

async fn states(cluster: &Cluster) -> Vec<(u64, ReservationState)> {
    let all =
        cluster.store.reservations(account(1), None, Page::new(1_000).unwrap()).await.unwrap();
    all.iter().map(|one| (one.nonce.get(), one.state)).collect()
}

/// Waits until the store has these and no others.
async fn until(cluster: &Cluster, wanted: &[(u64, ReservationState)]) {
    let what = format!("{wanted:?}");
    cluster.eventually(&what, async || states(cluster).await == wanted).await;
}

/// A transaction that the caller signs with its own key.
async fn signed(nonce: Nonce, value: u64) -> SignedTx {
    let fees = Fees { gas_limit: 21_000, max_fee: GasPrice::default(), max_priority_fee: None };
    let draft = draft(account(1), nonce, value, fees);
    FakeSigner(vec![draft.from]).sign(vec![draft]).await.remove(0).unwrap()
}

const FREE: ReservationState = ReservationState::Recyclable;
const HELD: ReservationState = ReservationState::Reserved;

#[tokio::test(flavor = "multi_thread")]
async fn reserve_is_refused_unless_enabled() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    assert_eq!(engine.reservations().reserve(account(1), None).await, Err(ReserveError::Disabled));
    assert_eq!(created(&cluster, &engine, 1).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_submitter_hands_out_nothing() {
    let cluster = Cluster::with_mode(Mode::Strict).await;
    let nonces = NonceRules { mode: Mode::Strict, ..options().nonces };
    let engine = cluster.node("a", EngineOptions { nonces, ..open() });
    let refused = engine.reservations().reserve(account(1), None).await;
    assert_eq!(refused, Err(ReserveError::StrictMode), "I12");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitter_that_is_paused_hands_out_nothing() {
    let cluster = Cluster::pipelined().await;
    let mut pause = Behind::new(&cluster).await;
    pause.status(SubmitterStatus::Active, SubmitterStatus::Paused).await;
    pause.leave().await;
    let engine = cluster.node("a", open());
    let refused = engine.reservations().reserve(account(1), None).await;
    assert_eq!(refused, Err(ReserveError::NotActive(SubmitterStatus::Paused)));
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_are_limited_in_time_and_number() {
    let cluster = Cluster::pipelined().await;
    let max = Duration::from_secs(90);
    let limits = ReservationLimits { hold_max: max, outstanding_max: 2, ..Default::default() };
    let engine = cluster.node("a", EngineOptions { reservations: Some(limits), ..options() });
    for wrong in [Duration::ZERO, Duration::from_secs(91)] {
        let refused = engine.reservations().reserve(account(1), Some(wrong)).await;
        assert_eq!(refused, Err(ReserveError::HoldOutOfRange { max }), "I13");
    }
    let first = reserved(&engine, None).await;
    reserved(&engine, None).await;
    assert_eq!(
        engine.reservations().reserve(account(1), None).await,
        Err(ReserveError::TooMany),
        "I13"
    );
    given_back(&engine, &first).await;
    assert_eq!(reserved(&engine, None).await.nonce, nonce(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_and_transactions_share_one_line_of_nonces() {
    let (cluster, engine) = Cluster::with_node(open()).await;
    assert_eq!(created(&cluster, &engine, 10).await, 0);
    assert_eq!(reserved(&engine, None).await.nonce, nonce(1));
    assert_eq!(created(&cluster, &engine, 12).await, 2);
    assert_eq!(reserved(&engine, None).await.nonce, nonce(3));
    let waits = engine.reservations().reserve(account(2), None).await.unwrap();
    assert_eq!(waits.nonce, nonce(0), "each submitter has its own line");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_at_once_never_get_the_same_nonce() {
    let (_cluster, engine) = Cluster::with_node(open()).await;
    let asks = (0..40).map(|_| reserved(&engine, None));
    let mut got: Vec<_> = join_all(asks).await.iter().map(|one| one.nonce.get()).collect();
    got.sort_unstable();
    assert!(got.into_iter().eq(0..40), "I3");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_reservation_comes_back_and_the_lowest_goes_to_the_next() {
    let cluster = Cluster::pipelined().await;
    // A worker that went away while callers hold nonces would never return them.
    let engine =
        cluster.node("a", EngineOptions { lease_idle: Duration::from_millis(300), ..open() });
    let kept = reserved(&engine, MINUTE).await;
    let late = reserved(&engine, A_MOMENT).await;
    reserved(&engine, A_MOMENT).await;
    until(&cluster, &[(0, HELD), (1, FREE), (2, FREE)]).await;
    let refused = used(&engine, &late, TxHash::repeat_byte(1)).await;
    assert_eq!(refused, Err(ReserveError::StaleToken), "I3: it is in the pool");
    assert_eq!(
        created(&cluster, &engine, 11).await,
        1,
        "the lowest first, to the next transaction"
    );
    assert_eq!(reserved(&engine, MINUTE).await.nonce, nonce(2), "or to the next caller");
    assert_eq!(created(&cluster, &engine, 13).await, 3, "then from the cursor again");
    let refused = used(&engine, &late, TxHash::repeat_byte(1)).await;
    assert_eq!(refused, Err(ReserveError::StaleToken), "I3: a transaction has it");
    used(&engine, &kept, TxHash::repeat_byte(2)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn window_full_of_transactions_behind_a_hole_does_not_stop_its_filling() {
    let cluster = Cluster::pipelined().await;
    let nonces = NonceRules { window: 2, ..options().nonces };
    let engine = cluster.node("a", EngineOptions { nonces, ..open() });
    let out = [reserved(&engine, MINUTE).await, reserved(&engine, MINUTE).await];
    let mut ids = Vec::new();
    for value in 10..14 {
        ids.push(engine.create(account(1), None, transfer(value)).await.unwrap().tx_id());
    }
    for one in &out {
        given_back(&engine, one).await;
    }
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [12, 13, 10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn used_reservation_stays_used_and_the_report_can_be_repeated() {
    let (cluster, engine) = Cluster::with_node(open()).await;
    let mine = reserved(&engine, A_MOMENT.map(|moment| moment * 1_500)).await;
    let spent = signed(mine.nonce, 10).await;
    used(&engine, &mine, spent.tx_hash).await.unwrap();
    used(&engine, &mine, spent.tx_hash).await.unwrap();
    let other = used(&engine, &mine, TxHash::repeat_byte(9)).await;
    assert_eq!(other, Err(ReserveError::StaleToken), "I3: it was used for something else");
    // The next one expires after it would have, and it is not there.
    reserved(&engine, A_MOMENT.map(|moment| moment * 1_500)).await;
    until(&cluster, &[(1, FREE)]).await;
    assert_eq!(created(&cluster, &engine, 11).await, 1, "I3");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonce_sent_without_a_report_is_not_handed_out_again() {
    let (cluster, engine) = Cluster::with_node(open()).await;
    let silent = reserved(&engine, A_MOMENT).await;
    let sent = signed(silent.nonce, 10).await;
    cluster.chain.send(&sent.raw, Public).await;
    until(&cluster, &[(0, FREE)]).await;
    // The transaction first: its nonce must not come from a count of before the caller sent.
    assert_eq!(created(&cluster, &engine, 11).await, 1, "I3: a pool has what the caller sent");
    assert_eq!(reserved(&engine, MINUTE).await.nonce, nonce(2), "I3");
    cluster.chain.mine();
    until(&cluster, &[(2, HELD)]).await;
    assert_eq!(cluster.paid(account(1))[0], 10, "I3: spent, whoever did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_came_back_waits_for_a_new_count_though_the_window_is_full() {
    let cluster = Cluster::pipelined().await;
    let nonces = NonceRules { window: 1, ..options().nonces };
    let engine = cluster.node("a", EngineOptions { nonces, ..open() });
    let silent = reserved(&engine, A_MOMENT.map(|moment| moment * 500)).await;
    assert_eq!(created(&cluster, &engine, 11).await, 1);
    let waits = engine.create(account(1), None, transfer(12)).await.unwrap().tx_id();
    // From now on the worker has only the count of before the caller sent.
    let counts = Query::Counts(account(1).address);
    cluster.chain.fail(counts, true);
    let sent = signed(silent.nonce, 10).await;
    cluster.chain.send(&sent.raw, Public).await;
    until(&cluster, &[(0, FREE)]).await;
    let failed = cluster.chain.failed();
    cluster
        .eventually("it was asked, or went out", async || {
            cluster.chain.failed() > failed + 4 || cluster.record(waits).await.nonce.is_some()
        })
        .await;
    assert_eq!(cluster.record(waits).await.nonce, None, "I3: 0 is with a node");
    cluster.chain.fail(counts, false);
    cluster.mine_until_final(&[waits]).await;
    assert_eq!(cluster.record(waits).await.nonce, Some(nonce(2)));
    assert_eq!(cluster.paid(account(1)), [10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn takeover_keeps_reserved_and_returned_nonces() {
    let cluster = Cluster::pipelined().await;
    let a = cluster.node("a", open());
    let (held, back) = (reserved(&a, MINUTE).await, reserved(&a, MINUTE).await);
    given_back(&a, &back).await;
    a.stop().await;
    let b = cluster.node("b", open());
    assert_eq!(created(&cluster, &b, 10).await, 1, "the pool is the store's");
    assert_eq!(created(&cluster, &b, 11).await, 2);
    used(&b, &held, TxHash::repeat_byte(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_held_or_used_by_callers_are_no_holes_after_a_takeover() {
    let cluster = Cluster::pipelined().await;
    let a = cluster.node("a", open());
    let (spent, _held) = (reserved(&a, MINUTE).await, reserved(&a, MINUTE).await);
    used(&a, &spent, TxHash::repeat_byte(1)).await.unwrap();
    assert_eq!(created(&cluster, &a, 12).await, 2);
    let found = a.operator().reconcile(account(1)).await.unwrap();
    assert_eq!(found.steps, [""; 0], "0 and 1 are with callers");
    a.stop().await;
    let b = cluster.node("b", open());
    let found = b.operator().reconcile(account(1)).await.unwrap();
    assert_eq!(found.steps, [""; 0], "0 and 1 are with callers");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonce_used_and_never_sent_raises_an_alert_and_can_be_handed_back() {
    let cluster = Cluster::pipelined().await;
    let a = cluster.node("a", open());
    let mine = reserved(&a, MINUTE).await;
    used(&a, &mine, TxHash::repeat_byte(1)).await.unwrap();
    let ids = [a.create(account(1), None, transfer(11)).await.unwrap().tx_id()];
    a.stop().await;
    // A new owner sees it as well, though the chain can't be asked when it begins.
    let counts = Query::Counts(account(1).address);
    cluster.chain.fail(counts, true);
    let engine = cluster.node("b", open());
    let failed = cluster.chain.failed();
    cluster.eventually("it was asked", async || cluster.chain.failed() > failed + 1).await;
    cluster.chain.fail(counts, false);
    let told = || cluster.alerts.of(AlertKind::ReservationUnsent);
    assert!(told().is_empty(), "not at once: it may be on its way");
    let later = options().stuck.head_after + Duration::from_secs(20);
    cluster
        .eventually("people are told", async || {
            cluster.clock.advance(later);
            !told().is_empty()
        })
        .await;
    assert_eq!(told()[0].nonce, Some(mine.nonce));
    let range = NonceRange { first: mine.nonce, last: mine.nonce };
    let with = FillWith::Placeholder;
    let vouch =
        |used| engine.operator().fill(account(1), Fill { range, with, used }, Text::lossy("dead"));
    assert_eq!(vouch(false).await.unwrap().taken, 1, "I3: it is the caller's");
    assert_eq!(vouch(true).await.unwrap().handed_back, 1);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [0, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_recycled_goes_to_the_next_transaction() {
    let cluster = Cluster::pipelined().await;
    let bad = Address::repeat_byte(0xba);
    cluster.chain.reject_calls_to(bad);
    let nonces = NonceRules { window: 1, ..options().nonces };
    let rejected_slot = RejectedSlot::Recycle;
    let engine = cluster.node("a", EngineOptions { nonces, rejected_slot, ..open() });
    let intent = Intent { gas: Some(21_000), ..Intent::transfer(bad, U256::from(1)) };
    let rejected = engine.create(account(1), None, intent).await.unwrap().tx_id();
    let next = engine.create(account(1), None, transfer(10)).await.unwrap().tx_id();
    cluster.mine_until_final(&[next]).await;
    assert_eq!(cluster.record(next).await.nonce, Some(nonce(0)), "lowest first");
    let ended = cluster.record(rejected).await;
    assert_eq!((ended.row.state, ended.nonce), (TxState::Failed(Failed::Rejected), None));
    assert_eq!(cluster.paid(account(1)), [10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_that_was_adopted_is_filled_before_the_cursor_moves() {
    let cluster = Cluster::pipelined().await;
    let mut behind = Behind::new(&cluster).await;
    behind.cursor(0, 3).await;
    let holes = [nonce(0), nonce(1), nonce(2)];
    let why = Text::lossy("hole");
    let adopted = cluster.store.adopt(&behind.node, behind.lease, &holes, &why).await;
    assert_eq!(adopted.unwrap(), holes);
    behind.leave().await;
    let engine = cluster.node("a", open());
    let mut ids = Vec::new();
    for value in 10..14 {
        ids.push(engine.create(account(1), None, transfer(value)).await.unwrap().tx_id());
    }
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13], "lowest first, no hole is left");
}

/// A node that writes to the store by hand.
struct Behind<'a> {
    cluster: &'a Cluster,
    node: NodeId,
    lease: tollgate_model::port::Lease,
}

impl<'a> Behind<'a> {
    async fn new(cluster: &'a Cluster) -> Self {
        let node = NodeId::new("behind", Uuid::now_v7()).unwrap();
        let terms = LeaseTerms::default();
        let granted = cluster.store.acquire(account(1), &node, &terms).await.unwrap();
        let Acquisition::Granted { lease, .. } = granted else { panic!("{granted:?}") };
        Self { cluster, node, lease }
    }

    async fn commit(&mut self, section: Section) {
        let batch = FencedBatch::new(self.node.clone(), vec![section]).unwrap();
        let outcomes = self.cluster.store.commit(&batch).await.unwrap();
        assert!(matches!(outcomes[0], SectionOutcome::Committed { .. }), "{outcomes:?}");
    }

    async fn cursor(&mut self, from: u64, to: u64) {
        let mut section = Section::new(self.lease);
        section.cursor = Some(CursorMove { from: nonce(from), to: nonce(to) });
        self.commit(section).await;
    }

    async fn status(&mut self, from: SubmitterStatus, to: SubmitterStatus) {
        let mut section = Section::new(self.lease);
        section.status = Some(StatusChange { from, to, reason: Text::lossy("test") });
        self.commit(section).await;
    }

    async fn leave(self) {
        self.cluster.store.release(&self.node, &[self.lease]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn count_that_was_long_on_its_way_hands_out_no_nonce_that_came_back() {
    let (cluster, engine) = Cluster::with_node(open()).await;
    let held = reserved(&engine, MINUTE).await;
    assert_eq!(created(&cluster, &engine, 1).await, 1);
    cluster.chain.stall(account(1).address, true);
    let asked = cluster.chain.counts_asked();
    given_back(&engine, &held).await;
    let create = engine.create(account(1), None, transfer(2));
    let answer = async {
        cluster
            .eventually("the count is asked for", async || cluster.chain.counts_asked() > asked)
            .await;
        // I3: what was sent meanwhile is not in the answer.
        cluster.clock.advance(Duration::from_secs(10));
        cluster.chain.stall(account(1).address, false);
    };
    let (create, ()) = tokio::join!(create, answer);
    let tx = create.unwrap().tx_id();
    cluster.until(tx, "got a slot", |tx| tx.nonce.is_some()).await;
    assert_eq!(cluster.record(tx).await.nonce.unwrap().get(), 0, "what came back goes first");
    assert!(cluster.chain.counts_asked() >= asked + 2, "the old count is not used");
}
