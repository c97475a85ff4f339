//! Slots that no node ever took: back to the pool, and from there to the next transaction.

use tollgate_model::port::{
    Lease, NewTx, ReservationState, SectionOutcome, TxUpdate, UpdateAnswer,
};
use tollgate_model::{Failed, StuckReason, TxEvent, TxState};
use uuid::Uuid;

use crate::builders::{
    IntentExt, SectionExt, full_page, intent, nonce, reserve, section, submitter,
};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;

/// A change that frees a slot.
async fn recycling(node: &TestNode, tx: &NewTx, freed: u64) -> TxUpdate {
    let mut update = node.change(tx.tx_id, TxEvent::SlotRecycled).await;
    update.freed_nonce = Some(nonce(freed));
    update
}

async fn recycle(node: &TestNode, lease: Lease, tx: &NewTx, freed: u64) {
    let recycled = recycling(node, tx, freed).await;
    node.apply(lease, recycled).await;
}

async fn pool(node: &TestNode) -> Vec<u64> {
    let all = node.reservations(submitter(1), None, full_page()).await.unwrap();
    let free = all.iter().filter(|one| one.state == ReservationState::Recyclable);
    free.map(|one| one.nonce.get()).collect()
}

pub async fn a_recycled_slot_goes_to_the_next_transaction(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = a.fill(lease, 3).await;
    recycle(&a, lease, &txs[1], 1).await;
    let ended = a.record(txs[1].tx_id).await;
    assert_eq!(ended.row.state, TxState::Failed(Failed::Rejected));
    assert_eq!(ended.nonce, None, "I3: the slot is not its own any more");
    assert_eq!(a.attempts(txs[1].tx_id).await.unwrap().len(), 1, "I5: the attempt is kept");
    assert_eq!(pool(&a).await, [1]);

    let next = intent().recycling(1);
    a.write_whole(section(lease).cursor(3, 3).create(next.clone())).await;
    assert_eq!(a.record(next.tx_id).await.nonce, Some(nonce(1)));
    assert_eq!(a.cursor(submitter(1)).await, 3, "the cursor stays");
    assert!(pool(&a).await.is_empty(), "it is taken");
    let used = format!("nonce_reservation where {} and state = 2", fixture.of(submitter(1)));
    assert_eq!(fixture.count(&used).await, 1, "it is spent");
}

pub async fn a_slot_can_be_recycled_more_than_once(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut last = a.fill(lease, 1).await.remove(0);
    for _ in 0..3 {
        a.step(lease, last.tx_id, TxEvent::GaveUp(StuckReason::Rejected)).await;
        recycle(&a, lease, &last, 0).await;
        assert_eq!(pool(&a).await, [0]);
        last = intent().recycling(0);
        a.write_whole(section(lease).cursor(1, 1).create(last.clone())).await;
    }
    assert_eq!(a.record(last.tx_id).await.nonce, Some(nonce(0)));
    assert_eq!(fixture.count("tx_completion").await, 3);
}

pub async fn a_nonce_that_is_not_in_the_pool_cannot_be_recycled(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = a.fill(lease, 3).await;
    recycle(&a, lease, &txs[2], 2).await;
    // 0 and 1 belong to transactions; 2 is free, but goes to a caller.
    let ask = reserve(lease);
    let reservation = a.reserve(&a.id, &ask).await.unwrap().unwrap();
    assert_eq!(reservation.nonce, nonce(2), "from the pool, not from the cursor");
    for n in 0..3 {
        let tx = intent().recycling(n);
        let outcome = a.write(section(lease).cursor(3, 3).create(tx.clone())).await;
        assert!(matches!(outcome, SectionOutcome::Stale { .. }), "I3: nonce {n}: {outcome:?}");
        assert!(!a.has(tx.tx_id).await);
    }
}

pub async fn a_transaction_frees_no_slot_but_its_own(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = a.fill(lease, 2).await;
    let theft = recycling(&a, &txs[1], 0).await;
    let before = a.record(txs[1].tx_id).await;
    let outcome = a.write(section(lease).change(theft)).await;
    let applied = matches!(&outcome, SectionOutcome::Committed { updates, .. }
        if updates[..] == [UpdateAnswer::Applied]);
    assert!(!applied, "I3: slot 0 belongs to another transaction: {outcome:?}");
    assert!(pool(&a).await.is_empty(), "I3");
    assert_eq!(a.record(txs[1].tx_id).await, before);
}

