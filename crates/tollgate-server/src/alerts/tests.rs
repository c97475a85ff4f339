//! Each kind of alert that a node measures is raised by its condition, stays, and ends when the condition is gone.
//!
//! The numbers are given, and time passes by a clock that the tests move. That real conditions lead to these numbers
//! is tested with the program (`tests/it/alerts.rs`, `tests/it/top_up.rs`) and in the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_evm::chain::EndpointStatus;
use tollgate_evm::endpoint::{Health, Role};
use tollgate_model::alert::AccountFacts;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{Alert, Alerts, Page, StoredAlert, SubmitterOverview, SubmitterRecord};
use tollgate_model::{Address, Allocated, ChainId, Nonce, Submitter, Tracking, TxState, U256, Wei};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::clock::TestClock;
use tollgate_testkit::wait::within;
use uuid::Uuid;

use super::local::{LastLook, clock, endpoint, rates};
use super::watch::Watch;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// `alerts.resolve_after`, if it is not set.
const RESOLVE_AFTER: Duration = Duration::from_secs(120);

fn chain_id() -> ChainId {
    ChainId::new(8453).unwrap()
}

fn account() -> Submitter {
    Submitter::new(chain_id(), Address::repeat_byte(7))
}

fn ether(amount: u64) -> Wei {
    Wei(U256::from(amount) * U256::from(10).pow(U256::from(18)))
}

/// A node without chains, its store and their clock.
struct Stage {
    watcher: Watcher,
    clock: Arc<TestClock>,
    gates: Gates,
    watch: Watch,
    facts: BTreeMap<Submitter, AccountFacts>,
}

impl Stage {
    async fn set(change: impl FnOnce(&mut AlertSettings)) -> Self {
        let clock = Arc::new(TestClock::stopped());
        Self::with_clocks(clock.clone(), clock, change).await
    }

    async fn with_clocks(
        clock: Arc<TestClock>,
        of_store: Arc<TestClock>,
        change: impl FnOnce(&mut AlertSettings),
    ) -> Self {
        let options = SqliteOptions { clock: of_store, ..SqliteOptions::memory() };
        let store = Arc::new(SqliteStore::open(options).await.unwrap());
        let mut alerts = crate::config::defaults().unwrap().alerts;
        change(&mut alerts);
        let options = NodeAlertOptions { alerts, top_ups: Vec::new(), metrics: Arc::default() };
        let node = NodeId::new("a", Uuid::now_v7()).unwrap();
        let watcher = Watcher::new(store, node, clock.clone(), options).unwrap();
        let (gates, watch, facts) = (Gates::default(), Watch::default(), BTreeMap::new());
        Self { watcher, clock, gates, watch, facts }
    }

    async fn open(&self) -> Vec<StoredAlert> {
        self.watcher.store.alerts(true, Page::new(10).unwrap()).await.unwrap()
    }

    /// Waits until an alert is raised, which must be this one alone; returns its detail.
    async fn raised(&self, kind: AlertKind) -> String {
        within("an alert", self.watcher.changed.notified()).await;
        let open = self.open().await;
        let kinds: Vec<AlertKind> = open.iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, [kind]);
        open[0].detail.as_str().to_owned()
    }

    /// The alert that is open stays for the time and ends after it.
    async fn ends_after(&self, time: Duration) {
        self.clock.advance(time - SECOND);
        self.watch.end(&self.watcher, &self.facts).await.unwrap();
        assert_eq!(self.open().await.len(), 1, "it ends when it was not reported for {time:?}");
        self.clock.advance(SECOND);
        self.watch.end(&self.watcher, &self.facts).await.unwrap();
        assert!(self.open().await.is_empty(), "it is over");
    }

    /// One minute with so many events of a kind.
    fn minute(&mut self, fenced: u64, resends: u64) {
        let look = |at, fenced, resends| LastLook { at, fenced, resends, head: None };
        let before = look(self.watcher.clock.now(), 0, 0);
        self.clock.advance(Duration::from_secs(60));
        let now = look(self.watcher.clock.now(), fenced, resends);
        rates(&self.watcher, chain_id(), before, now, &mut self.gates);
    }

    fn endpoint(&mut self, failures: u32) {
        let mut health = Health::default();
        health.failures = failures;
        let status = EndpointStatus {
            name: "https://rpc.example.com".to_owned(),
            role: Role::Full,
            chain_check: "good".to_owned(),
            health,
            resting: failures > 0,
            head: None,
        };
        endpoint(&self.watcher, chain_id(), &status, &mut self.gates);
    }

    /// The account has so many transactions in a state, the oldest of this age.
    fn account(&mut self, state: TxState, count: u64, age: Duration) {
        let now = self.watcher.clock.now();
        let record = SubmitterRecord {
            submitter: account(),
            next_nonce: Nonce::new(0).unwrap(),
            mode: Mode::Pipelined,
            status: SubmitterStatus::Active,
            status_reason: None,
        };
        let overview = SubmitterOverview {
            record,
            owner: None,
            depth: vec![(state, count)],
            oldest_open: Some(now.before(age)),
        };
        self.watch.sends(&self.watcher, &overview, now);
    }

    fn balance(&mut self, balance: Wei, floor: Option<Wei>) -> u32 {
        self.watch.note_balance(&self.watcher, account(), Some(balance), floor);
        self.watch.report_balances(&self.watcher, chain_id())
    }
}

