//! Changes of a transaction: by comparison with what the writer read, each with its entry of history.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::port::{
    AttemptKind, Evidence, FencedBatch, HistoryEntry, ListFilter, ReceiptDetails, Schedule,
    SectionOutcome, TxReceipt, TxUpdate, UpdateAnswer,
};
use tollgate_model::{
    Address, Failed, GasPrice, StuckReason, Timestamp, TxEvent, TxState, U256, Wei,
};

use crate::builders::{
    IntentExt, SectionExt, attempt_of, confirmations, full_page, hash, intent, mined_in, moved,
    nonce, section, submitter, text, tx_id,
};
use crate::node::all_pages;
use crate::store_fixture::StoreFixture;

pub async fn a_change_of_a_row_that_moved_is_lost_and_changes_nothing(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let (tx, other) = (intent(), intent());
    a.write_whole(section(lease).creates([tx.clone(), other.clone()])).await;
    let old = a.record(tx.tx_id).await.row;
    a.step(lease, tx.tx_id, TxEvent::Held).await;
    let now = a.record(tx.tx_id).await;
    let lost = moved(tx.tx_id, old, TxEvent::Withdrawn);
    let absent = moved(tx_id(), old, TxEvent::Withdrawn);
    let good = moved(other.tx_id, old, TxEvent::Held);
    let outcome = a.write(section(lease).change(lost).change(good).change(absent)).await;
    let updates = vec![UpdateAnswer::Lost, UpdateAnswer::Applied, UpdateAnswer::Lost];
    assert_eq!(outcome.answers(), Some((vec![], updates)));
    assert_eq!(a.record(tx.tx_id).await, now, "what was lost changed nothing");
    assert_eq!(fixture.count("tx_completion").await, 0);
}

pub async fn a_change_compares_the_state_as_well_as_the_version(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent()).await;
    let mut wrong = a.record(tx.tx_id).await.row;
    wrong.state = TxState::Queued(tollgate_model::Queued::Held);
    let outcome = a.write(section(lease).change(moved(tx.tx_id, wrong, TxEvent::Unheld))).await;
    assert_eq!(outcome.answers(), Some((vec![], vec![UpdateAnswer::Lost])));
}

pub async fn a_lease_changes_no_transaction_of_another_submitter(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (mine, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let tx = a.created(other, intent()).await;
    let before = a.record(tx.tx_id).await;
    let theft = moved(tx.tx_id, before.row, TxEvent::Withdrawn);
    let mut slot_theft = moved(tx.tx_id, before.row, TxEvent::SlotAllocated);
    slot_theft.slot = intent().at(0).slot;
    let outcome = a.write(section(mine).change(theft)).await;
    assert_eq!(outcome.answers(), Some((vec![], vec![UpdateAnswer::Lost])), "I1");
    let outcome = a.write(section(mine).cursor(0, 1).change(slot_theft)).await;
    assert!(matches!(outcome, SectionOutcome::Stale { .. }), "I1: {outcome:?}");
    assert_eq!(a.record(tx.tx_id).await, before);
}

pub async fn concurrent_changes_of_one_version_are_applied_once(fixture: &dyn StoreFixture) {
    let (owner, lease) = fixture.owner().await;
    let tx = owner.created(lease, intent()).await;
    let claimants = owner.connections(fixture, 6).await;
    for version in 1..=10 {
        let row = owner.record(tx.tx_id).await.row;
        let claims = claimants.iter().map(|claimant| {
            let claim = TxUpdate::noted(tx.tx_id, row, "resubmit_claimed");
            claimant.write(section(lease).change(claim))
        });
        let won = join_all(claims).await.into_iter().filter(|outcome| match outcome {
            SectionOutcome::Committed { updates, .. } => updates[0] == UpdateAnswer::Applied,
            other => panic!("the lease is good: {other:?}"),
        });
        assert_eq!(won.count(), 1, "I11: an action was claimed by two at version {version}");
        assert_eq!(owner.record(tx.tx_id).await.row.version, version + 1);
    }
}

pub async fn a_change_keeps_what_it_brings_and_leaves_the_rest(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().at(0)).await;
    let created = a.record(tx.tx_id).await;

    let mut sent = moved(tx.tx_id, created.row, TxEvent::AnswerUnclear);
    sent.schedule = Schedule::In(Duration::from_secs(3_600));
    sent.last_error = Some(text("connection reset"));
    sent.diagnosis = Some(text("probably lost"));
    a.apply(lease, sent).await;
    let record = a.record(tx.tx_id).await;
    let due = record.next_resubmit_at.expect("it was scheduled");
    let hour = due.since(record.updated_at);
    assert!(hour.abs_diff(Duration::from_secs(3_600)) < Duration::from_secs(30), "{hour:?}");
    assert_eq!(record.last_error, Some(text("connection reset")));
    assert_eq!((created.diagnosis, &record.diagnosis), (None, &Some(text("probably lost"))));
    assert_eq!((record.nonce, record.attempts), (Some(nonce(0)), 1));
    assert_eq!(record.created_at, created.created_at);

    let bump = attempt_of(AttemptKind::Bump);
    let mut again = TxUpdate::noted(tx.tx_id, record.row, "bumped");
    again.attempt = Some(bump.clone());
    again.resubmitted = true;
    a.apply(lease, again).await;
    let record = a.record(tx.tx_id).await;
    assert_eq!((record.resubmits, record.attempts), (1, 2));
    assert_eq!(record.newest_hash, Some(bump.tx_hash));
    assert_eq!(record.next_resubmit_at, Some(due), "kept");
    assert_eq!(record.last_error, Some(text("connection reset")), "kept");
    assert_eq!(record.diagnosis, Some(text("probably lost")), "kept");
    let attempts = a.attempts(tx.tx_id).await.unwrap();
    let hashes: Vec<_> = attempts.iter().map(|attempt| attempt.tx_hash).collect();
    assert_eq!(hashes, [created.newest_hash.unwrap(), bump.tx_hash], "I5: all are kept, in order");
    assert_eq!((attempts[1].number, attempts[1].kind), (2, AttemptKind::Bump));

    let mut never = TxUpdate::noted(tx.tx_id, record.row, "unscheduled");
    never.schedule = Schedule::Never;
    never.diagnosis = Some(text("in the pool"));
    a.apply(lease, never).await;
    let record = a.record(tx.tx_id).await;
    assert_eq!((record.next_resubmit_at, record.diagnosis), (None, Some(text("in the pool"))));
    let found = a.open_work(submitter(1), None, full_page()).await.unwrap();
    assert_eq!(found[0].record.diagnosis, Some(text("in the pool")), "in every view");
    let found = a.list(&ListFilter::default(), None, full_page()).await.unwrap();
    assert_eq!(found[0].diagnosis, Some(text("in the pool")), "in every view");
}

