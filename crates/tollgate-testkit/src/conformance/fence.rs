//! The fence: nothing is written without the lease, and nothing lands after a takeover.
//!
//! The races are forced: a pause point stops the old owner in the middle of its transaction while its lease
//! expires and another node tries to take it over.

use std::time::Duration;

use tollgate_model::port::{
    Checkpoint, Lease, Reserve, ReturnedNonces, SectionOutcome, StoreError,
};
use tollgate_model::{NodeId, TxEvent};

use crate::builders::{
    IntentExt, SectionExt, full_page, hash, intent, moved, nonce, one_slot, reserve, section,
    submitter, text,
};
use crate::node::{TestNode, is_committed};
use crate::store_fixture::{NodeOptions, StoreFixture, StoreKind};
use crate::wait::within;

/// I2, for a writer that is paused at `at` while its lease expires and another node tries to take it over.
async fn a_held_writer_never_lands_after_a_takeover(fixture: &dyn StoreFixture, at: Checkpoint) {
    let ((a, lease), b) = (fixture.owner().await, fixture.hasty_node("b").await);
    let tx = intent().at(0);
    let late = a.hold_batch(at, section(lease).cursor(0, 1).create(tx.clone())).await;
    fixture.expire_in_flight(submitter(1)).await;

    let early = b.try_take_over(submitter(1)).await;
    let landed = late.lands().await;
    if let Some((_, cursor)) = early {
        assert!(!landed, "I2: a write of {:?} landed after the takeover", lease.token);
        assert_eq!(cursor, 0);
    }
    let (newer, cursor) = match early {
        Some(early) => early,
        None => b.take_over(submitter(1)).await,
    };
    assert!(newer.token > lease.token, "I4");
    assert_eq!(b.has(tx.tx_id).await, landed, "the answer and the rows agree");
    assert_eq!(
        cursor,
        u64::from(landed),
        "I2: the new owner sees the cursor as the old one left it"
    );

    // I3: the new owner goes on where the old one ended, and the old one nowhere.
    b.write_whole(one_slot(newer, cursor)).await;
    assert_eq!(a.write(one_slot(lease, cursor + 1)).await, SectionOutcome::Fenced, "I2");
    let rows = format!("managed_tx where {} and nonce = 0", fixture.of(submitter(1)));
    assert_eq!(fixture.count(&rows).await, 1, "I3: one slot, one transaction");
}

pub async fn a_writer_delayed_after_its_guard_cannot_land_after_a_takeover(
    fixture: &dyn StoreFixture,
) {
    a_held_writer_never_lands_after_a_takeover(fixture, Checkpoint::BatchGuarded).await;
}

pub async fn a_writer_delayed_before_commit_cannot_land_after_a_takeover(
    fixture: &dyn StoreFixture,
) {
    a_held_writer_never_lands_after_a_takeover(fixture, Checkpoint::BatchWritten).await;
}

/// The takeover must not read from a snapshot that is older than its wait.
pub async fn a_takeover_that_waited_for_a_writer_sees_what_it_wrote(fixture: &dyn StoreFixture) {
    // More than one round: a takeover may look again by itself, and then it sees enough by luck.
    for n in 1..=4 {
        let (a, b) = (fixture.node("a").await, fixture.node("b").await);
        let lease = a.own(submitter(n)).await;
        let late = a.hold_batch(Checkpoint::BatchWritten, one_slot(lease, 0)).await;
        fixture.expire_in_flight(submitter(n)).await;

        let waiting = tokio::spawn(async move { (b.take_over(submitter(n)).await, b) });
        fixture.somebody_waits_for_a_lock().await;
        let outcome = late.finish().await.unwrap();
        assert!(is_committed(&outcome), "it still held the lease: {outcome:?}");
        let ((newer, cursor), b) = within("the takeover", waiting).await.unwrap();
        assert_eq!(cursor, 1, "I2: the new owner was given a cursor from before the takeover");
        let open = b.open_work(submitter(n), None, full_page()).await.unwrap();
        assert_eq!(open.len(), 1, "the new owner goes on with what the old one wrote");
        b.write_whole(one_slot(newer, 1)).await;
    }
}

