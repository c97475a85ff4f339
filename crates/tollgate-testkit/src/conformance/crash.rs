//! The server crashes under load: acknowledged writes are durable, and unknown commits can be resolved.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use tollgate_model::port::{Acquisition, Lease, SectionOutcome, StoreError};
use tollgate_model::{Submitter, TxId};

use crate::builders::{IntentExt, SectionExt, intent, long_terms, section, submitter};
use crate::node::TestNode;
use crate::store_fixture::{PgFixture, StoreFixture};
use crate::wait::until;

const CRASHES: usize = 4;
const WRITERS: u64 = 4;
/// Batches that must be acknowledged between two crashes.
const BETWEEN_CRASHES: usize = 25;
const PER_BATCH: u64 = 3;

/// The shared state of the writers.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    acknowledged: AtomicUsize,
    /// Tokens as they were granted, for the submitter whose owner changes all the time.
    tokens: Mutex<Vec<u64>>,
}

/// The answers to one writer.
#[derive(Default)]
struct Told {
    there: BTreeMap<TxId, u64>,
    absent: Vec<TxId>,
    unknown: usize,
}

/// I4, I6: no acknowledged write is lost, no token is issued twice, no cursor goes back.
pub async fn nothing_acknowledged_is_lost_when_the_server_crashes_under_load(fixture: &PgFixture) {
    let shared: &dyn StoreFixture = fixture;
    let load = Arc::new(Load::default());
    let mut writers = Vec::new();
    for n in 1..=WRITERS {
        let node = shared.node(&format!("writer-{n}")).await;
        let lease = node.own(submitter(n)).await;
        writers.push(tokio::spawn(write_on(node, lease, load.clone())));
    }
    let contested = submitter(WRITERS + 1);
    let mut takers = Vec::new();
    for n in 1..=2 {
        let node = shared.node(&format!("taker-{n}")).await;
        node.register(&[contested]).await;
        takers.push(tokio::spawn(take_turns(node, contested, load.clone())));
    }
    for _ in 0..CRASHES {
        let enough = load.acknowledged.load(Ordering::SeqCst) + BETWEEN_CRASHES;
        until("writers to go on", || async {
            (load.acknowledged.load(Ordering::SeqCst) >= enough).then_some(())
        })
        .await;
        fixture.crash_and_restart().await;
    }
    load.over.store(true, Ordering::SeqCst);
    let told: Vec<Told> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
    for taker in takers {
        taker.await.unwrap();
    }
    let auditor = shared.node("auditor").await;
    for (told, n) in told.iter().zip(1..) {
        audit(&auditor, submitter(n), told).await;
    }
    let tokens = load.tokens.lock().unwrap().clone();
    assert!(tokens.len() > CRASHES, "the lease changed hands: {tokens:?}");
    assert!(tokens.is_sorted_by(|a, b| a < b), "I4: a token was issued twice: {tokens:?}");
}

/// Checks that exactly the acknowledged transactions exist, with consecutive nonces.
async fn audit(auditor: &TestNode, submitter: Submitter, told: &Told) {
    for (tx_id, nonce) in &told.there {
        let record = auditor.tx(*tx_id).await.unwrap();
        let record = record.unwrap_or_else(|| panic!("I6: {tx_id} was acknowledged and is lost"));
        assert_eq!(record.nonce.unwrap().get(), *nonce);
    }
    for tx_id in &told.absent {
        assert!(!auditor.has(*tx_id).await, "{tx_id} was refused and is there");
    }
    let nonces: Vec<_> = told.there.values().copied().collect();
    let expected = u64::try_from(nonces.len()).unwrap();
    assert_eq!(auditor.cursor(submitter).await, expected, "I4: {} unknown", told.unknown);
    assert!(nonces.into_iter().eq(0..expected), "I3: ids and nonces grow together");
}

/// Commits batch after batch, as a writer with a cached cursor does.
async fn write_on(node: TestNode, lease: Lease, load: Arc<Load>) -> Told {
    let mut told = Told::default();
    let mut cursor = 0;
    while !load.over.load(Ordering::SeqCst) {
        let txs: Vec<_> = (cursor..cursor + PER_BATCH).map(|n| intent().at(n)).collect();
        let ids: Vec<_> = txs.iter().map(|tx| tx.tx_id).collect();
        let batch = section(lease).cursor(cursor, cursor + PER_BATCH).creates(txs);
        let landed = match node.try_write_one(batch).await {
            Ok(SectionOutcome::Committed { .. }) => {
                load.acknowledged.fetch_add(1, Ordering::SeqCst);
                true
            }
            Ok(other) => panic!("nobody else writes here: {other:?}"),
            Err(StoreError::Unavailable(_)) => false,
            Err(StoreError::CommitUnknown(_)) => {
                told.unknown += 1;
                settled(&node, lease, &ids, cursor).await
            }
            Err(error) => panic!("{error}"),
        };
        if landed {
            told.there.extend(ids.into_iter().zip(cursor..));
            cursor += PER_BATCH;
        } else {
            told.absent.extend(ids);
        }
    }
    told
}

/// Resolves an unknown commit; returns true if the batch is durable. All of it is, or none.
async fn settled(node: &TestNode, lease: Lease, ids: &[TxId], cursor: u64) -> bool {
    let settled = until("the server", || async {
        match node.settle(&node.id, lease, ids).await {
            Err(StoreError::Unavailable(_)) => None,
            settled => Some(settled.unwrap()),
        }
    })
    .await;
    let there = settled.rows.iter().filter(|row| row.is_some()).count();
    assert!(there == 0 || there == ids.len(), "I6: half of a batch is there");
    let next = settled.submitter.next_nonce.get();
    let expected = if there == 0 { cursor } else { cursor + PER_BATCH };
    assert_eq!(next, expected, "I4: the cursor and the rows agree");
    there > 0
}

/// Takes and releases a lease, again and again.
async fn take_turns(node: TestNode, contested: Submitter, load: Arc<Load>) {
    while !load.over.load(Ordering::SeqCst) {
        match node.acquire(contested, &node.id, &long_terms()).await {
            Ok(Acquisition::Granted { lease, kind, .. }) => {
                if kind != tollgate_model::port::GrantKind::Renewed {
                    load.tokens.lock().unwrap().push(lease.token.get());
                }
                // The answer to a release may be lost as well; then it is found again as renewed.
                let _ = node.release(&node.id, &[lease]).await;
            }
            Ok(Acquisition::Held(_)) | Err(StoreError::Unavailable(_)) => {
                tokio::task::yield_now().await;
            }
            Err(StoreError::CommitUnknown(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