pub async fn a_receipt_is_set_replaced_and_cleared(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().at(0)).await;
    a.step(lease, tx.tx_id, TxEvent::NodeAccepted).await;
    let tx_hash = tx.slot.unwrap().attempt.tx_hash;
    let reverted = TxReceipt {
        succeeded: false,
        revert_reason: Some(text("no \"funds\"")),
        ..mined_in(tx_hash, 101)
    };
    let deployed = TxReceipt {
        details: ReceiptDetails {
            transaction_index: Some(u32::MAX),
            effective_gas_price: Some(GasPrice::MAX),
            l1_fee: Some(Wei(U256::MAX)),
            contract_address: Some(Address::repeat_byte(0xc0)),
            block_time: Some(Timestamp::from_unix_micros(1_700_000_000_000_000)),
        },
        ..mined_in(tx_hash, 102)
    };
    // A node that tells nothing else; what another block's receipt said is not its own.
    let bare = TxReceipt { details: ReceiptDetails::default(), ..mined_in(tx_hash, 103) };
    for mined in [mined_in(tx_hash, 100), reverted, deployed, bare] {
        let mut update = a.change(tx.tx_id, TxEvent::Mined).await;
        update.evidence = Evidence::Set(mined.clone());
        update.confirmations = Some(confirmations(mined.block_number, 3));
        let list = update.confirmations.clone();
        a.apply(lease, update).await;
        assert_eq!(a.record(tx.tx_id).await.mined, Some(mined.clone()));
        let open = a.open_work(lease.submitter, None, full_page()).await.unwrap();
        assert_eq!(open[0].record.mined, Some(mined.clone()), "in every view");
        let page = a.list(&ListFilter::default(), None, full_page()).await.unwrap();
        assert_eq!(page[0].mined, Some(mined), "in every view");
        assert_eq!(a.confirmations(tx.tx_id).await.unwrap(), list, "replaced as a whole");
    }
    let mut orphaned = a.change(tx.tx_id, TxEvent::Orphaned).await;
    orphaned.evidence = Evidence::Clear;
    let mut list = confirmations(99, 1);
    list.new_fork = true;
    orphaned.confirmations = Some(list.clone());
    a.apply(lease, orphaned).await;
    assert_eq!(a.record(tx.tx_id).await.mined, None);
    assert_eq!(a.confirmations(tx.tx_id).await.unwrap(), Some(list));
    assert_eq!(a.confirmations(tx_id()).await.unwrap(), None);
}

