//! Reads: pages that neither skip nor repeat, and everything that a new owner needs.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    AttemptKind, Confirmations, Evidence, FinalSlot, Lease, ListFilter, NewTx, Schedule, Section,
    StateFilter, SubmitterOverview, SubmitterWait, TxRecord, WaitKind,
};
use tollgate_model::resubmit::Patience;
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{
    Allocated, Failed, Queued, StuckReason, Text, Timestamp, Tracking, TxEvent, TxId, TxState,
};

use crate::builders::{
    IntentExt, SectionExt, attempt_of, chain, full_page, hash, intent, nonce, on_other_chain,
    other_chain, page, section, submitter, tx_id,
};
use crate::node::{TestNode, all_pages};
use crate::store_fixture::StoreFixture;

pub async fn line_head_is_the_lowest_open_slot_without_a_receipt(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    assert_eq!(a.line_head(submitter(1)).await.unwrap(), None);
    a.write_whole(section(lease).create(intent())).await;
    assert_eq!(a.line_head(submitter(1)).await.unwrap(), None, "it has no slot");
    let txs = a.fill(lease, 4).await;
    let head = async || {
        let head = a.line_head(submitter(1)).await.unwrap().unwrap();
        (head.tx_id, head.nonce.get(), head.state)
    };
    a.step(lease, txs[0].tx_id, TxEvent::FundsMissing).await;
    let unfunded = TxState::Allocated(Allocated::InsufficientFunds);
    assert_eq!(head().await, (txs[0].tx_id, 0, unfunded));
    a.mine(lease, txs[0].tx_id, 7).await;
    assert_eq!(head().await.1, 1, "what is mined is in nobody's way");
    a.step(lease, txs[0].tx_id, TxEvent::Finalised(FinalOutcome::Executed)).await;
    a.step(lease, txs[1].tx_id, TxEvent::GaveUp(StuckReason::FeeCap)).await;
    assert_eq!(head().await, (txs[1].tx_id, 1, TxState::Stuck(StuckReason::FeeCap)));
    assert_eq!(a.line_head(submitter(2)).await.unwrap(), None, "nobody else's");
}

pub async fn open_work_gives_every_open_transaction_with_all_its_attempts(
    fixture: &dyn StoreFixture,
) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let other = a.own(submitter(2)).await;
    let txs = a.fill(lease, 23).await;
    a.write_whole(section(lease).creates([intent(), intent()])).await;
    a.write_whole(section(other).create(intent())).await;
    for tx in &txs[3..6] {
        for kind in [AttemptKind::Bump, AttemptKind::Cancellation] {
            let mut bump = a.note(tx.tx_id, "bumped").await;
            bump.attempt = Some(attempt_of(kind));
            a.apply(lease, bump).await;
        }
    }
    a.step(lease, txs[8].tx_id, TxEvent::GaveUp(StuckReason::FeeCap)).await;
    a.confirm(lease, txs[0].tx_id).await;
    fixture.expire(submitter(1)).await;
    b.lease(submitter(1)).await;

    let work = b.all_open_work(submitter(1), 7).await;
    assert_eq!(work.len(), 24, "I6: 25 were created and 1 has ended");
    assert!(work.is_sorted_by_key(|open| open.record.tx_id), "oldest first");
    for open in &work {
        assert_eq!(open.record, b.record(open.record.tx_id).await);
        assert_eq!(open.attempts, b.attempts(open.record.tx_id).await.unwrap(), "I5");
        assert_eq!(open.attempts.len(), usize::from(open.record.attempts), "I5");
    }
    let bumped = work.iter().filter(|open| open.attempts.len() == 3).count();
    assert_eq!(bumped, 3);
    assert_eq!(b.open_work(submitter(9), None, full_page()).await.unwrap(), []);
}

/// Submitters 1 and 2 of one chain and one of another, with transactions in many states.
async fn a_mixed_population(node: &TestNode) -> Vec<TxRecord> {
    let leases = [node.own(submitter(1)).await, node.own(submitter(2)).await];
    node.register_on(&other_chain(), &[on_other_chain(1)]).await;
    let far = node.lease(on_other_chain(1)).await;
    let mut ids = Vec::new();
    for round in 0..6 {
        for lease in leases.iter().chain([&far]) {
            ids.extend(one_of_each(node, *lease, round).await);
        }
    }
    let mut records = Vec::new();
    for id in ids {
        records.push(node.record(id).await);
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.tx_id));
    records
}

