//! Somebody else has the key.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_engine::{ActError, Engine, EngineOptions};
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::chain::{AccountCounts, CountSupport};
use tollgate_model::port::{AlertKind, Page};
use tollgate_model::reconcile::CannotResume;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Failed, Nonce, Queued, StuckReason, TxId, TxState};
use tollgate_testkit::fake_chain::{FakeChain, Query, Reorged, TxMatch};

use crate::support::{
    Cluster, PENDING, account, mine_blocks, options, pending, reason, strict, transfers,
};

const TAKEN: TxState = TxState::Failed(Failed::NonceTaken);
const UNPROVEN: TxState = TxState::Stuck(StuckReason::Unproven);
const HELD: TxState = TxState::Queued(Queued::Held);

fn watchful(options: EngineOptions) -> EngineOptions {
    EngineOptions { reconcile_interval: Duration::from_millis(300), ..options }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_goes_on_behind_what_an_outsider_used() {
    let (cluster, engine) = Cluster::with_node(watchful(options())).await;
    let first = transfers(&engine, [10]).await;
    cluster.mine_until_final(&first).await;
    cluster.chain.outsider_mines(account(1).address);
    cluster
        .eventually("the cursor follows", async || {
            cluster.submitter(account(1)).await.next_nonce.get() == 2
        })
        .await;
    let next = transfers(&engine, [11, 12]).await;
    cluster.mine_until_final(&next).await;
    assert_eq!(cluster.paid(account(1)), [10, 0, 11, 12], "nothing twice, nothing lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_an_outsider_took_ends_as_nonce_taken_and_the_rest_goes_on() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", watchful(options()));
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[1], "was with a node", |tx| tx.row.state == PENDING).await;
    let foreign = cluster.chain.outsider_mines(account(1).address);
    cluster.chain.mine();
    // Mined, but not settled: a reorg may still put ours there.
    cluster
        .eventually("it is row", async || !cluster.alerts.of(AlertKind::NonceTaken).is_empty())
        .await;
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "I8");
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TAKEN);
    assert_eq!(cluster.record(ids[1]).await.row.state, TxState::Confirmed);
    assert_eq!(cluster.alerts.of(AlertKind::NonceTaken).len(), 2, "row, and then settled");
    let last = cluster.history(ids[0]).await.pop().unwrap();
    assert!(last.detail.unwrap().as_str().contains(&foreign.to_string()), "who took it is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_slot_is_called_taken_while_an_endpoint_is_silent() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.set_endpoints(2);
    cluster.chain.silence_endpoint(1, true);
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", watchful(options()));
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.outsider_mines(account(1).address);
    for _ in 0..8 {
        cluster.chain.mine();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "one of two is not enough");
    cluster.chain.silence_endpoint(1, false);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TAKEN);
}