pub async fn a_queued_transaction_is_given_a_slot_once(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent()).await;
    let row = a.record(tx.tx_id).await.row;
    let mut allocate = moved(tx.tx_id, row, TxEvent::SlotAllocated);
    allocate.slot = intent().at(0).slot;
    a.write_whole(section(lease).cursor(0, 1).change(allocate.clone())).await;
    let record = a.record(tx.tx_id).await;
    let slot = allocate.slot.unwrap();
    assert_eq!((record.nonce, record.attempts), (Some(nonce(0)), 1));
    assert_eq!(record.newest_hash, Some(slot.attempt.tx_hash));

    let mut again = moved(tx.tx_id, row, TxEvent::SlotAllocated);
    again.slot = intent().at(1).slot;
    let outcome = a.write(section(lease).cursor(1, 2).change(again)).await;
    let SectionOutcome::Stale { cursor, updates, .. } = outcome else {
        panic!("I3: a slot for a row that moved would be a hole: {outcome:?}")
    };
    assert_eq!((cursor, updates), (nonce(1), vec![UpdateAnswer::Lost]));
    assert_eq!(a.cursor(submitter(1)).await, 1);
}

pub async fn history_has_exactly_one_line_for_each_version(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let tx = a.created(lease, intent().at(0)).await;
    a.step(lease, tx.tx_id, TxEvent::NodeAccepted).await;
    let mut claim = a.note(tx.tx_id, "resubmit_claimed").await;
    claim.detail = Some(text("by the rule \u{201c}1 minute\u{201d}"));
    a.apply(lease, claim).await;
    fixture.expire(submitter(1)).await;
    let newer = b.lease(submitter(1)).await;
    b.step(newer, tx.tx_id, TxEvent::GaveUp(StuckReason::TimedOut)).await;
    b.confirm(newer, tx.tx_id).await;

    let history = b.history(tx.tx_id, 0, full_page()).await.unwrap();
    let record = b.record(tx.tx_id).await;
    assert!(history.iter().map(|entry| entry.version).eq(1..=record.row.version));
    assert_eq!(record.fencing_token, newer.token);
    let events: Vec<_> = history[1..].iter().map(|entry| entry.event.as_str()).collect();
    let named = ["node_accepted", "resubmit_claimed", "gave_up", "mined", "finalised"];
    assert_eq!(events, named);
    assert_eq!((history[0].from, history[0].to), (None, tx.initial_state()));
    for pair in history.windows(2) {
        assert_eq!(pair[1].from, Some(pair[0].to), "each line begins where the last ended");
        assert!(pair[1].at >= pair[0].at);
    }
    assert_eq!(history.last().unwrap().to, record.row.state);
    for (entry, (node, lease)) in
        history.iter().zip([(&a, lease); 3].iter().chain([&(&b, newer); 3]))
    {
        assert_eq!((&entry.node, entry.token), (&node.id, lease.token), "{entry:?}");
    }
    assert_eq!(history[2].detail, Some(text("by the rule \u{201c}1 minute\u{201d}")));
    let paged = all_pages(4, async |last: Option<&HistoryEntry>, page| {
        b.history(tx.tx_id, last.map_or(0, |entry| entry.version), page).await
    });
    assert_eq!(paged.await, history);
    assert_eq!(b.history(tx_id(), 0, full_page()).await.unwrap(), []);
}

pub async fn a_transaction_ends_once(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().named("order")).await;
    let open = a.record(tx.tx_id).await.row;
    a.step(lease, tx.tx_id, TxEvent::Withdrawn).await;
    let ended = a.record(tx.tx_id).await;
    assert_eq!(ended.row.state, TxState::Failed(Failed::Cancelled));
    assert!(ended.finished_at.is_some());

    let late = moved(tx.tx_id, open, TxEvent::Refused);
    let outcome = a.write(section(lease).change(late)).await;
    assert_eq!(outcome.answers(), Some((vec![], vec![UpdateAnswer::Lost])), "I9");
    let note = section(lease).change(TxUpdate::noted(tx.tx_id, ended.row, "explained"));
    assert_eq!(FencedBatch::new(a.id.clone(), vec![note]).unwrap_err().field, "update");

    let after = a.record(tx.tx_id).await;
    assert_eq!(after.row.state, ended.row.state);
    assert_eq!(after.finished_at, ended.finished_at, "it ended when it ended");
    assert_eq!(fixture.count("tx_completion").await, 1, "I10: one outcome");
    let history = a.history(tx.tx_id, 0, full_page()).await.unwrap();
    assert!(history.iter().map(|entry| entry.version).eq(1..=after.row.version));
}

pub async fn every_attempts_hash_leads_to_its_transaction(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().at(0)).await;
    let bump = attempt_of(AttemptKind::Bump);
    let mut update = a.note(tx.tx_id, "bumped").await;
    update.attempt = Some(bump.clone());
    a.apply(lease, update).await;
    let first = tx.slot.unwrap().attempt.tx_hash;
    let mut found = a.tx_ids_by_hash(&[hash(), bump.tx_hash, hash(), first]).await.unwrap();
    found.sort();
    let mut expected = vec![(first, tx.tx_id), (bump.tx_hash, tx.tx_id)];
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(a.tx_ids_by_hash(&[]).await.unwrap(), []);
    assert_eq!(a.attempts(tx_id()).await.unwrap(), []);
}
