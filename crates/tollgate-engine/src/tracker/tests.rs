//! The tracker alone, on a chain in memory.

use std::sync::Arc;
use std::time::Duration;

use tollgate_model::finality::FinalityRule;
use tollgate_model::port::chain::{Block, BlockRef, BlockTag, Chain};
use tollgate_model::port::{Alert, Alerts, MinedIn};
use tollgate_model::{B256, Submitter};
use tollgate_testkit::fake_chain::FakeChain;

use super::fetched::Fetched;
use super::{ReaderSetup, ReceiptReader, Tell, Tracker};
use crate::context::AttemptIndex;
use crate::view::ChainView;
use crate::watch;

struct Nobody;

impl Tell for Nobody {
    fn mined(&self, _submitter: Submitter, _receipts: Vec<MinedIn>) {}

    fn block_left(&self, _submitter: Submitter, _number: u64, _hash: B256) {}
}

impl Alerts for Nobody {
    fn raise(&self, _alert: &Alert) {}
}

fn tracker(chain: &Arc<FakeChain>) -> Tracker {
    let reader = ReceiptReader::new(ReaderSetup {
        chain: chain.clone(),
        attempts: AttemptIndex::default(),
        tell: Arc::new(Nobody),
        alerts: Arc::new(Nobody),
        alert_after: Duration::from_secs(60),
    });
    let (view, _) = watch::channel(ChainView::default());
    let rule = FinalityRule::Confirmations(3);
    Tracker { chain: chain.clone(), rule, reader: Arc::new(reader), view }
}

#[tokio::test]
async fn climb_reaches_the_head_though_the_kept_blocks_are_all_higher() {
    let chain = Arc::new(FakeChain::new());
    let tracker = tracker(&chain);
    let mut fetched = Fetched::default();
    let head = async || chain.block(BlockTag::Latest).await.unwrap().unwrap().at;
    tracker.climb(head().await, &mut fetched).await.unwrap();
    for number in 1_000..1_000 + tracker.view_length() as u64 {
        let at = BlockRef { number, hash: B256::repeat_byte(7), parent: B256::repeat_byte(7) };
        fetched.keep(Block { at, transactions: Vec::new() }, tracker.view_length());
    }
    for _ in 0..20 {
        chain.mine();
    }
    let head = head().await;
    // So that a loop without an end ends with an error.
    chain.fail_blocks_steadily(51);
    tracker.climb(head, &mut fetched).await.unwrap_err();
    tracker.climb(head, &mut fetched).await.unwrap();
    assert_eq!(tracker.view.get().head(), Some(head));
}
