//! The way of a transaction through the store, and what may not happen to it.

use std::sync::Arc;
use std::time::Duration;

use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::{
    Acquisition, Confirmations, CreateAnswer, CursorMove, Evidence, FeedStore, GrantKind,
    LeaseStore, LeaseTerms, ListFilter, LiveNode, NewEvent, NewTx, NoCheckpoints, NodeStore, Page,
    Payload, ReservationState, ReservationStore, Reserve, RowVersion, Schedule, SectionOutcome,
    Slot, StateFilter, StatusChange, StoreError, SubmitterSetup, TxReceipt, TxStore, TxUpdate,
    UpdateAnswer,
};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{
    Address, Allocated, B256, Bytes, Failed, NodeId, Seq, Submitter, Text, Timestamp, Tracking,
    TxEvent, TxId, TxState,
};
use tollgate_sqlite::SqliteOptions;
use uuid::Uuid;

use crate::support::{Folder, START, World, acquire, new_tx, nonce, slot, submitter};

fn page() -> Page {
    Page::new(100).unwrap()
}

fn step(from: u64, to: u64) -> Option<CursorMove> {
    Some(CursorMove { from: nonce(from), to: nonce(to) })
}

fn answers(outcome: SectionOutcome) -> (Vec<CreateAnswer>, Vec<UpdateAnswer>) {
    match outcome {
        SectionOutcome::Committed { creates, updates, .. } => (creates, updates),
        other => panic!("not committed: {other:?}"),
    }
}

async fn create(world: &World, at: u64) -> NewTx {
    let tx = new_tx(Some(&format!("request-{at}")), Some(slot(at)));
    let outcome = world.commit(|section| {
        section.cursor = step(at, at + 1);
        section.creates.push(tx.clone());
    });
    assert_eq!(answers(outcome.await).0, [CreateAnswer::Created]);
    tx
}

async fn row_version(world: &World, tx_id: TxId) -> RowVersion {
    world.store.tx(tx_id).await.unwrap().unwrap().row
}

async fn apply(world: &World, tx_id: TxId, event: TxEvent, fill: impl FnOnce(&mut TxUpdate)) {
    let mut update = TxUpdate::moved(tx_id, row_version(world, tx_id).await, event).unwrap();
    fill(&mut update);
    let outcome = world.commit(|section| section.updates.push(update));
    assert_eq!(answers(outcome.await).1, [UpdateAnswer::Applied]);
}

fn mined(tx: &NewTx) -> TxReceipt {
    TxReceipt {
        tx_hash: tx.slot.as_ref().unwrap().attempt.tx_hash,
        block_number: 17,
        block_hash: B256::repeat_byte(0xb1),
        gas_used: 21_000,
        succeeded: true,
        revert_reason: None,
        details: tollgate_model::port::ReceiptDetails::default(),
    }
}