async fn one_of_each(node: &TestNode, lease: Lease, round: u64) -> Vec<TxId> {
    let first = round * 3;
    let txs: Vec<NewTx> = (first..first + 3).map(|n| intent().at(n)).chain([intent()]).collect();
    let mut queued = intent();
    queued.held = true;
    let all = txs.iter().cloned().chain([queued.clone()]);
    node.write_whole(section(lease).cursor(first, first + 3).creates(all)).await;
    node.step(lease, txs[0].tx_id, TxEvent::NodeAccepted).await;
    node.confirm(lease, txs[1].tx_id).await;
    node.step(lease, txs[3].tx_id, TxEvent::Withdrawn).await;
    txs.iter().map(|tx| tx.tx_id).chain([queued.tx_id]).collect()
}

async fn listed(node: &TestNode, filter: &ListFilter, size: u32) -> Vec<TxRecord> {
    all_pages(size, async |last: Option<&TxRecord>, page| {
        node.list(filter, last.map(|record| record.tx_id), page).await
    })
    .await
}

pub async fn lists_give_exactly_what_the_filter_says(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let all = a_mixed_population(&a).await;
    assert_eq!(all.len(), 90);
    let ids: Vec<TxId> = all.iter().map(|record| record.tx_id).chain([tx_id()]).collect();
    let rows = all.iter().map(|record| Some(record.row)).chain([None]).collect::<Vec<_>>();
    assert_eq!(a.row_versions(&ids).await.unwrap(), rows, "in the order asked, and one unknown");
    let open = vec![
        TxState::Allocated(Allocated::Unsent),
        TxState::Tracking(Tracking::Pending),
        TxState::Queued(Queued::Held),
    ];
    let failed = vec![TxState::Failed(Failed::Cancelled), TxState::Failed(Failed::Reverted)];
    let mixed = vec![TxState::Confirmed, TxState::Queued(Queued::Held)];
    let states = [
        StateFilter::Any,
        StateFilter::Of(open),
        StateFilter::Of(failed),
        StateFilter::Of(vec![TxState::Confirmed]),
        StateFilter::Of(mixed),
        StateFilter::Of(vec![]),
    ];
    let far = Some(other_chain().chain_id);
    let places = [
        (None, None),
        (far, None),
        (None, Some(submitter(2))),
        (far, Some(on_other_chain(1))),
        (None, Some(submitter(9))),
    ];
    let times = [
        (None, None),
        (Some(all[60].created_at), None),
        (Some(all[60].created_at), Some(all[20].created_at)),
    ];
    for states in &states {
        for (chain_id, submitter) in places {
            for (from, to) in times {
                let filter = ListFilter { chain_id, submitter, states: states.clone(), from, to };
                let expected: Vec<_> =
                    all.iter().filter(|record| fits(&filter, record)).cloned().collect();
                let whole = listed(&a, &filter, 1_000).await;
                let ids = |records: &[TxRecord]| -> Vec<_> {
                    records.iter().map(|record| record.tx_id).collect()
                };
                assert_eq!(ids(&whole), ids(&expected), "{filter:?}");
                assert!(whole == expected, "a listed record differs from the record itself");
                let paged = listed(&a, &filter, 4).await;
                assert_eq!(ids(&paged), ids(&expected), "in pages: {filter:?}");
            }
        }
    }
}

fn fits(filter: &ListFilter, record: &TxRecord) -> bool {
    filter.chain_id.is_none_or(|chain_id| record.submitter.chain_id == chain_id)
        && filter.submitter.is_none_or(|submitter| record.submitter == submitter)
        && match &filter.states {
            StateFilter::Any => true,
            StateFilter::Of(states) => states.contains(&record.row.state),
        }
        && filter.from.is_none_or(|from| record.created_at >= from)
        && filter.to.is_none_or(|to| record.created_at < to)
}

pub async fn pages_neither_skip_nor_repeat_while_rows_arrive_and_change(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let txs: Vec<_> = (0..40).map(|_| intent()).collect();
    a.write_whole(section(lease).creates(txs.clone())).await;
    let filter = ListFilter { submitter: Some(submitter(1)), ..ListFilter::default() };
    let mut row: Vec<TxId> = Vec::new();
    loop {
        let next = a.list(&filter, row.last().copied(), page(6)).await.unwrap();
        if next.is_empty() {
            break;
        }
        row.extend(next.iter().map(|record| record.tx_id));
        a.write_whole(section(lease).creates([intent(), intent()])).await;
        let changed = txs[row.len() % txs.len()].tx_id;
        if !a.record(changed).await.row.state.is_final() {
            a.step(lease, changed, TxEvent::Withdrawn).await;
        }
    }
    assert!(row.is_sorted_by(|newer, older| newer > older), "newest first, none twice");
    let row: HashSet<_> = row.into_iter().collect();
    assert!(txs.iter().all(|tx| row.contains(&tx.tx_id)), "none was skipped");
}

