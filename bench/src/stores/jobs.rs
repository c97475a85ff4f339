//! The measured jobs of a store.

use std::time::{Duration, Instant};

use tollgate_model::port::{Evidence, Lease, NewTx, RowVersion, Section, TxUpdate};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{Allocated, TxEvent, TxHash, TxId, TxState};
use tollgate_testkit::TestNode;
use tollgate_testkit::builders::{
    IntentExt, SectionExt, intent, long_terms, mined_in, section, submitter,
};
use tollgate_testkit::node::is_committed;

/// One line of the table.
pub(crate) struct Line {
    pub(crate) job: String,
    pub(crate) rows_per_second: f64,
    pub(crate) ms_per_batch: f64,
}

impl Line {
    pub(crate) fn new(job: String, batches: u32, rows: usize, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        let batches = f64::from(batches);
        let rows_per_second = batches * rows as f64 / seconds;
        Self { job, rows_per_second, ms_per_batch: seconds * 1000.0 / batches }
    }
}

/// A section that creates `count` transactions with slots and names from `from` on.
fn creates(lease: Lease, from: u64, count: usize) -> Section {
    let txs = (from..).take(count).map(|nonce| {
        let tx = intent().at(nonce).paying(&"x".repeat(300));
        let name = tx.tx_id.to_string();
        tx.named(&name)
    });
    section(lease).cursor(from, from + count as u64).creates(txs)
}

/// Accept with everything: request id, slot, attempt, history; durable at the end of each batch.
pub(crate) async fn accept(node: &TestNode, submitters: u64, batch: usize, span: Duration) -> Line {
    let mut owned = Vec::new();
    for n in 0..submitters {
        owned.push((node.own(submitter(n)).await, node.cursor(submitter(n)).await));
    }
    let each = batch / owned.len();
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < span {
        let sections = owned.iter_mut().map(|(lease, next)| {
            let section = creates(*lease, *next, each);
            *next += each as u64;
            section
        });
        let outcomes = node.write_all(sections.collect()).await;
        assert!(outcomes.iter().all(is_committed), "{outcomes:?}");
        batches += 1;
    }
    Line::new(
        format!("accept, {submitters} submitters, {batch} a batch"),
        batches,
        batch,
        start.elapsed(),
    )
}

/// A transaction on its way.
struct Travelling {
    tx_id: TxId,
    hash: TxHash,
    row: RowVersion,
}

impl Travelling {
    fn new(tx: &NewTx) -> Self {
        let state = TxState::Allocated(Allocated::Unsent);
        let hash = tx.slot.as_ref().unwrap().attempt.tx_hash;
        Self { tx_id: tx.tx_id, hash, row: RowVersion { state, version: 1 } }
    }

    fn step(&mut self, event: TxEvent) -> TxUpdate {
        let mut update = TxUpdate::moved(self.tx_id, self.row, event).unwrap();
        if event == TxEvent::Mined {
            update.evidence = Evidence::Set(mined_in(self.hash, 1));
        }
        self.row = update.applied();
        update
    }
}

/// From accepted to final: each step of the way on its own line, one submitter.
pub(crate) async fn life(node: &TestNode, batch: usize, span: Duration) -> Vec<Line> {
    let of = submitter(1_000);
    let (lease, mut next) = (node.own(of).await, node.cursor(of).await);
    let finalised = TxEvent::Finalised(FinalOutcome::Executed);
    let steps = [("sent", TxEvent::NodeAccepted), ("mined", TxEvent::Mined), ("final", finalised)];
    let mut took = [Duration::ZERO; 3];
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < span * 3 {
        let created = creates(lease, next, batch);
        next += batch as u64;
        let mut txs: Vec<_> = created.creates.iter().map(Travelling::new).collect();
        node.write_whole(created).await;
        for ((_, event), took) in steps.iter().zip(&mut took) {
            let mut changes = section(lease);
            changes.updates.extend(txs.iter_mut().map(|tx| tx.step(*event)));
            let begun = Instant::now();
            node.write_whole(changes).await;
            *took += begun.elapsed();
        }
        batches += 1;
    }
    let line = |(name, _): &(&str, TxEvent), took: Duration| {
        Line::new(format!("{name}, {batch} a batch"), batches, batch, took)
    };
    steps.iter().zip(took).map(|(step, took)| line(step, took)).collect()
}

/// Upkeep: all leases of a node, extended in one statement.
pub(crate) async fn renew(node: &TestNode, count: u64, span: Duration) -> Line {
    let leases = node.own_all(10_000..10_000 + count).await;
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < span {
        let kept = node.renew(&node.id, &leases, &long_terms()).await.unwrap();
        assert_eq!(kept.len(), leases.len());
        batches += 1;
    }
    Line::new(format!("renew {count} leases"), batches, leases.len(), start.elapsed())
}
