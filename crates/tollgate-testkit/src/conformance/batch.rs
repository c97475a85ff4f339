//! The fenced batch: what is written, what is not, and the outcome of the neighbouring sections.

use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{BatchLimits, CreateAnswer, SectionOutcome, StatusChange, TxRecord};
use tollgate_model::{Allocated, Queued, Timestamp, TxEvent, TxState};

use crate::builders::{
    IntentExt, SectionExt, attempt, intent, nonce, one_slot, section, submitter, text,
};
use crate::node::is_committed;
use crate::store_fixture::StoreFixture;

pub async fn a_create_with_a_slot_is_kept_as_it_was_given(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut tx = intent().at(0).named("order-1");
    tx.valid_until = Some(Timestamp::from_unix_micros(1_900_000_000_123_456));
    a.write_whole(section(lease).cursor(0, 1).create(tx.clone())).await;

    let record = a.record(tx.tx_id).await;
    let slot = tx.slot.unwrap();
    assert_eq!(record.submitter, submitter(1));
    assert_eq!((record.request_id, record.nonce), (tx.request_id, Some(nonce(0))));
    assert_eq!((&record.payload, record.payload_digest), (tx.payload.bytes(), tx.payload.digest()));
    assert_eq!(record.row.state, TxState::Allocated(Allocated::Unsent));
    assert_eq!((record.row.version, record.fencing_token), (1, lease.token));
    assert_eq!((record.attempts, record.newest_hash), (1, Some(slot.attempt.tx_hash)));
    assert_eq!((record.next_resubmit_at, record.resubmits), (None, 0));
    assert_eq!((record.last_error, record.mined, record.finished_at), (None, None, None));
    assert_eq!(record.valid_until, tx.valid_until);

    let attempts = a.attempts(tx.tx_id).await.unwrap();
    assert_eq!(attempts.len(), 1, "I5: durable with the slot");
    let kept = &attempts[0];
    assert_eq!((kept.tx_id, kept.number), (tx.tx_id, 1));
    assert_eq!((kept.tx_hash, &kept.raw), (slot.attempt.tx_hash, &slot.attempt.raw));
    assert_eq!((kept.kind, kept.fees), (slot.attempt.kind, slot.attempt.fees));
    assert_eq!(a.cursor(submitter(1)).await, 1);
}

pub async fn a_create_without_a_slot_is_queued(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let (waiting, mut held) = (intent(), intent());
    held.held = true;
    a.write_whole(section(lease).create(waiting.clone()).create(held.clone())).await;
    for (tx, sub_state) in [(waiting, Queued::Waiting), (held, Queued::Held)] {
        let record = a.record(tx.tx_id).await;
        assert_eq!(record.row.state, TxState::Queued(sub_state));
        assert_eq!((record.nonce, record.attempts, record.newest_hash), (None, 0, None));
    }
    assert_eq!(a.cursor(submitter(1)).await, 0, "no nonce was used");
}

pub async fn empty_batches_and_sections_are_committed(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    assert_eq!(a.write_all(vec![]).await, []);
    a.write_whole(section(lease)).await;
    a.write_whole(section(lease).cursor(0, 0)).await;
    fixture.expire(submitter(1)).await;
    assert_eq!(a.write(section(lease)).await, SectionOutcome::Fenced, "I2: even nothing is fenced");
}

/// I3, I4: the cursor moves by comparison, with slots or without.
pub async fn a_cursor_that_is_elsewhere_makes_the_section_stale(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(section(lease).cursor(0, 7)).await;
    assert_eq!(a.cursor(submitter(1)).await, 7, "reconciliation may skip what others used");
    for (from, n) in [(0, 0), (6, 6), (8, 8)] {
        let tx = intent().at(n);
        let queued = intent();
        let stale = section(lease).cursor(from, n + 1).create(tx.clone()).create(queued.clone());
        let expected = SectionOutcome::Stale {
            cursor: nonce(7),
            status: SubmitterStatus::Active,
            creates: vec![CreateAnswer::Created; 2],
            updates: vec![],
        };
        assert_eq!(a.write(stale).await, expected, "I3");
        assert!(!a.has(tx.tx_id).await && !a.has(queued.tx_id).await, "all of it or none");
    }
    a.write_whole(one_slot(lease, 7)).await;
    assert_eq!(a.cursor(submitter(1)).await, 8);
}

