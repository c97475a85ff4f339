//! The dispatcher against a receiver that fails, in simulated time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tollgate_model::event::NumberedEvent;
use tollgate_model::port::{Acquisition, EventStore, FencedBatch, LeaseStore, NewTx, TxStore};
use tollgate_model::transition::TxEvent;
use tollgate_model::{Seq, TxId};
use tollgate_sqlite::{SqliteOptions, SqliteStore, Threads};
use tollgate_testkit::builders::{
    SectionExt, chain, full_page, intent, long_terms, moved, section, seq, setup, submitter,
};
use tollgate_testkit::wait::until;
use uuid::Uuid;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// A receiver that fails when it is told to.
struct FakeSink {
    begun: Instant,
    /// Nothing is taken before this time has passed.
    down_for: Duration,
    /// Transactions whose events are never taken.
    refused: HashSet<TxId>,
    /// The time of each answer.
    delay: Duration,
    calls: Mutex<Vec<Seq>>,
    taken: Mutex<Vec<NumberedEvent>>,
}

impl FakeSink {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            down_for: Duration::ZERO,
            refused: HashSet::new(),
            delay: Duration::from_millis(5),
            calls: Mutex::default(),
            taken: Mutex::default(),
        }
    }

    fn taken(&self) -> Vec<NumberedEvent> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until so many events were taken.
    async fn until_taken(&self, count: usize) {
        while self.taken().len() < count {
            sleep(Duration::from_secs(1)).await;
        }
    }
}

#[async_trait]
impl EventSink for FakeSink {
    fn name(&self) -> &'static str {
        "webhook"
    }

    async fn deliver(&self, event: &NumberedEvent) -> Result<(), NotTaken> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(event.seq);
        sleep(self.delay).await;
        let is_refused = event.event.tx.as_ref().is_some_and(|tx| self.refused.contains(&tx.tx_id));
        if is_refused || self.begun.elapsed() < self.down_for {
            return Err(NotTaken { why: "HTTP 500".to_owned(), retry_after: None });
        }
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        Ok(())
    }
}

/// A database with one submitter.
struct Stage {
    store: Arc<SqliteStore>,
    node: NodeId,
    stop: watch::Sender<bool>,
}

fn node(name: &str) -> NodeId {
    NodeId::new(name, Uuid::now_v7()).unwrap()
}

impl Stage {
    async fn new() -> Self {
        let options = SqliteOptions { threads: Threads::Callers, ..SqliteOptions::memory() };
        let store = SqliteStore::open(options).await.unwrap();
        store.register_chain(&chain()).await.unwrap();
        store.register_submitters(&[setup(submitter(1))]).await.unwrap();
        // The sink begins at the end of the log, so it must exist before the events.
        let first = store.claim_sink("webhook", &node("first"), Duration::ZERO).await.unwrap();
        assert_eq!(first.unwrap().acknowledged, seq(0));
        Self { store: Arc::new(store), node: node("a"), stop: watch::Sender::new(false) }
    }

    /// Writes transactions that are accepted and withdrawn: two events each.
    async fn write(&self, count: usize) -> Vec<NewTx> {
        let owner = self.store.acquire(submitter(1), &self.node, &long_terms()).await.unwrap();
        let Acquisition::Granted { lease, .. } = owner else { panic!("{owner:?}") };
        let txs: Vec<NewTx> = std::iter::repeat_with(intent).take(count).collect();
        let mut ends = section(lease);
        for tx in &txs {
            let row = tollgate_model::port::RowVersion { state: tx.initial_state(), version: 1 };
            ends = ends.change(moved(tx.tx_id, row, TxEvent::Withdrawn));
        }
        for part in [section(lease).creates(txs.clone()), ends] {
            let batch = FencedBatch::new(self.node.clone(), vec![part]).unwrap();
            self.store.commit(&batch).await.unwrap();
        }
        txs
    }

    fn dispatch(&self, name: &str, sink: &Arc<FakeSink>) -> JoinHandle<()> {
        let rules = DeliveryRules {
            failures_max: 8,
            pause_first: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
        };
        let options = DispatcherOptions { kinds: EventKinds::ALL, concurrency: 16, rules };
        let dispatcher = Dispatcher {
            store: self.store.clone(),
            node: node(name),
            sink: sink.clone(),
            options,
            stop: self.stop.subscribe(),
        };
        tokio::spawn(dispatcher.run())
    }

    async fn stop(&self, task: JoinHandle<()>) {
        self.stop.send_replace(true);
        task.await.unwrap();
        self.stop.send_replace(false);
    }

    async fn letters(&self) -> Vec<DeadLetter> {
        self.store.dead_letters("webhook", Seq::MIN, false, full_page()).await.unwrap()
    }
}

/// The versions of each transaction, in the order in which they were taken.
fn versions(taken: &[NumberedEvent]) -> BTreeMap<TxId, Vec<u32>> {
    let mut versions: BTreeMap<TxId, Vec<u32>> = BTreeMap::new();
    for tx in taken.iter().filter_map(|event| event.event.tx.as_ref()) {
        versions.entry(tx.tx_id).or_default().push(tx.version);
    }
    versions
}