/// After a wait PostgreSQL reads the target row again, but not the rows that were checked before.
pub async fn a_writer_that_waits_for_a_row_cannot_land_after_a_takeover(
    fixture: &dyn StoreFixture,
) {
    let ((a, lease), b) = (fixture.owner().await, fixture.hasty_node("b").await);
    let tx = a.created(lease, intent()).await;
    let row = a.record(tx.tx_id).await.row;

    let touch =
        format!("update managed_tx set version = version where tx_id = {}", fixture.id(tx.tx_id));
    let stranger = fixture.begin(&touch).await;
    let late = a.write_aside(section(lease).change(moved(tx.tx_id, row, TxEvent::Held)));
    fixture.somebody_waits_for_a_lock().await;
    fixture.expire_in_flight(submitter(1)).await;
    let early = b.try_take_over(submitter(1)).await;
    stranger.release().await;
    let landed = within("the late writer", late).await.unwrap();
    let landed = landed.as_ref().is_ok_and(is_committed);
    assert!(early.is_none() || !landed, "I2: a write landed after the takeover");
    let (newer, _) = match early {
        Some(early) => early,
        None => b.take_over(submitter(1)).await,
    };
    let version = b.record(tx.tx_id).await.row.version;
    assert_eq!(version, row.version + u32::from(landed), "the answer and the row agree");
    b.step(newer, tx.tx_id, TxEvent::Withdrawn).await;
}

/// The guard must judge by what the takeover wrote.
pub async fn a_writer_that_waited_for_a_takeover_is_fenced(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let of = fixture.of(submitter(1));
    let takeover = format!(
        "update submitter_lease set owner_node = 'b', fencing_token = fencing_token + 1 where {of}"
    );
    let stranger = fixture.begin(&takeover).await;
    let late = a.write_aside(one_slot(lease, 0));
    fixture.somebody_waits_for_a_lock().await;
    stranger.commit().await;
    let outcome = within("the late writer", late).await.unwrap().unwrap();
    assert_eq!(outcome, SectionOutcome::Fenced, "I2: a write landed after the takeover");
    assert_eq!(fixture.count("managed_tx").await, 0, "I2");
}

/// The lease is checked once, under the lock.
pub async fn a_transaction_longer_than_its_lease_is_whole_and_the_last_one(
    fixture: &dyn StoreFixture,
) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let long = a.hold_batch(Checkpoint::BatchGuarded, one_slot(lease, 0)).await;
    fixture.expire_in_flight(submitter(1)).await;
    let outcome = long.finish().await.unwrap();
    assert!(is_committed(&outcome), "it still held the lease: {outcome:?}");
    assert_eq!(a.write(one_slot(lease, 1)).await, SectionOutcome::Fenced, "I2: its time is over");
    assert_eq!(b.take_over(submitter(1)).await.1, 1);
}

pub async fn a_guarded_batch_commits_whatever_its_neighbours_do(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.hasty_node("b").await);
    let (mine, other) = (a.own(submitter(1)).await, b.own(submitter(2)).await);
    let guarded = a.hold_batch(Checkpoint::BatchGuarded, one_slot(mine, 0)).await;
    let neighbour = b.try_write_one(one_slot(other, 0)).await;
    let outcome = guarded.finish().await;
    let committed = outcome.as_ref().is_ok_and(is_committed);
    assert!(committed, "I1: a batch that holds its lease was undone by a neighbour: {outcome:?}");
    match neighbour {
        Ok(outcome) => assert!(is_committed(&outcome), "{outcome:?}"),
        // Where there is one writer at a time, it is told to come back.
        Err(error) => {
            assert_eq!(fixture.kind(), StoreKind::Sqlite, "I14: a neighbour had to wait: {error}");
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            b.write_whole(one_slot(other, 0)).await;
        }
    }
}

pub async fn a_release_never_overtakes_a_batch_in_flight(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let hasty = a.again(fixture, NodeOptions::HASTY).await;
    let flying = a.hold_batch(Checkpoint::BatchWritten, one_slot(lease, 0)).await;
    let released = hasty.release(&a.id, &[lease]).await;
    let landed = flying.lands().await;
    match released {
        Ok(count) => {
            assert_eq!(count, 1, "it was the node's");
            assert!(!landed, "I2: a batch landed after its lease was released");
        }
        Err(error) => {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            assert!(landed, "it still held the lease");
            assert_eq!(a.release(&a.id, &[lease]).await.unwrap(), 1);
        }
    }
    assert_eq!(a.write(one_slot(lease, 1)).await, SectionOutcome::Fenced, "I2");
}