/// One of two endpoints counts nothing for ever, and it was the only one that answered when the slots were
/// assigned: an outsider had used them before. The other one's count has to be proven first.
#[tokio::test(flavor = "multi_thread")]
async fn used_slots_end_as_nonce_taken_although_one_endpoint_counts_too_little_for_ever() {
    let cluster = Cluster::pipelined().await;
    let of = account(1).address;
    for _ in 0..3 {
        cluster.chain.outsider_mines(of);
    }
    cluster.chain.set_endpoints(2);
    cluster.chain.endpoint_counts_nothing(1);
    let at = |count| Nonce::new(count).unwrap();
    let none = AccountCounts::confirmed(Nonce::MIN, Nonce::MIN);
    cluster.chain.script_counts(of, Some(none));
    let engine = cluster.node("a", watchful(options()));
    let mut ids = transfers(&engine, [10, 11, 12]).await;
    assert_eq!(cluster.submitter(account(1)).await.next_nonce, at(3), "slots that are used");
    let disputed = AccountCounts { highest: at(3), support: CountSupport::Open, ..none };
    cluster.chain.script_counts(of, Some(disputed));
    let wanted = cluster.chain.proofs_wanted();
    cluster.eventually("proof", async || cluster.chain.proofs_wanted() > wanted).await;
    cluster.chain.script_counts(of, Some(AccountCounts::confirmed(at(3), at(3))));
    cluster.mine_until_final(&ids).await;
    for id in &ids {
        assert_eq!(cluster.record(*id).await.row.state, TAKEN, "I15");
    }
    cluster.chain.script_counts(of, None);
    ids = transfers(&engine, [13]).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_is_protected_within_one_interval_takes_nothing_and_goes_on_when_resumed() {
    let (cluster, engine) = Cluster::strict_with_node(watchful(strict())).await;
    let first = transfers(&engine, [10]).await;
    cluster.mine_until_final(&first).await;
    cluster.chain.outsider_mines(account(1).address);
    // Mined, but not settled: it may still go, and until then no slot is opened.
    let held = transfers(&engine, [11, 12]).await;
    let told = engine.operator().reconcile(account(1)).await.unwrap().steps;
    assert!(told[0].starts_with("ask again"), "{told:?}");
    assert_eq!(cluster.submitter(account(1)).await.status, SubmitterStatus::Active);
    mine_blocks(&cluster, 3);
    cluster
        .eventually("PROTECT", async || {
            cluster.submitter(account(1)).await.status == SubmitterStatus::Protect
        })
        .await;
    cluster.eventually("an alert", async || cluster.alerts.of(AlertKind::Protect).len() == 1).await;
    cluster.until(held[1], "is held", |tx| tx.row.state == HELD).await;
    cluster.chain.mine();
    assert_eq!(cluster.submitter(account(1)).await.next_nonce.get(), 1, "I12: takes nothing");
    engine.operator().resume(account(1), reason("it was me")).await.unwrap();
    cluster.mine_until_final(&held).await;
    assert_eq!(cluster.paid(account(1)), [10, 0, 11, 12]);
    assert_eq!(cluster.submitter(account(1)).await.status_reason.unwrap().as_str(), "it was me");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_submitter_without_work_is_watched_as_well() {
    let cluster = Cluster::with_mode(Mode::Strict).await;
    let lease_idle = Duration::from_millis(100);
    let engine = cluster.node("a", EngineOptions { lease_idle, ..watchful(strict()) });
    cluster.chain.outsider_mines(account(2).address);
    mine_blocks(&cluster, 3);
    cluster
        .eventually("PROTECT", async || {
            cluster.submitter(account(2)).await.status == SubmitterStatus::Protect
        })
        .await;
    assert_eq!(cluster.submitter(account(1)).await.status, SubmitterStatus::Active);
    drop(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_strict_slot_that_an_outsider_took_protects_and_ends_together() {
    let cluster = Cluster::with_mode(Mode::Strict).await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", watchful(strict()));
    let ids = transfers(&engine, [10, 11]).await;
    cluster.until(ids[0], "was with a node", |tx| tx.row.state == PENDING).await;
    cluster.chain.outsider_mines(account(1).address);
    cluster.mine_until_final(&ids[..1]).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TAKEN);
    assert_eq!(cluster.submitter(account(1)).await.status, SubmitterStatus::Protect);
    cluster.until(ids[1], "is held", |tx| tx.row.state == HELD).await;
    engine.operator().resume(account(1), reason("known")).await.unwrap();
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [0, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_that_lost_final_transactions_is_resumed_once_it_counts_them_again() {
    let (cluster, engine) = Cluster::strict_with_node(strict()).await;
    let of = account(1);
    let mut ids = transfers(&engine, [10, 11]).await;
    cluster.mine_until_final(&ids).await;
    let hashes = [cluster.record(ids[0]).await, cluster.record(ids[1]).await];
    // Deeper than finality: the chain forgets what was final.
    cluster.chain.reorg(cluster.chain.height(), Reorged::Dropped);
    engine.operator().reconcile(of).await.unwrap();
    assert_eq!(cluster.submitter(of).await.status, SubmitterStatus::Protect);
    let refused = engine.operator().resume(of, reason("try")).await;
    let Err(ActError::CannotResume(CannotResume::SentAgain { resent: 2, .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(cluster.submitter(of).await.status, SubmitterStatus::Protect);
    let page = Page::new(Page::MAX).unwrap();
    let trail = cluster.store.submitter_history(of, 0, page).await.unwrap();
    let detail = trail.last().unwrap().detail.as_ref().unwrap().as_str();
    assert_eq!(detail, "2 final transactions that left the chain are sent again: try");
    mine_blocks(&cluster, 5);
    engine.operator().resume(of, reason("again")).await.unwrap();
    ids = transfers(&engine, [12]).await;
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(of), [10, 11, 12], "the same transactions, once each");
    for before in hashes {
        assert_eq!(cluster.record(before.tx_id).await.row, before.row, "I9");
    }
}

/// Each change to PROTECT is an event of its own, and an owner that takes over tells of it as well.
#[tokio::test(flavor = "multi_thread")]
async fn each_protect_raises_an_alert_and_so_does_the_next_owner() {
    let (cluster, engine) = Cluster::strict_with_node(watchful(strict())).await;
    let of = account(1);
    let status = async || cluster.submitter(of).await.status;
    for round in 1..=2 {
        cluster.chain.outsider_mines(of.address);
        mine_blocks(&cluster, 5);
        cluster.eventually("PROTECT", async || status().await == SubmitterStatus::Protect).await;
        let raised = async || cluster.alerts.of(AlertKind::Protect).len() == round;
        cluster.eventually("an alert for each", raised).await;
        if round == 1 {
            engine.operator().resume(of, reason("it was me")).await.unwrap();
        }
    }
    engine.stop().await;
    let next = cluster.node("b", watchful(strict()));
    next.operator().reconcile(of).await.unwrap();
    let raised = async || cluster.alerts.of(AlertKind::Protect).len() == 3;
    cluster.eventually("the next owner tells", raised).await;
    let alerts = cluster.alerts.of(AlertKind::Protect);
    assert_eq!(alerts[2].detail, alerts[1].detail, "with the stored reason");
}

/// Blocks that pass while nobody looks: more than are read at a time where there are no old states.
const OUTAGE: usize = 40;

fn short_of_patience() -> EngineOptions {
    let options = watchful(options());
    let grey_zone_timeout = Duration::from_millis(1_500);
    let resubmit = ResubmitRules { grey_zone_timeout, ..options.resubmit };
    EngineOptions { resubmit, lookback_blocks: 8, ..options }
}

/// Five payments that were executed while no node ran, whose receipts every endpoint has pruned
/// since; and the node that takes over.
async fn executed_and_pruned(
    cluster: &Cluster,
    prune: impl FnOnce(&FakeChain),
) -> (Engine, Vec<TxId>) {
    let engine = cluster.node("a", short_of_patience());
    let ids = pending(cluster, &engine, 10..15).await;
    engine.stop().await;
    mine_blocks(cluster, OUTAGE);
    cluster.chain.lose_receipts(true);
    prune(&cluster.chain);
    (cluster.node("b", short_of_patience()), ids)
}

/// They are STUCK for what can't be proven, people are told, and whoever comes next is served.
async fn unproven_in_nobodys_way(cluster: &Cluster, engine: &Engine, ids: &[TxId], detail: &str) {
    for id in ids {
        cluster.until(*id, "was unproven", |tx| tx.row.state == UNPROVEN).await;
        let last = cluster.history(*id).await.pop().unwrap();
        assert!(last.detail.as_ref().unwrap().as_str().contains(detail), "{last:?}");
    }
    let alerts = cluster.alerts.of(AlertKind::Stuck);
    assert!(alerts.iter().all(|alert| alert.detail.starts_with("unproven")), "{alerts:?}");
    cluster
        .eventually("an alert for each", async || {
            let told: BTreeSet<_> =
                cluster.alerts.of(AlertKind::Stuck).iter().map(|a| a.tx_id).collect();
            told.len() == ids.len()
        })
        .await;
    assert!(cluster.alerts.of(AlertKind::NonceTaken).is_empty(), "nobody took anything");
    // New blocks are read as ever.
    let later = transfers(engine, [99]).await;
    cluster.mine_until_final(&later).await;
    assert_eq!(cluster.record(later[0]).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn executed_payments_with_pruned_receipts_are_never_called_taken_and_end_once_proven() {
    let cluster = Cluster::pipelined().await;
    let (engine, ids) = executed_and_pruned(&cluster, |_| {}).await;
    unproven_in_nobodys_way(
        &cluster,
        &engine,
        &ids,
        "which is ours, and no endpoint has its receipt",
    )
    .await;
    // Evidence still moves them.
    cluster.chain.lose_receipts(false);
    cluster.mine_until_final(&ids).await;
    for id in &ids {
        assert_eq!(cluster.record(*id).await.row.state, TxState::Confirmed);
    }
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13, 14, 99], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_in_which_nobody_shows_a_transaction_are_never_called_taken() {
    let cluster = Cluster::pipelined().await;
    let silent = |chain: &FakeChain| chain.fail(Query::Occupants, true);
    let (engine, ids) = executed_and_pruned(&cluster, silent).await;
    unproven_in_nobodys_way(&cluster, &engine, &ids, "nobody shows by what").await;
    cluster.chain.lose_receipts(false);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.paid(account(1)), [10, 11, 12, 13, 14, 99], "executed once");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_transaction_far_below_the_view_is_found_and_ends_the_slot() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.hold(TxMatch::Value(10));
    let engine = cluster.node("a", short_of_patience());
    let ids = pending(&cluster, &engine, [10]).await;
    engine.stop().await;
    let foreign = cluster.chain.outsider_mines(account(1).address);
    // More than the view of a new node holds.
    mine_blocks(&cluster, 200);
    let _heir = cluster.node("b", short_of_patience());
    cluster.until(ids[0], "was taken", |tx| tx.row.state == TAKEN).await;
    let last = cluster.history(ids[0]).await.pop().unwrap();
    assert!(last.detail.unwrap().as_str().contains(&foreign.to_string()), "who took it is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn create_does_not_wait_for_a_search_that_hangs() {
    let cluster = Cluster::pipelined().await;
    let (engine, ids) = executed_and_pruned(&cluster, FakeChain::hang_searches).await;
    let later = transfers(&engine, [99]).await;
    cluster.mine_until_final(&later).await;
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "it is still looked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_count_that_lags_delays_and_never_protects() {
    let (cluster, engine) = Cluster::strict_with_node(watchful(strict())).await;
    let first = transfers(&engine, [10]).await;
    cluster.mine_until_final(&first).await;
    // The endpoints that are asked for counts have not seen the block of the first one.
    cluster.chain.lag_counts(cluster.chain.height());
    let second = transfers(&engine, [11]).await;
    for _ in 0..3 {
        let told = engine.operator().reconcile(account(1)).await.unwrap().steps;
        assert!(told[0].starts_with("ask again"), "{told:?}");
    }
    assert_eq!(cluster.submitter(account(1)).await.status, SubmitterStatus::Active);
    cluster.chain.lag_counts(0);
    cluster.mine_until_final(&second).await;
    assert_eq!(cluster.paid(account(1)), [10, 11]);
    assert!(cluster.alerts.of(AlertKind::Protect).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_view_that_lags_below_a_final_slot_never_protects() {
    let cluster = Cluster::with_mode(Mode::Strict).await;
    let before = 5;
    mine_blocks(&cluster, before);
    let engine = cluster.node("a", watchful(strict()));
    let first = transfers(&engine, [10]).await;
    cluster.mine_until_final(&first).await;
    engine.stop().await;
    // A new node, all of whose endpoints are behind the block of a slot that is final.
    let behind = cluster.chain.height() - before;
    cluster.chain.hide_newest(behind);
    cluster.chain.lag_counts(behind);
    let heir = cluster.node("b", watchful(strict()));
    let second = transfers(&heir, [11]).await;
    cluster.eventually("the view is there", async || heir.view().head().is_some()).await;
    for _ in 0..3 {
        heir.operator().reconcile(account(1)).await.unwrap();
    }
    assert_eq!(cluster.submitter(account(1)).await.status, SubmitterStatus::Active);
    cluster.chain.hide_newest(0);
    cluster.chain.lag_counts(0);
    cluster.mine_until_final(&second).await;
    assert_eq!(cluster.paid(account(1)), [10, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_goes_on_if_a_reorg_undoes_what_an_outsider_used() {
    let (cluster, engine) = Cluster::strict_with_node(watchful(strict())).await;
    let first = transfers(&engine, [10]).await;
    cluster.mine_until_final(&first).await;
    cluster.chain.outsider_mines(account(1).address);
    let second = transfers(&engine, [11]).await;
    let told = engine.operator().reconcile(account(1)).await.unwrap().steps;
    assert!(told[0].starts_with("ask again"), "{told:?}");
    cluster.chain.reorg(1, Reorged::Dropped);
    cluster.mine_until_final(&second).await;
    assert_eq!(cluster.paid(account(1)), [10, 11]);
    assert_eq!(cluster.submitter(account(1)).await.status, SubmitterStatus::Active);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_transaction_without_receipts_is_not_called_foreign() {
    let (cluster, engine) = Cluster::with_node(watchful(options())).await;
    let ids = pending(&cluster, &engine, [10]).await;
    engine.stop().await;
    mine_blocks(&cluster, 5);
    // Settled, and every endpoint says that it has no receipt of ours.
    cluster.chain.lose_receipts(true);
    let engine = cluster.node("b", watchful(options()));
    for _ in 0..3 {
        engine.operator().reconcile(account(1)).await.unwrap();
    }
    assert!(!cluster.record(ids[0]).await.row.state.is_final(), "it is in the block all the same");
    cluster.chain.lose_receipts(false);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TxState::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_in_a_block_that_left_the_chain_does_not_keep_a_taken_slot_open() {
    let cluster = Cluster::pipelined().await;
    cluster.chain.set_endpoints(3);
    let engine = cluster.node("a", watchful(options()));
    let ids = pending(&cluster, &engine, [10]).await;
    cluster.chain.mine();
    cluster.until(ids[0], "was mined", |tx| tx.mined.is_some()).await;
    let receipt = cluster.record(ids[0]).await.mined.unwrap();
    cluster.chain.hold(TxMatch::Value(10));
    cluster.chain.reorg(1, Reorged::Dropped);
    cluster.until(ids[0], "left its block", |tx| tx.mined.is_none()).await;
    cluster.chain.show_orphaned(receipt);
    cluster.chain.outsider_mines(account(1).address);
    cluster.mine_until_final(&ids).await;
    assert_eq!(cluster.record(ids[0]).await.row.state, TAKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_with_an_unproven_slot_goes_on_over_takeovers() {
    const SECOND: Duration = Duration::from_secs(1);
    let cluster = Cluster::pipelined().await;
    let grey_zone_timeout = 60 * SECOND;
    let options = watchful(options());
    let resubmit = ResubmitRules { grey_zone_timeout, ..options.resubmit };
    let options = EngineOptions { resubmit, lookback_blocks: 8, ..options };
    let engine = cluster.node("a", options.clone());
    let ids = pending(&cluster, &engine, [10]).await;
    engine.stop().await;
    drop(engine);
    mine_blocks(&cluster, OUTAGE);
    cluster.chain.lose_receipts(true);
    cluster.chain.fail(Query::Occupants, true);
    let mut engine = cluster.node("heir", options.clone());
    cluster
        .eventually("a search in vain is written down", async || {
            cluster.history(ids[0]).await.iter().any(|entry| entry.event == "unproven")
        })
        .await;
    for _ in 0..3 {
        cluster.clock.advance(25 * SECOND);
        engine.stop().await;
        drop(engine);
        engine = cluster.node("heir", options.clone());
    }
    cluster.until(ids[0], "was unproven", |tx| tx.row.state == UNPROVEN).await;
    let noted = cluster.history(ids[0]).await;
    let noted = noted.iter().filter(|entry| entry.event == "unproven").count();
    assert_eq!(noted, 1, "no owner begins anew");
}
