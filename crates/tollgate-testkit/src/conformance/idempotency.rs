//! One request, one transaction (I7), and one slot, one transaction (I3), under any concurrency.

use futures_util::future::join_all;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{CreateAnswer, KnownRequest, Lease, SectionOutcome};

use crate::builders::{IntentExt, SectionExt, intent, nonce, request, section, submitter};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;

pub async fn the_same_request_again_is_answered_with_the_first_transaction(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let first = a.created(lease, intent().named("order-1").paying("10")).await;
    let known = KnownRequest { tx_id: first.tx_id, payload_digest: first.payload.digest() };

    let again = intent().named("order-1").paying("10");
    let other = intent().named("order-1").paying("11");
    let fresh = intent().named("order-2").paying("10");
    let outcome =
        a.write(section(lease).creates([again.clone(), other.clone(), fresh.clone()])).await;
    let answers =
        vec![CreateAnswer::Duplicate(known), CreateAnswer::Conflict(known), CreateAnswer::Created];
    assert_eq!(outcome.answers(), Some((answers, vec![])), "I7");
    assert!(!a.has(again.tx_id).await && !a.has(other.tx_id).await && a.has(fresh.tx_id).await);
}

pub async fn one_request_id_names_a_transaction_of_each_submitter(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (first, second) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let (one, two) = (intent().named("order"), intent().named("order"));
    a.write_whole(section(first).create(one.clone())).await;
    a.write_whole(section(second).create(two.clone())).await;
    let name = request("order");
    let asked = [
        (submitter(2), name.clone()),
        (submitter(1), request("another")),
        (submitter(1), name.clone()),
        (submitter(3), name.clone()),
    ];
    let known = a.known_requests(&asked).await.unwrap();
    let ids: Vec<_> = known.iter().map(|known| known.map(|known| known.tx_id)).collect();
    assert_eq!(ids, [Some(two.tx_id), None, Some(one.tx_id), None], "in the order asked");
    assert_eq!(known[2].unwrap().payload_digest, one.payload.digest());
    assert_eq!(a.known_requests(&[]).await.unwrap(), []);
    let record = a.tx_by_request(submitter(1), &name).await.unwrap().unwrap();
    assert_eq!(record, a.record(one.tx_id).await);
    assert_eq!(a.tx_by_request(submitter(3), &name).await.unwrap(), None);
}

pub async fn duplicates_inside_one_batch_make_one_transaction(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let first = intent().named("order").paying("10");
    let again = intent().named("order").paying("10");
    let other = intent().named("order").paying("11");
    let unnamed = [intent().paying("10"), intent().paying("10")];
    let known = KnownRequest { tx_id: first.tx_id, payload_digest: first.payload.digest() };
    let all = [first.clone(), again, other, unnamed[0].clone(), unnamed[1].clone()];
    let outcome = a.write(section(lease).creates(all)).await;
    let answers = vec![
        CreateAnswer::Created,
        CreateAnswer::Duplicate(known),
        CreateAnswer::Conflict(known),
        CreateAnswer::Created,
        CreateAnswer::Created,
    ];
    assert_eq!(outcome.answers(), Some((answers, vec![])), "I7");
    assert_eq!(fixture.count("managed_tx").await, 3);
}

/// A duplicate with a slot would leave a hole, so nothing is written; without one it is answered.
pub async fn a_duplicate_consumes_no_nonce(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let first = a.created(lease, intent().at(0).named("order").paying("10")).await;
    let known = KnownRequest { tx_id: first.tx_id, payload_digest: first.payload.digest() };

    let (slotted, fresh) = (intent().at(1).named("order").paying("10"), intent().at(2));
    let outcome = a.write(section(lease).cursor(1, 3).creates([slotted, fresh.clone()])).await;
    let stale = SectionOutcome::Stale {
        cursor: nonce(1),
        status: SubmitterStatus::Active,
        creates: vec![CreateAnswer::Duplicate(known), CreateAnswer::Created],
        updates: vec![],
    };
    assert_eq!(outcome, stale, "I7: a duplicate would have used nonce 1");
    assert!(!a.has(fresh.tx_id).await && a.cursor(submitter(1)).await == 1);

    let (queued, fresh) = (intent().named("order").paying("10"), intent().at(1));
    let outcome = a.write(section(lease).cursor(1, 2).creates([queued, fresh.clone()])).await;
    let answers = vec![CreateAnswer::Duplicate(known), CreateAnswer::Created];
    assert_eq!(outcome.answers(), Some((answers, vec![])));
    assert_eq!(a.record(fresh.tx_id).await.nonce, Some(nonce(1)));
}