#[tokio::test(start_paused = true)]
async fn receiver_that_was_down_for_an_hour_gets_every_event_in_the_order_of_its_transaction() {
    let stage = Stage::new().await;
    let sink = Arc::new(FakeSink { down_for: HOUR, ..FakeSink::new() });
    let txs = stage.write(1_200).await;
    let task = stage.dispatch("a", &sink);
    sleep(HOUR).await;
    let during = sink.calls();
    assert!((30..3_000).contains(&during), "bounded, and not given up: {during} calls in an hour");
    assert_eq!(stage.letters().await, [], "nothing is put aside while the receiver is down");
    sink.until_taken(2_400).await;
    assert!(sink.begun.elapsed() < HOUR + Duration::from_secs(180), "it catches up soon");
    stage.stop(task).await;
    let versions = versions(&sink.taken());
    assert_eq!(versions.len(), txs.len());
    assert!(versions.values().all(|of| *of == [1, 2]), "each once, in order");
    assert_eq!(stage.letters().await, []);
    let next = stage.store.claim_sink("webhook", &stage.node, TERM).await.unwrap();
    assert_eq!(next.unwrap().acknowledged, seq(2_400), "progress is written when the node stops");
}

#[tokio::test(start_paused = true)]
async fn event_that_is_never_taken_becomes_a_dead_letter_and_delays_no_other_transaction() {
    let stage = Stage::new().await;
    let bad = stage.write(1).await.remove(0).tx_id;
    stage.write(50).await;
    let sink = Arc::new(FakeSink { refused: HashSet::from([bad]), ..FakeSink::new() });
    let task = stage.dispatch("a", &sink);
    sink.until_taken(100).await;
    assert!(sink.begun.elapsed() < Duration::from_secs(5), "the others did not wait");
    // Failures count only while the receiver takes others.
    for _ in 0..20 {
        stage.write(1).await;
        sleep(Duration::from_secs(60)).await;
    }
    let letters = stage.letters().await;
    let about = |letter: &DeadLetter| letter.event.event.tx.as_ref().map(|tx| tx.tx_id);
    assert_eq!(about(&letters[0]), Some(bad), "{letters:?}");
    assert_eq!((letters[0].last_error.as_str(), letters[0].event.seq), ("HTTP 500", seq(1)));
    assert!(letters[0].attempts >= 8, "{letters:?}");
    let taken = sink.taken();
    assert!(versions(&taken).values().all(|of| *of == [1, 2]));
    stage.stop(task).await;
}

#[tokio::test(start_paused = true)]
async fn dead_letter_is_sent_once_more_for_each_request_of_an_operator() {
    let stage = Stage::new().await;
    stage.write(1).await;
    while stage.store.number_events(full_page()).await.unwrap() > 0 {}
    let event = stage.store.events(seq(0), full_page()).await.unwrap().items.remove(0);
    let letter =
        DeadLetter { event, attempts: 8, last_error: "HTTP 400".to_owned(), is_due: false };
    stage.store.put_dead_letter("webhook", &letter).await.unwrap();
    let down = Arc::new(FakeSink { down_for: HOUR, ..FakeSink::new() });
    stage.store.rewind_sink("webhook", seq(2)).await.unwrap();
    let task = stage.dispatch("a", &down);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(down.calls(), 0, "nobody has asked");
    stage.store.retry_dead_letters("webhook", seq(1), seq(1)).await.unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(down.calls(), 1);
    let letters = stage.letters().await;
    assert_eq!(
        (letters[0].attempts, letters[0].is_due),
        (9, false),
        "it waits for an operator again"
    );
    sleep(HOUR).await;
    stage.store.retry_dead_letters("webhook", seq(1), seq(1)).await.unwrap();
    down.until_taken(1).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.letters().await, []);
    stage.stop(task).await;
}

#[tokio::test(start_paused = true)]
async fn one_node_delivers_and_another_goes_on_after_it_without_a_gap() {
    let stage = Stage::new().await;
    let (first, second) = (Arc::new(FakeSink::new()), Arc::new(FakeSink::new()));
    let a = stage.dispatch("a", &first);
    stage.write(10).await;
    first.until_taken(20).await;
    let b = stage.dispatch("b", &second);
    sleep(Duration::from_secs(60)).await;
    stage.write(10).await;
    first.until_taken(40).await;
    assert_eq!(second.calls(), 0, "I11: one node at a time");
    stage.stop(a).await;
    b.await.unwrap();
    let c = stage.dispatch("c", &second);
    stage.write(10).await;
    second.until_taken(20).await;
    stage.stop(c).await;
    let taken = [first.taken(), second.taken()].concat();
    let seqs: HashMap<u64, usize> = taken.iter().fold(HashMap::new(), |mut seqs, event| {
        *seqs.entry(event.seq.get()).or_default() += 1;
        seqs
    });
    assert!((1..=60).all(|seq| seqs.get(&seq) == Some(&1)), "each event once: {seqs:?}");
}

#[tokio::test(start_paused = true)]
async fn sink_that_an_operator_set_back_gets_its_events_again_under_the_same_ids() {
    let stage = Stage::new().await;
    let sink = Arc::new(FakeSink::new());
    let task = stage.dispatch("a", &sink);
    stage.write(5).await;
    sink.until_taken(10).await;
    stage.store.rewind_sink("webhook", seq(4)).await.unwrap();
    sink.until_taken(16).await;
    stage.stop(task).await;
    let taken = sink.taken();
    let ids: HashSet<String> = taken.iter().map(NumberedEvent::id).collect();
    assert_eq!((taken.len(), ids.len()), (16, 10));
    until("the claim", || async {
        stage.store.claim_sink("webhook", &stage.node, TERM).await.unwrap()
    })
    .await;
}
