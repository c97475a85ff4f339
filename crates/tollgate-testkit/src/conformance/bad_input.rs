//! Values that can't be stored are refused by name, and all others are kept to the last bit.

use std::time::Duration;

use tollgate_model::port::{
    BatchLimits, Evidence, LiveNode, Page, Payload, Schedule, SectionOutcome, StoreError,
};
use tollgate_model::{
    Bytes, GasPrice, NodeId, Nonce, RequestId, Submitter, Text, Timestamp, TxEvent,
};
use uuid::Uuid;

use crate::builders::{
    CHAIN, IntentExt, SectionExt, chain_id, confirmations, intent, mined_in, moved, nonce, section,
    setup, submitter, text,
};
use crate::node::is_committed;
use crate::store_fixture::StoreFixture;

pub async fn text_that_no_store_can_hold_is_refused_by_name(fixture: &dyn StoreFixture) {
    let long = "x".repeat(10_000);
    for bad in ["a\0b", long.as_str()] {
        assert_eq!(RequestId::new(bad).unwrap_err().field, "requestId");
        assert_eq!(Text::<500>::new("reason", bad).unwrap_err().field, "reason");
        assert_eq!(NodeId::new(bad, Uuid::nil()).unwrap_err().field, "nodeName");
    }
    assert_eq!(Page::new(0).unwrap_err().field, "limit");
    assert_eq!(Page::new(Page::MAX + 1).unwrap_err().field, "limit");
    // What the fixture said is cut to size instead, and what is left can be stored.
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent()).await;
    let mut update = a.note(tx.tx_id, "noted").await;
    let lossy: Text<2000> = Text::lossy(&format!("a\0b{}", "\u{20ac}".repeat(3_000)));
    update.last_error = Some(lossy.clone());
    a.apply(lease, update).await;
    assert_eq!(a.record(tx.tx_id).await.last_error, Some(lossy));
}

pub async fn strange_text_comes_back_as_it_went_in(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let widest = "\u{1f980}".repeat(RequestId::MAX_BYTES / 4);
    for name in ["'; drop table managed_tx; --", "%_\\\"$1 ?1 :a", " 漢字 ", "null", &widest] {
        let tx = a.created(lease, intent().named(name)).await;
        let found = a.tx_by_request(submitter(1), &tx.request_id.clone().unwrap()).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{name:?} is not found"));
        assert_eq!((found.tx_id, found.request_id), (tx.tx_id, tx.request_id));
    }
    let node = LiveNode {
        node: a.id.clone(),
        chain_id: chain_id(CHAIN),
        advertise_url: text("http://'ä'"),
        draining: true,
        serves: None,
    };
    a.heartbeat(&node).await.unwrap();
    assert_eq!(a.live_nodes(chain_id(CHAIN), Duration::from_secs(600)).await.unwrap(), [node]);
}

pub async fn the_largest_values_come_back_as_they_went_in(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let last = Submitter::new(chain_id(i64::MAX as u64), submitter(1).address);
    let mut chain = crate::builders::chain();
    chain.chain_id = last.chain_id;
    a.register_chain(&chain).await.unwrap();
    let start = i64::MAX as u64 - 1;
    let mut setup = setup(last);
    setup.start_from = nonce(start);
    a.register_submitters(&[setup]).await.unwrap();
    let lease = a.lease(last).await;
    let mut tx = intent().at(start);
    tx.payload = Payload::new(Bytes::from(vec![0xfe; BatchLimits::PAYLOAD_BYTES])).unwrap();
    let attempt = &mut tx.slot.as_mut().unwrap().attempt;
    attempt.raw = Bytes::from(vec![0xff; BatchLimits::PAYLOAD_BYTES]);
    attempt.fees.gas_limit = i64::MAX as u64;
    attempt.fees.max_fee = GasPrice::MAX;
    attempt.fees.max_priority_fee = None;
    a.write_whole(section(lease).cursor(start, start + 1).create(tx.clone())).await;
    assert_eq!(a.known(last).await.next_nonce, Nonce::MAX);
    let record = a.record(tx.tx_id).await;
    assert_eq!((&record.payload, record.nonce), (tx.payload.bytes(), Some(nonce(start))));
    let kept = a.attempts(tx.tx_id).await.unwrap().remove(0);
    let attempt = tx.slot.unwrap().attempt;
    assert_eq!((kept.raw, kept.fees), (attempt.raw, attempt.fees));

    let mut mined = mined_in(attempt.tx_hash, i64::MAX as u64);
    mined.gas_used = i64::MAX as u64;
    mined.revert_reason = Some(text(&"r".repeat(2_000)));
    let mut update = moved(tx.tx_id, record.row, TxEvent::Mined);
    update.evidence = Evidence::Set(mined.clone());
    let list = confirmations(i64::MAX as u64, BatchLimits::CONFIRMATIONS);
    update.confirmations = Some(list.clone());
    a.apply(lease, update).await;
    assert_eq!(a.record(tx.tx_id).await.mined, Some(mined));
    assert_eq!(a.confirmations(tx.tx_id).await.unwrap(), Some(list));
}

pub async fn a_time_beyond_the_database_is_cut_or_refused_by_name(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut eternal = intent();
    eternal.valid_until = Some(Timestamp::from_unix_micros(i64::MAX));
    let outcome = a.try_write_one(section(lease).create(eternal.clone())).await;
    let kept = is_kept_or_refused(outcome);
    assert_eq!(a.has(eternal.tx_id).await, kept);

    let tx = a.created(lease, intent()).await;
    let mut update = a.note(tx.tx_id, "scheduled").await;
    update.schedule = Schedule::In(Duration::MAX);
    let kept = is_kept_or_refused(a.try_write_one(section(lease).change(update)).await);
    let record = a.record(tx.tx_id).await;
    assert_eq!(record.row.version, 1 + u32::from(kept));
    if kept {
        let due = record.next_resubmit_at.expect("it was scheduled");
        assert!(due.since(record.updated_at) > Duration::from_secs(86_400 * 365), "{due:?}");
    }
}

fn is_kept_or_refused(outcome: Result<SectionOutcome, StoreError>) -> bool {
    match outcome {
        Ok(outcome) if is_committed(&outcome) => true,
        Ok(SectionOutcome::Refused(_)) | Err(StoreError::Invalid(_)) => false,
        other => panic!("neither kept nor refused by name: {other:?}"),
    }
}