pub async fn a_transaction_that_is_not_there_is_none(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register(&[submitter(1)]).await;
    assert_eq!(a.tx(tx_id()).await.unwrap(), None);
    assert_eq!(a.submitter(submitter(2)).await.unwrap(), None);
    assert_eq!(a.list(&ListFilter::default(), Some(tx_id()), page(1)).await.unwrap(), []);
}

pub async fn submitters_are_shown_with_owner_and_load(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let order = [3, 1, 5, 2, 4];
    let all: Vec<_> = order.iter().map(|n| submitter(*n)).collect();
    a.register(&all).await;
    a.register_on(&other_chain(), &[on_other_chain(2), on_other_chain(9)]).await;
    let lease = a.lease(submitter(2)).await;
    let ids = one_of_each(&a, lease, 0).await;
    let released = a.lease(submitter(4)).await;
    a.release(&a.id, &[released]).await.unwrap();

    let paged = all_pages(2, async |last: Option<&SubmitterOverview>, page| {
        let after = last.map(|overview| overview.record.submitter.address);
        a.submitters(chain().chain_id, after, page).await
    });
    let paged = paged.await;
    let shown: Vec<_> = paged.iter().map(|overview| overview.record.submitter).collect();
    assert_eq!(shown, [1, 2, 3, 4, 5].map(submitter), "by address, and of this chain alone");
    for overview in &paged {
        assert_eq!(overview.record, a.known(overview.record.submitter).await);
        assert_eq!(overview.record.status, SubmitterStatus::Active);
        assert_eq!(overview.record.mode, Mode::Pipelined);
        if overview.record.submitter != submitter(2) {
            assert_eq!((&overview.owner, overview.oldest_open), (&None, None));
            assert_eq!(overview.depth, []);
        }
    }
    let busy = &paged[1];
    let owner = busy.owner.as_ref().expect("it is owned");
    assert_eq!((&owner.node, owner.token), (&a.id, lease.token));
    assert!(owner.remaining > Duration::ZERO);
    let mut depth = busy.depth.clone();
    depth.sort();
    let open = [
        (TxState::Queued(Queued::Held), 1),
        (TxState::Allocated(Allocated::Unsent), 1),
        (TxState::Tracking(Tracking::Pending), 1),
    ];
    assert_eq!(depth, open, "what has ended is no load");
    let mut oldest = Vec::new();
    for id in ids {
        let record = a.record(id).await;
        oldest.extend((!record.row.state.is_final()).then_some(record.created_at));
    }
    assert_eq!(busy.oldest_open, oldest.into_iter().min());
}

pub async fn open_work_tells_how_long_the_head_was_waited_for_and_whether_it_was_forked(
    fixture: &dyn StoreFixture,
) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let txs = a.fill(lease, 3).await;
    let patience = |seconds: i64, resends| {
        let since = Timestamp::from_unix_micros(1_700_000_000_000_000 + seconds * 1_000_000);
        Patience { since, resends }
    };
    for (seconds, resends) in [(1, 0), (2, 7)] {
        let mut claim = a.note(txs[0].tx_id, "resend_claimed").await;
        claim.patience = Some(patience(seconds, resends));
        a.apply(lease, claim).await;
    }
    // A change that does not speak of it keeps it.
    a.step(lease, txs[0].tx_id, TxEvent::AnswerUnclear).await;
    a.mine(lease, txs[1].tx_id, 7).await;
    let mut orphaned = a.change(txs[1].tx_id, TxEvent::Orphaned).await;
    orphaned.evidence = Evidence::Clear;
    let hashes = vec![hash()];
    orphaned.confirmations = Some(Confirmations { first_block: 7, hashes, new_fork: true });
    a.apply(lease, orphaned).await;
    let work = b.open_work(submitter(1), None, full_page()).await.unwrap();
    let known: Vec<_> = work.iter().map(|open| (open.patience, open.new_fork)).collect();
    assert_eq!(known, [(Some(patience(2, 7)), false), (None, true), (None, false)]);
}