#[tokio::test]
async fn fenced_surge_is_raised_by_a_high_rate_for_a_minute_and_ends_with_it() {
    let mut stage = Stage::set(|alerts| alerts.fenced_per_minute = 30).await;
    stage.minute(30, 0);
    assert!(stage.open().await.is_empty(), "a takeover of many accounts is no surge");
    stage.minute(30, 0);
    let detail = stage.raised(AlertKind::FencedSurge).await;
    assert_eq!(detail, "30 accounts were lost to other nodes in a minute");
    stage.minute(14, 0);
    assert!(stage.gates.0.is_empty(), "nothing is reported any more");
    stage.ends_after(RESOLVE_AFTER - Duration::from_secs(60)).await;
}

#[tokio::test]
async fn resubmit_rate_is_raised_by_a_high_rate_for_a_minute_and_ends_with_it() {
    let mut stage = Stage::set(|alerts| alerts.resubmits_per_minute = 300).await;
    stage.minute(0, 400);
    stage.minute(0, 400);
    let detail = stage.raised(AlertKind::ResubmitRate).await;
    assert_eq!(detail, "400 transactions were sent again in a minute");
    stage.minute(0, 149);
    assert!(stage.gates.0.is_empty(), "nothing is reported any more");
    stage.ends_after(RESOLVE_AFTER - Duration::from_secs(60)).await;
}

#[tokio::test]
async fn endpoint_down_is_raised_after_a_while_without_answers_and_ends_with_the_next_one() {
    let mut stage = Stage::set(|alerts| alerts.endpoint_down_after = 10 * SECOND).await;
    stage.endpoint(1);
    stage.clock.advance(10 * SECOND);
    stage.endpoint(7);
    let detail = stage.raised(AlertKind::EndpointDown).await;
    assert_eq!(detail, "node a gets no answers: 7 calls in a row failed");
    let subject = AlertSubject::endpoint(chain_id(), "https://rpc.example.com");
    assert_eq!(stage.open().await[0].subject, subject);
    stage.endpoint(0);
    assert!(stage.gates.0.is_empty(), "nothing is reported any more");
    stage.ends_after(RESOLVE_AFTER).await;
}

/// The one kind that is about the node itself.
#[tokio::test]
async fn clock_drift_is_raised_counted_and_shown_and_ends_when_the_clocks_agree() {
    let (own, of_store) = (Arc::new(TestClock::stopped()), Arc::new(TestClock::stopped()));
    let mut stage = Stage::with_clocks(own.clone(), of_store.clone(), |_| {}).await;
    own.advance(10 * SECOND);
    clock(&stage.watcher, &mut stage.gates).await;
    own.advance(60 * SECOND);
    of_store.advance(60 * SECOND);
    clock(&stage.watcher, &mut stage.gates).await;
    let detail = stage.raised(AlertKind::ClockDrift).await;
    assert!(detail.ends_with("ms ahead of the database's"), "{detail}");
    let metrics = stage.watcher.metrics.clone();
    let shown = || metrics.tollgate.clock_drift_seconds.get().unwrap();
    assert!((9.0..11.0).contains(&shown()), "{}", shown());
    assert_eq!(metrics.tollgate.node_alerts_total.get(AlertKind::ClockDrift), 1);

    of_store.advance(10 * SECOND);
    clock(&stage.watcher, &mut stage.gates).await;
    assert!(shown() < 1.0 && stage.gates.0.is_empty(), "the clocks agree");
    stage.watch.end(&stage.watcher, &stage.facts).await.unwrap();
    assert_eq!(stage.open().await.len(), 1);
    of_store.advance(RESOLVE_AFTER);
    stage.watch.end(&stage.watcher, &stage.facts).await.unwrap();
    assert!(stage.open().await.is_empty(), "it is over");
}

