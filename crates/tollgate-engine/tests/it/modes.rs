//! The mode of a submitter: changed by an order to its owner alone, while nothing is open.

use std::time::Duration;

use tollgate_engine::{ActError, EngineOptions, ModeChanged, ReservationLimits};
use tollgate_model::mode::CannotChangeMode;
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::Page;
use tollgate_model::{Submitter, Text};

use crate::support::{Cluster, account, id, mine_blocks, options, transfer};

fn why() -> Text<500> {
    Text::lossy("the bridge needs it")
}

async fn audited(cluster: &Cluster, of: Submitter) -> Vec<String> {
    let trail = cluster.store.submitter_history(of, 0, Page::new(100).unwrap()).await.unwrap();
    trail.into_iter().map(|entry| format!("{} {}", entry.event, entry.detail.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_change_applies_to_the_owner_at_once_and_is_audited() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let (of, window) = (account(1), 5);
    let opened = async || {
        let before = cluster.submitter(of).await.next_nonce.get();
        let creates = (0..window).map(|n| engine.create(of, None, transfer(n)));
        let created = futures_util::future::join_all(creates).await;
        let ids: Vec<_> = created.into_iter().map(|created| id(created.unwrap())).collect();
        let opened = cluster.submitter(of).await.next_nonce.get() - before;
        cluster.mine_until_final(&ids).await;
        opened
    };
    assert_eq!(opened().await, window, "pipelined");
    let (pipelined, strict) = (Mode::Pipelined, Mode::Strict);
    let changed = engine.operator().change_mode(of, strict, why()).await.unwrap();
    assert_eq!(changed, ModeChanged { was: pipelined, is: strict });
    assert_eq!(cluster.submitter(of).await.mode, strict);
    assert_eq!(opened().await, 1, "I12: one at a time, by the same worker");
    let again = engine.operator().change_mode(of, strict, why()).await.unwrap();
    assert_eq!(again, ModeChanged { was: strict, is: strict }, "safe to repeat");
    let changed = engine.operator().change_mode(of, pipelined, why()).await.unwrap();
    assert_eq!(changed, ModeChanged { was: strict, is: pipelined });
    assert_eq!(opened().await, window);
    let expected = [
        "mode_changed from pipelined to strict: the bridge needs it",
        "mode_changed from strict to pipelined: the bridge needs it",
    ];
    assert_eq!(audited(&cluster, of).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_change_with_open_or_reserved_work_is_refused_and_changes_nothing() {
    let cluster = Cluster::pipelined().await;
    let reservations = Some(ReservationLimits::default());
    let engine = cluster.node("a", EngineOptions { reservations, ..options() });
    let of = account(1);
    let tx = id(engine.create(of, None, transfer(1)).await.unwrap());
    let refused = engine.operator().change_mode(of, Mode::Strict, why()).await;
    let in_use = |open, reserved| CannotChangeMode::InUse { open, reserved }.into();
    assert_eq!(refused, Err::<ModeChanged, ActError>(in_use(1, 0)));
    cluster.mine_until_final(&[tx]).await;
    let held = engine.reservations().reserve(of, Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(engine.operator().change_mode(of, Mode::Strict, why()).await, Err(in_use(0, 1)));
    let back = engine.reservations().recyclable(of, held.nonce, held.owner_token, why()).await;
    assert!(back.is_ok(), "{back:?}");
    // The nonce that came back is below the cursor, and the chain does not have it.
    let refused = engine.operator().change_mode(of, Mode::Strict, why()).await;
    let behind = matches!(refused, Err(ActError::CannotChangeMode(CannotChangeMode::Chain(_))));
    assert!(behind, "{refused:?}");
    let tx = id(engine.create(of, None, transfer(2)).await.unwrap());
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.submitter(of).await.mode, Mode::Pipelined);
    assert!(audited(&cluster, of).await.iter().all(|entry| !entry.starts_with("mode_changed")));
    engine.operator().change_mode(of, Mode::Strict, why()).await.unwrap();
    assert_eq!(cluster.submitter(of).await.mode, Mode::Strict);
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_change_to_strict_moves_a_cursor_behind_the_chain_forward() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let of = account(1);
    let tx = id(engine.create(of, None, transfer(1)).await.unwrap());
    cluster.mine_until_final(&[tx]).await;
    cluster.chain.outsider_mines(of.address);
    engine.operator().change_mode(of, Mode::Strict, why()).await.unwrap();
    assert_eq!(cluster.submitter(of).await.next_nonce.get(), 2);
    let tx = id(engine.create(of, None, transfer(2)).await.unwrap());
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.record(tx).await.nonce.unwrap().get(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_account_made_strict_by_another_node_is_compared_with_the_chain() {
    let cluster = Cluster::pipelined().await;
    let reconcile_interval = Duration::from_millis(100);
    let nonces = NonceRules { mode: Mode::Pipelined, ..EngineOptions::default().nonces };
    let lease_idle = Duration::from_millis(100);
    let quick = EngineOptions { reconcile_interval, nonces, lease_idle, ..options() };
    let of = account(1);
    let watching = cluster.node("watching", quick.clone());
    let other = cluster.node("other", EngineOptions { lease_idle, ..options() });
    let tx = id(other.create(of, None, transfer(1)).await.unwrap());
    cluster.mine_until_final(&[tx]).await;
    other.operator().change_mode(of, Mode::Strict, why()).await.unwrap();
    other.stop().await;
    // Somebody uses the key while nobody works for the account.
    cluster.chain.outsider_mines(of.address);
    mine_blocks(&cluster, 3);
    cluster
        .eventually("PROTECT", async || {
            cluster.submitter(of).await.status == tollgate_model::nonce::SubmitterStatus::Protect
        })
        .await;
    drop(watching);
}