pub async fn waits_are_kept_while_a_transaction_is_open_and_deleted_when_it_ends(
    fixture: &dyn StoreFixture,
) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let txs = a.fill(lease, 2).await;
    let since = |seconds: i64| Timestamp::from_unix_micros(1_700_000_000_000_000 + seconds);
    for tx in &txs {
        for seconds in [1, 2] {
            let mut note = a.note(tx.tx_id, "unproven").await;
            note.unproven_since = Some(since(seconds));
            note.patience = Some(Patience { since: since(seconds), resends: 1 });
            a.apply(lease, note).await;
        }
    }
    let work = b.open_work(submitter(1), None, full_page()).await.unwrap();
    assert!(work.iter().all(|open| open.unproven_since == Some(since(2))), "{work:?}");
    a.confirm(lease, txs[0].tx_id).await;
    for table in ["tx_patience", "tx_unproven"] {
        assert_eq!(fixture.count(table).await, 1, "{table} has the open one alone");
        let ended = format!("{table} where tx_id = {}", fixture.id(txs[0].tx_id));
        assert_eq!(fixture.count(&ended).await, 0, "{table}");
    }
}

pub async fn open_slots_are_read_by_nonce_in_pages(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (lease, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let txs: Vec<_> = (0..5).map(|n| intent().at(n)).collect();
    a.write_whole(section(lease).cursor(0, 7).creates(txs.clone()).create(intent().at(6))).await;
    a.write_whole(section(lease).create(intent())).await;
    a.write_whole(section(other).cursor(0, 1).create(intent().at(0))).await;
    a.confirm(lease, txs[3].tx_id).await;
    let slots = async |from: u64, limit: u32| -> Vec<u64> {
        let found = a.slots_from(submitter(1), nonce(from), page(limit)).await.unwrap();
        found.into_iter().map(|nonce| nonce.get()).collect()
    };
    assert_eq!(slots(0, 1_000).await, [0, 1, 2, 4, 6], "what is final is not open");
    assert_eq!(slots(2, 2).await, [2, 4]);
    assert_eq!(slots(4, 2).await, [4, 6]);
    assert_eq!(slots(7, 2).await, [0_u64; 0]);
}

pub async fn slots_of_a_range_are_read_with_their_states(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (lease, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let txs: Vec<_> = (0..5).map(|n| intent().at(n)).collect();
    a.write_whole(section(lease).cursor(0, 7).creates(txs.clone()).create(intent().at(6))).await;
    a.write_whole(section(lease).create(intent())).await;
    a.write_whole(section(other).cursor(0, 1).create(intent().at(0))).await;
    a.confirm(lease, txs[3].tx_id).await;
    let slots = async |from: u64, to: u64, limit: u32| {
        let range = nonce(from)..nonce(to);
        let found = a.slot_states(submitter(1), range, page(limit)).await.unwrap();
        found.iter().map(|slot| (slot.nonce.get(), slot.state.is_final())).collect::<Vec<_>>()
    };
    let open = |n: u64| (n, false);
    assert_eq!(
        slots(0, 100, 1_000).await,
        [open(0), open(1), open(2), (3, true), open(4), open(6)],
        "a nonce without a transaction is left out"
    );
    assert_eq!(slots(1, 4, 1_000).await, [open(1), open(2), (3, true)], "the end is exclusive");
    assert_eq!(slots(2, 7, 2).await, [open(2), (3, true)]);
    assert_eq!(slots(7, 9, 2).await, []);
    let found = a.slot_states(submitter(1), nonce(3)..nonce(4), page(1)).await.unwrap();
    assert_eq!(found[0].tx_id, txs[3].tx_id);
}

pub async fn final_slots_are_read_from_the_highest_down(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (lease, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let txs: Vec<_> = (0..5).map(|n| intent().at(n)).collect();
    a.write_whole(section(lease).cursor(0, 5).creates(txs.clone())).await;
    a.write_whole(section(other).cursor(0, 1).create(intent().at(0))).await;
    for place in [0, 1, 3] {
        a.confirm(lease, txs[place].tx_id).await;
    }
    let slots = async |limit: u32| {
        let found = a.final_slots(submitter(1), page(limit)).await.unwrap();
        assert!(found.iter().all(|slot| slot.block_number.is_some()), "{found:?}");
        let known = |slot: &FinalSlot| slot.tx_id == txs[slot.nonce.get() as usize].tx_id;
        assert!(found.iter().all(known), "{found:?}");
        found.into_iter().map(|slot| slot.nonce.get()).collect::<Vec<_>>()
    };
    assert_eq!(slots(1_000).await, [3, 1, 0]);
    assert_eq!(slots(1).await, [3]);
    let none = a.final_slots(submitter(2), page(1)).await.unwrap();
    assert_eq!(none, [], "another submitter's");
}

/// The time in an id is that of the request, by its node's clock; the time that counts is the commit's.
pub async fn list_by_time_finds_transactions_committed_late(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut tx = intent();
    let now = tx_id();
    let minutes = |n: i64| u64::try_from(n * 60_000).unwrap() << 16;
    let (high, low) = now.uuid().as_u64_pair();
    for id in [high - minutes(5), high + minutes(5)] {
        tx.tx_id = TxId::from_uuid(uuid::Uuid::from_u64_pair(id, low));
        a.write_whole(section(lease).create(tx.clone())).await;
        let at = a.record(tx.tx_id).await.created_at;
        let (from, to) = (Some(at), Some(at.after(Duration::from_micros(1))));
        for states in [StateFilter::Any, StateFilter::Of(vec![TxState::Queued(Queued::Waiting)])] {
            let filter = ListFilter { from, to, states, ..ListFilter::default() };
            let found = listed(&a, &filter, 10).await;
            assert_eq!(found.iter().map(|tx| tx.tx_id).collect::<Vec<_>>(), [tx.tx_id]);
        }
    }
    // A list is bounded by the times in the ids: one that is older than any request is not read.
    tx.tx_id = TxId::from_uuid(uuid::Uuid::from_u64_pair(high - minutes(60), low));
    a.write_whole(section(lease).create(tx.clone())).await;
    let from = Some(a.record(tx.tx_id).await.created_at);
    assert_eq!(listed(&a, &ListFilter { from, ..ListFilter::default() }, 10).await, []);
}

pub async fn waits_of_a_submitter_are_replaced_as_a_whole(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let (lease, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let wait = |kind, at: u64| SubmitterWait {
        kind,
        nonce: nonce(at),
        since: Timestamp::from_unix_micros(1_700_000_000_000_000),
    };
    let write = async |lease: Lease, waits: Vec<SubmitterWait>| {
        let mut section = Section::new(lease);
        section.waits = Some(waits);
        a.write_whole(section).await;
    };
    let first = [wait(WaitKind::Hole, 3), wait(WaitKind::Hole, 9), wait(WaitKind::Unexplained, 0)];
    write(lease, first.to_vec()).await;
    write(other, vec![wait(WaitKind::UnsentReservation, 1)]).await;
    assert_eq!(b.waits(submitter(1)).await.unwrap(), first);
    write(lease, first[1..2].to_vec()).await;
    assert_eq!(b.waits(submitter(1)).await.unwrap(), first[1..2]);
    write(lease, Vec::new()).await;
    assert_eq!(b.waits(submitter(1)).await.unwrap(), []);
    assert_eq!(b.waits(submitter(2)).await.unwrap().len(), 1, "nobody else's");
}

pub async fn error_of_a_transaction_is_removed_when_its_receipt_is_final(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let tx = a.created(lease, intent().at(0)).await;
    let mut note = a.note(tx.tx_id, "held").await;
    note.last_error = Some(Text::lossy("insufficient funds"));
    note.schedule = Schedule::In(Duration::from_secs(60));
    a.apply(lease, note).await;
    let held = a.record(tx.tx_id).await;
    assert!(held.last_error.is_some() && held.next_resubmit_at.is_some(), "{held:?}");
    a.confirm(lease, tx.tx_id).await;
    let done = a.record(tx.tx_id).await;
    assert_eq!((done.last_error, done.next_resubmit_at), (None, None));
}

pub async fn top_ups_of_an_account_are_read_newest_first_and_nothing_else(
    fixture: &dyn StoreFixture,
) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let (lease, other) = (a.own(submitter(1)).await, a.own(submitter(2)).await);
    let (first, second) = (intent().named("topup:1:0x7:1"), intent().named("topup:1:0x8:1"));
    for tx in [&first, &second] {
        a.write_whole(section(lease).create(tx.clone())).await;
    }
    let names = ["order-1", "Topup:1", "x-topup:1:0x7:2", "topup"];
    a.write_whole(section(lease).creates(names.map(|name| intent().named(name)))).await;
    a.write_whole(section(lease).create(intent())).await;
    a.write_whole(section(other).create(intent().named("topup:1:0x7:3"))).await;
    a.step(lease, first.tx_id, TxEvent::Withdrawn).await;

    let found = b.top_ups(submitter(1), full_page()).await.unwrap();
    let ids: Vec<TxId> = found.iter().map(|record| record.tx_id).collect();
    assert_eq!(ids, [second.tx_id, first.tx_id], "final ones too");
    assert_eq!(found[1], b.record(first.tx_id).await);
    let newest = b.top_ups(submitter(1), page(1)).await.unwrap();
    assert_eq!(newest, found[..1]);
    assert_eq!(b.top_ups(submitter(3), full_page()).await.unwrap(), []);
}