#[tokio::test]
async fn receipt_backlog_is_raised_by_many_old_sends_and_ends_when_there_are_few() {
    let mut stage = Stage::set(|alerts| alerts.receipt_backlog = 500).await;
    let (pending, old) = (TxState::Tracking(Tracking::Pending), Duration::from_secs(600));
    stage.account(pending, 900, old - SECOND);
    assert!(stage.open().await.is_empty(), "the oldest is not old enough");
    stage.account(pending, 500, old);
    let detail = stage.raised(AlertKind::ReceiptBacklog).await;
    assert!(detail.starts_with("500 sent transactions wait for a receipt"), "{detail}");
    stage.account(pending, 249, old);
    stage.ends_after(RESOLVE_AFTER).await;
}

#[tokio::test]
async fn grey_zone_is_raised_by_sends_that_stay_unknown_and_ends_when_they_are_known() {
    let mut stage = Stage::set(|alerts| alerts.grey_zone_after = 10 * SECOND).await;
    let grey = TxState::Allocated(Allocated::UnknownSubmitResult);
    stage.account(grey, 3, SECOND);
    stage.clock.advance(10 * SECOND);
    stage.account(grey, 2, SECOND);
    let detail = stage.raised(AlertKind::GreyZone).await;
    assert_eq!(detail, "it is not known whether a node has 2 transactions that were sent");
    stage.account(TxState::Tracking(Tracking::Pending), 2, SECOND);
    stage.ends_after(RESOLVE_AFTER).await;
}

#[tokio::test]
async fn reservations_piling_up_is_raised_near_the_limit_and_ends_at_half_of_that() {
    let mut stage = Stage::set(|alerts| alerts.reservations_percent = 80).await;
    stage.watch.held(&stage.watcher, account(), 7, 10);
    stage.watch.held(&stage.watcher, account(), 8, 10);
    let detail = stage.raised(AlertKind::ReservationsPilingUp).await;
    assert_eq!(detail, "callers hold 8 nonces of 10");
    stage.watch.held(&stage.watcher, account(), 3, 10);
    stage.ends_after(RESOLVE_AFTER).await;
}

#[tokio::test]
async fn low_balance_is_raised_below_the_floor_and_ends_above_it() {
    let mut stage = Stage::set(|_| {}).await;
    assert_eq!(stage.balance(ether(2), Some(ether(2))), 0);
    assert_eq!(stage.balance(ether(1), Some(ether(2))), 1);
    let detail = stage.raised(AlertKind::LowBalance).await;
    assert_eq!(detail, "the balance of 1 eth is below the floor of 2 eth");
    assert_eq!(stage.balance(ether(2), Some(ether(2))), 0);
    stage.ends_after(RESOLVE_AFTER).await;
}

#[tokio::test]
async fn low_balance_tells_the_days_left_at_the_present_burn() {
    let mut stage = Stage::set(|alerts| alerts.low_balance_days = 3).await;
    let hour = Duration::from_secs(3_600);
    stage.balance(ether(100), None);
    for left in [98, 96] {
        stage.clock.advance(hour);
        stage.balance(ether(left), None);
    }
    let detail = stage.raised(AlertKind::LowBalance).await;
    assert!(detail.ends_with("eth lasts for 2 days"), "{detail}");
    stage.balance(ether(96), Some(ether(97)));
    let both = "the balance of 96 eth is below the floor of 97 eth and lasts for 2 days";
    let until = async {
        while stage.open().await[0].detail.as_str() != both {
            tokio::task::yield_now().await;
        }
    };
    within("the newer detail", until).await;
    stage.balance(ether(10), None);
    let until = async {
        while stage.open().await[0].level != EMPTY_SOON {
            tokio::task::yield_now().await;
        }
    };
    within("the higher level", until).await;
}

/// Raised by the engine, which repeats it at each failed comparison.
#[tokio::test]
async fn reconcile_failure_ends_when_nothing_is_open_or_it_is_not_repeated() {
    for open in [0, 3] {
        let mut stage = Stage::set(|_| {}).await;
        let facts = AccountFacts { open, stuck: 0, status: SubmitterStatus::Active };
        stage.facts.insert(account(), facts);
        stage.watcher.collector.raise(&Alert {
            kind: AlertKind::ReconcileFailure,
            submitter: account(),
            tx_id: None,
            nonce: None,
            detail: "not compared with the chain".to_owned(),
        });
        assert_eq!(stage.raised(AlertKind::ReconcileFailure).await, "not compared with the chain");
        let quiet = if open == 0 { 60 } else { 1_500 };
        stage.ends_after(Duration::from_secs(quiet)).await;
    }
}

#[tokio::test]
async fn top_up_failed_is_told_with_its_reason_and_ends_when_it_is_not_repeated() {
    let stage = Stage::set(|_| {}).await;
    let kind = AlertKind::TopUpFailed;
    let subject = AlertSubject::account(account());
    stage.watcher.collector.report(kind, subject, kind.info().level, "the daily cap is reached");
    assert_eq!(stage.raised(kind).await, "the daily cap is reached");
    stage.ends_after(RESOLVE_AFTER).await;
}