pub async fn recycled_slot_goes_to_one_of_many_transactions(fixture: &dyn StoreFixture) {
    let (owner, lease) = fixture.owner().await;
    let txs = owner.fill(lease, 1).await;
    recycle(&owner, lease, &txs[0], 0).await;
    let mut tries = Vec::new();
    for node in owner.connections(fixture, 6).await {
        let taking = section(lease).cursor(1, 1).create(intent().recycling(0));
        tries.push(node.write_aside(taking));
    }
    let mut taken = 0;
    for outcome in futures_util::future::join_all(tries).await {
        match outcome.unwrap().unwrap() {
            SectionOutcome::Committed { .. } => taken += 1,
            SectionOutcome::Stale { .. } => {}
            other => panic!("I3 is judged before the second line: {other:?}"),
        }
    }
    assert_eq!(taken, 1, "I3: one slot, one transaction");
}

pub async fn recycled_and_new_slots_can_be_opened_together(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = a.fill(lease, 3).await;
    for n in [0, 2] {
        recycle(&a, lease, &txs[n], u64::try_from(n).unwrap()).await;
    }
    let queued = a.created(lease, intent()).await;
    let mut allocate = a.change(queued.tx_id, TxEvent::SlotAllocated).await;
    allocate.slot = intent().recycling(2).slot;
    let (low, high) = (intent().recycling(0), intent().at(3));
    let mixed = section(lease).cursor(3, 4).creates([low.clone(), high.clone()]).change(allocate);
    a.write_whole(mixed).await;
    for (id, n) in [(low.tx_id, 0), (high.tx_id, 3), (queued.tx_id, 2)] {
        assert_eq!(a.record(id).await.nonce, Some(nonce(n)));
    }
    assert_eq!((pool(&a).await, a.cursor(submitter(1)).await), (vec![], 4));
}

pub async fn a_slot_whose_nonce_a_caller_holds_is_not_freed(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = a.fill(lease, 1).await;
    let ask = reserve(lease);
    let held = a.reserve(&a.id, &ask).await.unwrap().unwrap();
    assert_eq!(held.nonce, nonce(1));
    // As if the same nonce had been given to both.
    let both = format!("update nonce_reservation set nonce = 0 where {}", fixture.of(submitter(1)));
    assert_eq!(fixture.execute(&both).await, Ok(1));
    let before = a.record(txs[0].tx_id).await;
    let recycled = recycling(&a, &txs[0], 0).await;
    let outcome = a.write(section(lease).change(recycled)).await;
    assert!(matches!(outcome, SectionOutcome::Refused(_)), "I3: {outcome:?}");
    assert!(pool(&a).await.is_empty(), "I3");
    assert_eq!(a.record(txs[0].tx_id).await, before);
    let all = a.reservations(submitter(1), None, full_page()).await.unwrap();
    assert_eq!(all[0].owner_token, ask.owner_token, "it is still the caller's");
}

pub async fn a_slot_that_is_freed_again_forgets_who_used_it(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let txs = a.fill(lease, 1).await;
    recycle(&a, lease, &txs[0], 0).await;
    let next = intent().recycling(0);
    a.write_whole(section(lease).cursor(1, 1).create(next.clone())).await;
    let marked = format!(
        "update nonce_reservation set reason = 'used', owner_token = {} where {} and state = 2",
        fixture.id(next.tx_id),
        fixture.of(submitter(1))
    );
    assert_eq!(fixture.execute(&marked).await, Ok(1), "its use is on record");
    recycle(&a, lease, &next, 0).await;
    let all = a.reservations(submitter(1), None, full_page()).await.unwrap();
    let [free] = &all[..] else { panic!("{all:?}") };
    assert_eq!(free.state, ReservationState::Recyclable);
    assert_eq!((free.tx_hash, free.owner_token), (None, Uuid::nil()));
    assert_eq!(free.reason.as_ref().unwrap().as_str(), "slot recycled");
}
