//! The jobs that a node gives its store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_model::port::{
    Acquisition, Evidence, FencedBatch, Lease, LeaseTerms, NewTx, RowVersion, Section,
    SectionOutcome, Store, TxUpdate,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{Allocated, NodeId, Submitter, TxEvent, TxHash, TxId, TxState};
use tollgate_testkit::builders::{
    IntentExt, SectionExt, chain, intent, mined_in, node_id, section, setup, submitter,
};

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

/// A node that owns whatever it is asked to own.
pub(crate) struct Node {
    store: Arc<dyn Store>,
    id: NodeId,
    terms: LeaseTerms,
}

impl Node {
    pub(crate) async fn new(store: Arc<dyn Store>) -> Self {
        store.register_chain(&chain()).await.unwrap();
        let hour = Duration::from_secs(3600);
        let terms = LeaseTerms::new(hour, hour / 4, Duration::ZERO).unwrap();
        Self { store, id: node_id("bench"), terms }
    }

    async fn own(&self, submitter: Submitter) -> (Lease, u64) {
        self.store.register_submitters(&[setup(submitter)]).await.unwrap();
        match self.store.acquire(submitter, &self.id, &self.terms).await.unwrap() {
            Acquisition::Granted { lease, submitter, .. } => (lease, submitter.next_nonce.get()),
            Acquisition::Held(owner) => {
                self.store
                    .release(&owner.node, &[Lease { submitter, token: owner.token }])
                    .await
                    .unwrap();
                Box::pin(self.own(submitter)).await
            }
        }
    }

    async fn commit(&self, sections: Vec<Section>) {
        let batch = FencedBatch::new(self.id.clone(), sections).unwrap();
        for outcome in self.store.commit(&batch).await.unwrap() {
            assert!(matches!(outcome, SectionOutcome::Committed { .. }), "{outcome:?}");
        }
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
pub(crate) async fn accept(node: &Node, submitters: u64, batch: usize, span: Duration) -> Line {
    let mut owned = Vec::new();
    for n in 0..submitters {
        owned.push(node.own(submitter(n)).await);
    }
    let each = batch / owned.len();
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < span {
        let sections = owned.iter_mut().map(|(lease, next)| {
            let section = creates(*lease, *next, each);
            *next += each as u64;
            section
        });
        node.commit(sections.collect()).await;
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
pub(crate) async fn life(node: &Node, batch: usize, span: Duration) -> Vec<Line> {
    let (lease, mut next) = node.own(submitter(1_000)).await;
    let finalised = TxEvent::Finalised(FinalOutcome::Executed);
    let steps = [("sent", TxEvent::NodeAccepted), ("mined", TxEvent::Mined), ("final", finalised)];
    let mut took = [Duration::ZERO; 3];
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < span * 3 {
        let created = creates(lease, next, batch);
        next += batch as u64;
        let mut txs: Vec<_> = created.creates.iter().map(Travelling::new).collect();
        node.commit(vec![created]).await;
        for ((_, event), took) in steps.iter().zip(&mut took) {
            let mut changes = section(lease);
            changes.updates.extend(txs.iter_mut().map(|tx| tx.step(*event)));
            let begun = Instant::now();
            node.commit(vec![changes]).await;
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
pub(crate) async fn renew(node: &Node, count: u64, span: Duration) -> Line {
    let mut leases = Vec::new();
    for n in 0..count {
        leases.push(node.own(submitter(10_000 + n)).await.0);
    }
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < span {
        let kept = node.store.renew(&node.id, &leases, &node.terms).await.unwrap();
        assert_eq!(kept.len(), leases.len());
        batches += 1;
    }
    Line::new(format!("renew {count} leases"), batches, leases.len(), start.elapsed())
}