pub async fn a_batch_after_expiry_is_refused_even_if_nobody_took_over(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    fixture.expire(submitter(1)).await;
    let tx = intent().at(0);
    let outcome = a.write(section(lease).cursor(0, 1).create(tx.clone())).await;
    assert_eq!(outcome, SectionOutcome::Fenced, "I2: its time was over");
    assert!(!a.has(tx.tx_id).await);
    assert_eq!(a.cursor(submitter(1)).await, 0);
}

pub async fn a_lease_that_was_never_granted_writes_nothing(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    a.register(&[submitter(2)]).await;
    let unleased = Lease { submitter: submitter(2), ..lease };
    let unknown = Lease { submitter: submitter(3), ..lease };
    let ahead = Lease { token: lease.token.forward(1).unwrap(), ..lease };
    let fenced = SectionOutcome::Fenced;
    assert_eq!(b.write(one_slot(lease, 0)).await, fenced, "I1: another node's lease");
    assert_eq!(a.write(one_slot(ahead, 0)).await, fenced, "I1: a token of the future");
    assert_eq!(a.write(one_slot(unleased, 0)).await, fenced, "I1: never leased");
    assert_eq!(a.write(one_slot(unknown, 0)).await, fenced, "I1: never registered");
    assert_eq!(fixture.count("managed_tx").await, 0);
}

pub async fn every_critical_call_of_a_fenced_node_is_refused(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let ask = Reserve { hold: Duration::ZERO, ..reserve(lease) };
    a.reserve(&a.id, &ask).await.unwrap().expect("the lease is good");
    fixture.expire(submitter(1)).await;
    refuses_everything(&a, lease, &a.id, &ask).await;
    b.lease(submitter(1)).await;
    refuses_everything(&a, lease, &a.id, &ask).await;
    refuses_everything(&b, lease, &b.id, &ask).await;
    assert_eq!(a.cursor(submitter(1)).await, 1, "I2: no cursor was moved");
    let reserved = a.reservations(submitter(1), None, full_page()).await.unwrap();
    assert_eq!(reserved.len(), 1, "I2: no reservation was touched");
    assert_eq!(reserved[0].state, tollgate_model::port::ReservationState::Reserved);
}

async fn refuses_everything(node: &TestNode, lease: Lease, id: &NodeId, ask: &Reserve) {
    let fenced = StoreError::Fenced(lease.submitter);
    let (n, token) = (nonce(0), ask.owner_token);
    assert_eq!(node.reserve(id, ask).await, Err(fenced.clone()), "I2: reserve");
    let used = node.reservation_used(id, lease, n, token, hash()).await;
    assert_eq!(used, Err(fenced.clone()), "I2: used");
    let back = node.reservation_recyclable(id, lease, n, token, &text("late")).await;
    assert_eq!(back, Err(fenced.clone()), "I2: recyclable");
    assert_eq!(node.expire_reservations(id, lease).await, Err(fenced.clone()), "I2: expire");
    assert_eq!(node.retire_passed(id, lease, n).await, Err(fenced.clone()), "I2: retire");
    let adopted = node.adopt(id, lease, &[n], &text("hole")).await;
    assert_eq!(adopted, Err(fenced.clone()), "I2: adopt");
    let wanted = ReturnedNonces { nonces: vec![n], used: true, reason: text("late") };
    let handed_back = node.return_nonces(id, lease, &wanted).await;
    assert_eq!(handed_back, Err(fenced.clone()), "I2: hand back");
    assert_eq!(node.mark_private(id, lease).await, Err(fenced.clone()), "I2: mark private");
    assert_eq!(node.settle(id, lease, &[]).await, Err(fenced), "I2: settle");
    let batch = tollgate_model::port::FencedBatch::new(id.clone(), vec![one_slot(lease, 1)]);
    let outcomes = node.commit(&batch.unwrap()).await.unwrap();
    assert_eq!(outcomes, [SectionOutcome::Fenced], "I2: commit");
}