/// I12: a pause or PROTECT stops a writer that has not read it yet.
pub async fn a_submitter_that_takes_no_work_opens_no_slot(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let queued = a.created(lease, intent()).await;
    let active = SubmitterStatus::Active;
    let mut last = active;
    for status in [SubmitterStatus::Paused, SubmitterStatus::Protect, active] {
        let mut change = section(lease);
        change.status = Some(StatusChange { from: last, to: status, reason: text("why") });
        a.write_whole(change.clone()).await;
        let record = a.known(submitter(1)).await;
        assert_eq!(record.status, status);
        if status == active {
            break;
        }
        assert_eq!(record.status_reason, Some(text("why")));
        let mut allocate = a.change(queued.tx_id, TxEvent::SlotAllocated).await;
        allocate.slot = intent().at(0).slot;
        for opens in [one_slot(lease, 0), section(lease).cursor(0, 1).change(allocate)] {
            let outcome = a.write(opens).await;
            let SectionOutcome::Stale { cursor, status: told, .. } = outcome else {
                panic!("I12: a slot was opened in {status:?}: {outcome:?}")
            };
            assert_eq!((cursor, told), (nonce(0), status));
        }
        // By comparison: the same change again does not fit.
        assert!(matches!(a.write(change).await, SectionOutcome::Stale { .. }));
        a.write_whole(section(lease).create(intent())).await;
        last = status;
    }
    a.write_whole(one_slot(lease, 0)).await;
}

pub async fn many_submitters_share_a_batch_and_a_fenced_one_is_left_out(
    fixture: &dyn StoreFixture,
) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    // Not in the order of addresses.
    let order = [7, 2, 9, 4, 1, 8, 3, 6, 5];
    let leases = a.own_all(order).await;
    fixture.expire(submitter(9)).await;
    fixture.expire(submitter(3)).await;
    b.lease(submitter(3)).await;
    let sections = leases.iter().map(|lease| one_slot(*lease, 0)).collect();
    let outcomes = a.write_all(sections).await;
    for (n, outcome) in order.iter().zip(&outcomes) {
        if [9, 3].contains(n) {
            assert_eq!(*outcome, SectionOutcome::Fenced, "I2: submitter {n}");
        } else {
            assert!(is_committed(outcome), "I14: submitter {n}: {outcome:?}");
        }
        let expected = u64::from(![9, 3].contains(n));
        assert_eq!(a.cursor(submitter(*n)).await, expected, "submitter {n}");
    }
    assert_eq!(fixture.count("managed_tx").await, 7);
}

pub async fn neighbours_of_a_stale_section_commit(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (first, second) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let outcomes = a.write_all(vec![one_slot(first, 5), one_slot(second, 0)]).await;
    assert!(matches!(outcomes[0], SectionOutcome::Stale { .. }), "{outcomes:?}");
    assert!(is_committed(&outcomes[1]), "{outcomes:?}");
}

pub async fn neighbours_of_a_section_that_the_database_refuses_commit(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let leases = a.own_all(1..=4).await;
    let known = a.created(leases[0], intent().at(0)).await;

    let mut same_id = intent().at(0);
    same_id.tx_id = known.tx_id;
    let mut same_hash = intent().at(0);
    same_hash.slot.as_mut().unwrap().attempt.tx_hash = known.slot.unwrap().attempt.tx_hash;
    let (good, other) = (intent().at(1), intent().at(0));
    let outcomes = a
        .write_all(vec![
            section(leases[0]).cursor(1, 2).create(good.clone()),
            section(leases[1]).cursor(0, 1).create(same_id),
            section(leases[2]).cursor(0, 1).create(same_hash.clone()),
            section(leases[3]).cursor(0, 1).create(other.clone()),
        ])
        .await;
    assert!(is_committed(&outcomes[0]) && is_committed(&outcomes[3]), "I14: {outcomes:?}");
    for outcome in &outcomes[1..3] {
        let SectionOutcome::Refused(why) = outcome else { panic!("refused: {outcomes:?}") };
        let named = why.contains("managed_tx") || why.contains("tx_attempt");
        assert!(named, "the constraint is named: {why}");
    }
    assert!(a.has(good.tx_id).await && a.has(other.tx_id).await);
    assert!(!a.has(same_hash.tx_id).await, "all of it or none");
    assert_eq!(a.record(known.tx_id).await.submitter, submitter(1), "the first one stays");
    for (n, cursor) in [(1, 2), (2, 0), (3, 0), (4, 1)] {
        assert_eq!(a.cursor(submitter(n)).await, cursor, "submitter {n}");
    }
}

