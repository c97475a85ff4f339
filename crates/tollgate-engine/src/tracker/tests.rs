//! The tracker alone, on a chain in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::{Block, BlockRef, BlockTag, Chain};
use tollgate_model::port::{Alert, Alerts};
use tollgate_model::{Address, B256, Submitter};
use tollgate_testkit::clock::TestClock;
use tollgate_testkit::fake_chain::{FakeChain, Query};

use super::block_buffer::BlockBuffer;
use super::{OlderBlocks, ReaderSetup, ReceiptReader, SupportChecker, Tracker, WorkerNotifier};
use crate::context::AttemptIndex;
use crate::mailbox::WorkerEvent;
use crate::view::ChainView;
use crate::watch;

/// Ignores notifications and alerts.
struct Ignore;

/// Counts notifications and alerts.
#[derive(Default)]
struct Told(AtomicUsize);

impl WorkerNotifier for Told {
    fn notify(&self, _submitter: Submitter, events: Vec<WorkerEvent>) {
        self.0.fetch_add(events.len(), Ordering::Relaxed);
    }
}

impl WorkerNotifier for Ignore {
    fn notify(&self, _submitter: Submitter, _events: Vec<WorkerEvent>) {}
}

impl Alerts for Told {
    fn raise(&self, _alert: &Alert) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Alerts for Ignore {
    fn raise(&self, _alert: &Alert) {}
}

fn tracker(chain: &Arc<FakeChain>) -> Tracker {
    let setup = Arc::new(ReaderSetup {
        chain: chain.clone(),
        attempts: AttemptIndex::default(),
        workers: Arc::new(Ignore),
        alerts: Arc::new(Ignore),
        alert_after: Duration::from_secs(60),
        metrics: Arc::default(),
    });
    let (view, _) = watch::channel(ChainView::default());
    let rule = FinalityRule::Confirmations(3);
    let reader = Arc::new(ReceiptReader::new(setup.clone()));
    let older_blocks = Arc::new(OlderBlocks::new(setup.clone()));
    let support = Arc::new(SupportChecker::new(setup, rule));
    let (clock, metrics) = (Arc::new(TestClock::default()), Arc::default());
    Tracker { chain: chain.clone(), rule, reader, older_blocks, support, view, clock, metrics }
}

#[tokio::test]
async fn view_reaches_the_head_though_all_buffered_blocks_are_higher() {
    let chain = Arc::new(FakeChain::new());
    let tracker = tracker(&chain);
    let mut buffer = BlockBuffer::default();
    let head = async || chain.block(BlockTag::Latest).await.unwrap().unwrap().at;
    tracker.extend(head().await, &mut buffer).await.unwrap();
    for number in 1_000..1_000 + tracker.view_length() as u64 {
        let at = BlockRef { number, hash: B256::repeat_byte(7), parent: B256::repeat_byte(7) };
        buffer.keep(Block { at, transactions: Vec::new(), time: None }, tracker.view_length());
    }
    for _ in 0..20 {
        chain.mine();
    }
    let head = head().await;
    // A loop without end ends with this error.
    chain.fail_blocks_steadily(51);
    tracker.extend(head, &mut buffer).await.unwrap_err();
    tracker.extend(head, &mut buffer).await.unwrap();
    assert_eq!(tracker.view.get().head(), Some(head));
}

#[tokio::test(start_paused = true)]
async fn receipt_that_endpoints_refuse_for_forty_seconds_is_told_within_five_seconds_of_the_end() {
    let (chain, told) = (Arc::new(FakeChain::new()), Arc::new(Told::default()));
    let from = Address::repeat_byte(1);
    let hash = chain.outsider_mines(from);
    let block = chain.block(BlockTag::Latest).await.unwrap().unwrap();
    assert_eq!(block.transactions, [hash]);
    let attempts = AttemptIndex::default();
    attempts.insert(hash, Submitter::new(chain.chain_id(), from));
    let setup = Arc::new(ReaderSetup {
        chain: chain.clone(),
        attempts,
        workers: told.clone(),
        alerts: Arc::new(Ignore),
        alert_after: Duration::from_secs(60),
        metrics: Arc::default(),
    });
    let reader = ReceiptReader::new(setup);
    let (view, _seen) = watch::channel(ChainView::default());
    chain.fail(Query::Receipt(hash), true);
    reader.request_receipts(&block);
    let for_a_while =
        |seconds: u64| tokio::time::timeout(Duration::from_secs(seconds), reader.run(&view));
    for_a_while(40).await.unwrap_err();
    chain.fail(Query::Receipt(hash), false);
    for_a_while(5).await.unwrap_err();
    assert_eq!(told.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn block_below_the_view_that_no_endpoint_delivers_raises_one_alert_after_a_minute() {
    let (chain, raised) = (Arc::new(FakeChain::new()), Arc::new(Told::default()));
    let of = Submitter::new(chain.chain_id(), Address::repeat_byte(1));
    let setup = Arc::new(ReaderSetup {
        chain: chain.clone(),
        attempts: AttemptIndex::default(),
        workers: Arc::new(Ignore),
        alerts: raised.clone(),
        alert_after: Duration::from_secs(60),
        metrics: Arc::default(),
    });
    let older = OlderBlocks::new(setup);
    let at = BlockRef { number: 50, hash: B256::repeat_byte(7), parent: B256::repeat_byte(7) };
    let mut seen = ChainView::default();
    seen.extend(&[at], 10);
    let (view, _seen) = watch::channel(seen);
    chain.fail(Query::Blocks, true);
    for (seconds, alerts) in [(55, 0), (40, 1), (300, 1), (300, 2)] {
        let worker_asks = async {
            loop {
                older.check(of, (3, B256::repeat_byte(3)), || view.get());
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        };
        let run = async { tokio::join!(older.run(&view), worker_asks) };
        tokio::time::timeout(Duration::from_secs(seconds), run).await.unwrap_err();
        assert_eq!(raised.0.load(Ordering::Relaxed), alerts);
    }
}