pub async fn a_hundred_creates_of_one_request_make_one_transaction(fixture: &dyn StoreFixture) {
    let (owner, lease) = fixture.owner().await;
    let connections = owner.connections(fixture, 5).await;
    let callers = (0..100).map(|n| {
        let node = connections[n % connections.len()].clone();
        tokio::spawn(async move {
            let tx = intent().named("order").paying("10");
            create_in_next_slot(&node, lease, |cursor| tx.clone().at(cursor)).await
        })
    });
    let answers: Vec<_> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    let created = answers.iter().filter(|answer| **answer == CreateAnswer::Created).count();
    assert_eq!(created, 1, "I7: one request, one transaction");
    let record = owner.tx_by_request(submitter(1), &request("order")).await.unwrap().unwrap();
    for answer in answers {
        if let CreateAnswer::Duplicate(known) = answer {
            assert_eq!(known.tx_id, record.tx_id, "I7: all are told of the same one");
        } else {
            assert_eq!(answer, CreateAnswer::Created, "the payloads are equal");
        }
    }
    assert_eq!(fixture.count("managed_tx").await, 1, "I7");
    assert_eq!(owner.cursor(submitter(1)).await, 1, "I7: duplicates use no nonce");
}

pub async fn a_thousand_concurrent_creates_get_consecutive_nonces(fixture: &dyn StoreFixture) {
    let (owner, lease) = fixture.owner().await;
    let connections = owner.connections(fixture, 16).await;
    let writers = connections.into_iter().enumerate().map(|(writer, node)| {
        // 16 writers share 1,000.
        let share = if writer < 8 { 63 } else { 62 };
        tokio::spawn(async move {
            for _ in 0..share {
                let tx = intent();
                let answer =
                    create_in_next_slot(&node, lease, |cursor| tx.clone().at(cursor)).await;
                assert_eq!(answer, CreateAnswer::Created);
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    assert_eq!(owner.cursor(submitter(1)).await, 1_000);
    let mut nonces = Vec::new();
    for tx in owner.all_open_work(submitter(1), 300).await {
        nonces.push(tx.record.nonce.unwrap().get());
        assert_eq!(tx.attempts.len(), 1, "I5");
    }
    nonces.sort_unstable();
    assert!(nonces.into_iter().eq(0..1_000), "I3: strictly consecutive from 0, none twice");
}

/// Creates as a writer without a cache does: reads the cursor, tries, and allocates again when it has moved.
async fn create_in_next_slot(
    node: &TestNode,
    lease: Lease,
    tx_at: impl Fn(u64) -> tollgate_model::port::NewTx,
) -> CreateAnswer {
    let mut cursor = node.cursor(lease.submitter).await;
    loop {
        let tx = tx_at(cursor);
        match node.write(section(lease).cursor(cursor, cursor + 1).create(tx)).await {
            SectionOutcome::Committed { creates, .. } => return creates[0],
            SectionOutcome::Stale { cursor: next, creates, .. } => {
                if creates[0] != CreateAnswer::Created {
                    return creates[0];
                }
                assert!(next.get() >= cursor, "I4: the cursor went back");
                cursor = next.get();
            }
            other => panic!("the lease is good: {other:?}"),
        }
    }
}

pub async fn a_second_row_for_a_slot_is_refused_by_the_database_itself(fixture: &dyn StoreFixture) {
    let refused = copy_of_a_row(fixture, "null", "nonce").await;
    assert!(refused.is_err(), "I3: a second transaction in one slot");
}

pub async fn a_second_row_for_a_request_is_refused_by_the_database_itself(
    fixture: &dyn StoreFixture,
) {
    let refused = copy_of_a_row(fixture, "request_id", "nonce + 1").await;
    assert!(refused.is_err(), "I7: a second transaction for one request");
}

/// Inserts a copy of a row under another id, without the store.
async fn copy_of_a_row(
    fixture: &dyn StoreFixture,
    request_id: &str,
    nonce: &str,
) -> Result<u64, String> {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().at(0).named("order")).await;
    let copy = |request_id: &str, nonce: &str| {
        let id = fixture.id(crate::builders::tx_id());
        let of = fixture.id(tx.tx_id);
        format!(
            "insert into managed_tx (tx_id, chain_id, submitter, request_id, nonce, payload,
                                     payload_digest, state, version, fencing_token, attempts,
                                     created_at, updated_at)
             select {id}, chain_id, submitter, {request_id}, {nonce}, payload, payload_digest, state,
                    version, fencing_token, attempts, created_at, updated_at
               from managed_tx where tx_id = {of}"
        )
    };
    let harmless = fixture.execute(&copy("null", "nonce + 100")).await;
    assert_eq!(harmless, Ok(1), "the statement itself is right");
    fixture.execute(&copy(request_id, nonce)).await
}