/// I14: a row that is missing for one submitter is no reason to refuse the others.
pub async fn neighbours_of_a_section_without_a_cursor_row_commit(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let leases = a.own_all(1..=3).await;
    let gone = format!("delete from submitter_cursor where {}", fixture.of(submitter(2)));
    assert_eq!(fixture.execute(&gone).await, Ok(1));
    let named = |n: usize| intent().at(0).named(&format!("request-{n}"));
    let txs = [named(1), named(2), named(3)];
    let sections = leases.iter().zip(&txs);
    let sections = sections.map(|(lease, tx)| section(*lease).cursor(0, 1).create(tx.clone()));
    let outcomes = a.write_all(sections.collect()).await;
    assert!(is_committed(&outcomes[0]) && is_committed(&outcomes[2]), "I14: {outcomes:?}");
    assert!(matches!(outcomes[1], SectionOutcome::Refused(_)), "{outcomes:?}");
    for (tx, outcome) in txs.iter().zip(&outcomes) {
        assert_eq!(a.has(tx.tx_id).await, is_committed(outcome), "{outcome:?}");
    }
}

pub async fn clashing_sections_are_written_at_most_once(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (first, second) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let shared = attempt();
    let mut txs = [intent().at(0), intent().at(0)];
    for tx in &mut txs {
        tx.slot.as_mut().unwrap().attempt = shared.clone();
    }
    let sections = vec![
        section(first).cursor(0, 1).create(txs[0].clone()),
        section(second).cursor(0, 1).create(txs[1].clone()),
    ];
    let outcomes = a.write_all(sections).await;
    let mut written = 0;
    for ((outcome, tx), n) in outcomes.iter().zip(&txs).zip(1..) {
        let committed = is_committed(outcome);
        assert!(committed || matches!(outcome, SectionOutcome::Refused(_)), "{outcome:?}");
        assert_eq!(a.has(tx.tx_id).await, committed, "the answer and the rows agree");
        assert_eq!(a.cursor(submitter(n)).await, u64::from(committed));
        written += usize::from(committed);
    }
    assert_eq!(written, 1, "the first to come is not harmed by the second: {outcomes:?}");
}

pub async fn a_batch_of_the_largest_size_is_written_whole(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let count = u64::try_from(BatchLimits::OPS).unwrap();
    let creates = (0..count).map(|n| intent().at(n).named(&format!("request-{n}")));
    a.write_whole(section(lease).cursor(0, count).creates(creates)).await;
    assert_eq!(a.cursor(submitter(1)).await, count);
    assert_eq!(fixture.count("managed_tx").await, i64::try_from(count).unwrap());
    assert_eq!(fixture.count("tx_attempt").await, i64::try_from(count).unwrap());
    assert_eq!(fixture.count("tx_history").await, i64::try_from(count).unwrap());
}

/// The caller of a create is answered without reading the row back.
pub async fn a_commit_tells_when_its_creates_were_accepted(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let (first, second) = (intent().at(0).named("order"), intent());
    let creates = [first.clone(), second.clone()];
    match a.write(section(lease).cursor(0, 1).creates(creates)).await {
        SectionOutcome::Committed { at, .. } => {
            for tx in [first, second] {
                assert_eq!(a.record(tx.tx_id).await, TxRecord::accepted(&tx, lease, at));
            }
        }
        other => panic!("not committed: {other:?}"),
    }
}