#[tokio::test]
async fn a_transaction_goes_from_its_slot_to_its_outcome() {
    let folder = Folder::new();
    let world = World::open(SqliteOptions::file(folder.database())).await;
    let tx = create(&world, 0).await;
    apply(&world, tx.tx_id, TxEvent::NodeAccepted, |update| {
        update.schedule = Schedule::In(Duration::from_secs(30));
    })
    .await;
    let list = Confirmations {
        first_block: 17,
        hashes: vec![B256::repeat_byte(0xb1); 3],
        new_fork: false,
    };
    apply(&world, tx.tx_id, TxEvent::Mined, |update| {
        update.evidence = Evidence::Set(mined(&tx));
        update.confirmations = Some(list.clone());
        update.schedule = Schedule::Never;
    })
    .await;
    apply(&world, tx.tx_id, TxEvent::Finalised(FinalOutcome::Executed), |update| {
        let key = Text::new("key", "1").unwrap();
        update.outbox = Some(NewEvent { kind: "TxConfirmed", key, body: Bytes::from("{}") });
    })
    .await;

    let record = world.store.tx(tx.tx_id).await.unwrap().unwrap();
    assert_eq!(record.row, RowVersion { state: TxState::Confirmed, version: 4 });
    assert_eq!(record.mined, Some(mined(&tx)));
    assert_eq!(record.newest_hash, Some(mined(&tx).tx_hash));
    assert_eq!((record.attempts, record.nonce), (1, Some(nonce(0))));
    assert!(record.finished_at.is_some() && record.next_resubmit_at.is_none());
    assert_eq!(world.store.confirmations(tx.tx_id).await.unwrap(), Some(list));
    let history = world.store.history(tx.tx_id, 1, page()).await.unwrap();
    let events: Vec<_> = history.iter().map(|entry| entry.event.as_str()).collect();
    assert_eq!(events, ["node_accepted", "mined", "finalised"]);
    let feed = world.store.completions(submitter().chain_id, Seq::MIN, page()).await.unwrap().items;
    assert_eq!(feed.len(), 1);
    assert_eq!((feed[0].seq.get(), feed[0].tx_id), (1, tx.tx_id));
    assert_eq!(feed[0].tx_hash, Some(mined(&tx).tx_hash));
    assert_eq!(feed[0].request_id, tx.request_id);
    assert!(
        world
            .store
            .completions(submitter().chain_id, feed[0].seq, page())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(world.store.open_work(submitter(), None, page()).await.unwrap().is_empty());
    let outbox = world.store.outbox(page()).await.unwrap();
    assert_eq!((outbox.len(), outbox[0].kind.as_str()), (1, "TxConfirmed"));
    world.store.forget_outbox(&[outbox[0].id]).await.unwrap();
    assert!(world.store.outbox(page()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_duplicate_takes_no_nonce_and_another_payload_is_a_conflict() {
    let world = World::memory().await;
    let first = create(&world, 0).await;
    let again = NewTx { tx_id: new_tx(None, None).tx_id, slot: None, ..first.clone() };
    let payload = Payload::new(Bytes::from("other")).unwrap();
    let other = NewTx { tx_id: new_tx(None, None).tx_id, payload, ..again.clone() };
    let twins = [new_tx(Some("twin"), None), new_tx(Some("twin"), None)];
    let outcome = world.commit(|section| {
        section.creates = vec![again, other, twins[0].clone(), twins[1].clone()];
    });
    let (creates, _) = answers(outcome.await);
    assert!(matches!(creates[0], CreateAnswer::Duplicate(known) if known.tx_id == first.tx_id));
    assert!(matches!(creates[1], CreateAnswer::Conflict(known) if known.tx_id == first.tx_id));
    assert_eq!(creates[2], CreateAnswer::Created);
    assert!(matches!(creates[3], CreateAnswer::Duplicate(known) if known.tx_id == twins[0].tx_id));

    let slotted = NewTx { slot: Some(slot(1)), ..new_tx(Some("request-0"), None) };
    let fresh = new_tx(Some("fresh"), Some(slot(2)));
    let outcome = world.commit(|section| {
        section.cursor = step(1, 3);
        section.creates = vec![slotted, fresh.clone()];
    });
    let SectionOutcome::Stale { cursor, status, creates, .. } = outcome.await else {
        panic!("a duplicate took a nonce")
    };
    assert_eq!((cursor, status), (nonce(1), SubmitterStatus::Active));
    assert!(matches!(creates[..], [CreateAnswer::Duplicate(_), CreateAnswer::Created]));
    assert_eq!(world.store.tx(fresh.tx_id).await.unwrap(), None);
}

#[tokio::test]
async fn what_the_writer_did_not_see_is_stale_or_lost() {
    let world = World::memory().await;
    let tx = create(&world, 0).await;
    let stale = world.commit(|section| section.cursor = step(5, 6)).await;
    assert!(matches!(stale, SectionOutcome::Stale { cursor, .. } if cursor == nonce(1)));
    let reason = Text::new("reason", "by hand").unwrap();
    let pause = |from| {
        let to = SubmitterStatus::Paused;
        Some(StatusChange { from, to, reason: reason.clone() })
    };
    let stale = world.commit(|section| section.status = pause(SubmitterStatus::Protect)).await;
    assert!(matches!(stale, SectionOutcome::Stale { .. }));
    answers(world.commit(|section| section.status = pause(SubmitterStatus::Active)).await);
    let record = world.store.submitter(submitter()).await.unwrap().unwrap();
    assert_eq!((record.status, record.status_reason), (SubmitterStatus::Paused, Some(reason)));

    let old = RowVersion { state: TxState::Allocated(Allocated::Unsent), version: 7 };
    let update = TxUpdate::moved(tx.tx_id, old, TxEvent::NodeAccepted).unwrap();
    let outcome = world.commit(|section| section.updates.push(update)).await;
    assert_eq!(answers(outcome).1, [UpdateAnswer::Lost]);
    assert_eq!(row_version(&world, tx.tx_id).await.version, 1);
}

#[tokio::test]
async fn a_section_that_breaks_a_rule_is_refused_by_name() {
    let world = World::memory().await;
    let tx = create(&world, 0).await;
    let clash = NewTx { tx_id: tx.tx_id, ..new_tx(Some("new"), None) };
    let outcome = world.commit(|section| section.creates.push(clash)).await;
    let SectionOutcome::Refused(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("managed_tx.tx_id"), "{why}");
    assert!(
        world.store.tx_by_request(submitter(), &tx.request_id.unwrap()).await.unwrap().is_some()
    );
}

#[tokio::test]
async fn a_freed_slot_goes_to_the_next_transaction() {
    let world = World::memory().await;
    let rejected = create(&world, 0).await;
    apply(&world, rejected.tx_id, TxEvent::SlotRecycled, |update| {
        update.freed_nonce = Some(nonce(0));
    })
    .await;
    let record = world.store.tx(rejected.tx_id).await.unwrap().unwrap();
    assert_eq!((record.row.state, record.nonce), (TxState::Failed(Failed::Rejected), None));
    let pool = world.store.reservations(submitter(), None, page()).await.unwrap();
    assert_eq!((pool[0].nonce, pool[0].state), (nonce(0), ReservationState::Recyclable));
    let taken = |request| new_tx(Some(request), Some(Slot { recycled: true, ..slot(0) }));
    let take = |tx| {
        world.commit(|section| {
            section.cursor = step(1, 1);
            section.creates.push(tx);
        })
    };
    let next = taken("next");
    answers(take(next.clone()).await);
    assert_eq!(world.store.tx(next.tx_id).await.unwrap().unwrap().nonce, Some(nonce(0)));
    assert!(world.store.reservations(submitter(), None, page()).await.unwrap().is_empty());
    assert!(matches!(take(taken("late")).await, SectionOutcome::Stale { .. }));
}

#[tokio::test]
async fn a_reserved_nonce_comes_back_by_its_holder_or_by_time() {
    let world = World::memory().await;
    let ask = |owner_token, outstanding_max| Reserve {
        lease: world.lease,
        owner_token,
        hold: Duration::from_secs(5),
        floor: nonce(0),
        outstanding_max,
    };
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let reserve = |token, max| {
        let ask = ask(token, max);
        let (store, node) = (world.store.clone(), world.node.clone());
        async move { store.reserve(&node, &ask).await.unwrap().map(|r| r.nonce) }
    };
    assert_eq!(reserve(one, 2).await, Some(nonce(0)));
    assert_eq!(reserve(two, 2).await, Some(nonce(1)));
    assert_eq!(reserve(one, 2).await, None);
    let (store, node, lease) = (&world.store, &world.node, world.lease);
    let why = Text::new("reason", "changed my mind").unwrap();
    assert_eq!(store.reservation_recyclable(node, lease, nonce(0), two, &why).await, Ok(None));
    let back = store.reservation_recyclable(node, lease, nonce(0), one, &why).await;
    assert!(back.unwrap().is_some());
    let hash = B256::repeat_byte(1);
    assert_eq!(store.reservation_used(node, lease, nonce(0), one, hash).await, Ok(None));
    assert!(store.reservation_used(node, lease, nonce(1), two, hash).await.unwrap().is_some());
    assert_eq!(reserve(two, 2).await, Some(nonce(0)));
    assert!(store.expire_reservations(node, lease).await.unwrap().is_empty());
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(store.expire_reservations(node, lease).await.unwrap(), [nonce(0)]);
    assert_eq!(reserve(one, 2).await, Some(nonce(0)));
    assert_eq!(reserve(two, 2).await, Some(nonce(2)));
}

#[tokio::test]
async fn leases_are_released_in_one_transaction() {
    let world = World::memory().await;
    let other = Submitter::new(submitter().chain_id, Address::repeat_byte(0xbb));
    let setup = SubmitterSetup { submitter: other, mode: Mode::Pipelined, start_from: nonce(0) };
    world.store.register_submitters(&[setup]).await.unwrap();
    let terms = LeaseTerms::default();
    let granted = world.store.acquire(other, &world.node, &terms).await.unwrap();
    let Acquisition::Granted { lease, .. } = granted else { panic!("{granted:?}") };
    // The second release fails: the first one must not be kept without it.
    let refuse = "create trigger refuse before update on submitter_lease
                  when old.submitter = x'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'
                  begin select raise(abort, 'not this one'); end";
    world.store.execute_batch(refuse).await.unwrap();
    world.store.release(&world.node, &[world.lease, lease]).await.unwrap_err();
    let owners = world.store.owners(&[submitter(), other]).await.unwrap();
    assert!(owners.iter().all(Option::is_some), "{owners:?}");
    world.store.execute_batch("drop trigger refuse").await.unwrap();
    assert_eq!(world.store.release(&world.node, &[world.lease, lease]).await.unwrap(), 2);
}

/// A list by time is bounded by the times inside of the ids, so that it does not read older rows. A row
/// whose id is older than its creation time shows the bound.
#[tokio::test]
async fn a_list_by_time_skips_rows_with_ids_from_before() {
    let folder = Folder::new();
    let world = World::open(SqliteOptions::file(folder.database())).await;
    let old_id = TxId::from_uuid(Uuid::from_u128(0x0000_0000_0001_7000_8000_0000_0000_0000));
    let tx = NewTx { tx_id: old_id, ..new_tx(None, None) };
    answers(world.commit(|section| section.creates.push(tx)).await);
    let mut filter = ListFilter::default();
    assert_eq!(world.store.list(&filter, None, page()).await.unwrap().len(), 1);
    filter.from = Some(Timestamp::from_unix_micros(START));
    assert_eq!(world.store.list(&filter, None, page()).await.unwrap(), []);
}

#[tokio::test]
async fn two_nodes_share_a_database_in_memory() {
    hand_over(World::memory().await).await;
}

#[tokio::test]
async fn two_nodes_share_a_file() {
    let folder = Folder::new();
    hand_over(World::open(SqliteOptions::file(folder.database())).await).await;
}

/// From the first node's last write to the second node's first, and back.
async fn hand_over(world: World) {
    let tx = create(&world, 0).await;
    let other = world.store.another_node(Arc::new(NoCheckpoints)).await.unwrap();
    let node = NodeId::new("b", Uuid::now_v7()).unwrap();
    let terms = LeaseTerms::default();
    let Acquisition::Held(owner) = other.acquire(submitter(), &node, &terms).await.unwrap() else {
        panic!("a valid lease was taken")
    };
    assert_eq!((owner.node, owner.token), (world.node.clone(), world.lease.token));
    let orphans = async || other.orphans(submitter().chain_id, None, 10).await.unwrap().orphans;
    assert_eq!(orphans().await, []);
    world.clock.advance(terms.duration());
    assert_eq!(orphans().await, [submitter()]);
    let owners = other.owners(&[submitter()]).await.unwrap();
    assert_eq!(owners[0].as_ref().map(|owner| owner.remaining), Some(Duration::ZERO));
    let early = other.acquire(submitter(), &node, &terms).await.unwrap();
    assert!(matches!(early, Acquisition::Held(_)));
    world.clock.advance(terms.clock_skew_allowance());
    let Acquisition::Granted { lease, kind, submitter: record } =
        other.acquire(submitter(), &node, &terms).await.unwrap()
    else {
        panic!("an expired lease was not taken")
    };
    assert_eq!((kind, lease.token.get()), (GrantKind::TakenOver, 2));
    assert_eq!(record.next_nonce, nonce(1));
    let fenced = world.commit(|section| section.cursor = step(1, 2)).await;
    assert_eq!(fenced, SectionOutcome::Fenced);
    let settled = world.store.settle(&world.node, world.lease, &[tx.tx_id]).await;
    assert_eq!(settled, Err(StoreError::Fenced(submitter())));
    let settled = other.settle(&node, lease, &[tx.tx_id, new_tx(None, None).tx_id]).await.unwrap();
    assert_eq!((settled.rows[0].map(|row| row.version), settled.rows[1]), (Some(1), None));
    assert_eq!(other.renew(&node, &[lease], &terms).await.unwrap(), [lease]);
    assert_eq!(other.release(&node, &[lease]).await.unwrap(), 1);
    assert_eq!(other.owners(&[submitter()]).await.unwrap(), [None]);
    assert_eq!(acquire(&world.store, &world.node).await.token.get(), 4);
}

#[tokio::test]
async fn lists_find_what_they_are_asked_for_newest_first() {
    let world = World::memory().await;
    let mut made = Vec::new();
    for at in 0..4 {
        made.push(create(&world, at).await.tx_id);
    }
    apply(&world, made[1], TxEvent::SlotTaken, |_| {}).await;
    apply(&world, made[2], TxEvent::NodeAccepted, |_| {}).await;
    let list = async |submitter, states, after| {
        let filter = ListFilter { submitter, states, ..Default::default() };
        let found = world.store.list(&filter, after, page()).await.unwrap();
        found.into_iter().map(|record| record.tx_id).collect::<Vec<_>>()
    };
    let unsent = TxState::Allocated(Allocated::Unsent);
    let failed = TxState::Failed(Failed::NonceTaken);
    for whose in [None, Some(submitter())] {
        let all = [made[3], made[2], made[1], made[0]];
        assert_eq!(list(whose, StateFilter::Any, None).await, all);
        assert_eq!(list(whose, StateFilter::Any, Some(made[2])).await, all[2..]);
        let of = |states: &[TxState]| StateFilter::Of(states.to_vec());
        assert_eq!(list(whose, of(&[unsent]), None).await, [made[3], made[0]]);
        assert_eq!(list(whose, of(&[failed]), None).await, [made[1]]);
        let mixed = of(&[failed, TxState::Tracking(Tracking::Pending)]);
        assert_eq!(list(whose, mixed, None).await, [made[2], made[1]]);
    }
    let open = world.store.open_work(submitter(), Some(made[0]), page()).await.unwrap();
    let open: Vec<_> = open.iter().map(|tx| (tx.record.tx_id, tx.attempts.len())).collect();
    assert_eq!(open, [(made[2], 1), (made[3], 1)]);
    let overviews = world.store.submitters(submitter().chain_id, None, page()).await.unwrap();
    assert_eq!(overviews[0].depth, [(unsent, 2), (TxState::Tracking(Tracking::Pending), 1)]);
    assert_eq!(overviews[0].owner.as_ref().map(|owner| &owner.node), Some(&world.node));
    assert!(
        world
            .store
            .submitters(submitter().chain_id, Some(submitter().address), page())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_node_is_alive_as_long_as_it_says_so() {
    let world = World::memory().await;
    let advertise_url = Text::new("advertiseUrl", "http://a").unwrap();
    let alive = LiveNode {
        node: world.node.clone(),
        chain_id: submitter().chain_id,
        advertise_url,
        draining: false,
        serves: None,
    };
    world.store.heartbeat(&alive).await.unwrap();
    let within = Duration::from_secs(10);
    assert_eq!(
        world.store.live_nodes(submitter().chain_id, within).await.unwrap(),
        std::slice::from_ref(&alive)
    );
    let owners = world.store.owners(&[submitter()]).await.unwrap();
    assert_eq!(owners[0].clone().unwrap().advertise_url.as_deref(), Some("http://a"));
    world.clock.advance(within);
    assert!(world.store.live_nodes(submitter().chain_id, within).await.unwrap().is_empty());
    world.store.heartbeat(&LiveNode { draining: true, ..alive }).await.unwrap();
    assert!(world.store.live_nodes(submitter().chain_id, Duration::MAX).await.unwrap()[0].draining);
    world.store.leave(&world.node).await.unwrap();
    assert!(world.store.live_nodes(submitter().chain_id, Duration::MAX).await.unwrap().is_empty());
}
