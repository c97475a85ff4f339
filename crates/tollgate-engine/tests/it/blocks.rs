//! The stream of stable blocks: in order, each once, whoever else is slow.

use std::time::Duration;

use tollgate_engine::{BlockStream, Engine, StableBlock};
use tollgate_model::port::chain::{BlockTag, Chain};
use tollgate_testkit::fake_chain::Reorged;
use tollgate_testkit::wait::within;

use crate::support::{Cluster, options};

async fn take(stream: &mut BlockStream, count: usize) -> Vec<StableBlock> {
    let mut blocks = Vec::new();
    for _ in 0..count {
        let next = within("a stable block", stream.next()).await;
        blocks.push(next.unwrap().expect("the engine runs"));
    }
    blocks
}

fn numbers(blocks: &[StableBlock]) -> Vec<u64> {
    blocks.iter().map(|block| block.at.number).collect()
}

/// Mines one by one, so that the engine sees each head.
async fn mine(cluster: &Cluster, engine: &Engine, count: usize) {
    for _ in 0..count {
        cluster.chain.mine();
        let head = cluster.chain.block(BlockTag::Latest).await.unwrap().unwrap().at;
        within("the head to be seen", async {
            while engine.view().head() != Some(head) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

/// A cluster whose engine has published all that is stable (three confirmations).
async fn running() -> (Cluster, Engine) {
    let (cluster, engine) = Cluster::with_node(options()).await;
    let mut stream = engine.stable_blocks(10);
    mine(&cluster, &engine, 6).await;
    while take(&mut stream, 1).await[0].at.number < 4 {}
    (cluster, engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_gets_each_block_once_it_is_stable_in_order() {
    let (cluster, engine) = running().await;
    let mut stream = engine.stable_blocks(100);
    mine(&cluster, &engine, 20).await;
    let blocks = take(&mut stream, 20).await;
    let first = blocks[0].at.number;
    assert_eq!(numbers(&blocks), (first..first + 20).collect::<Vec<_>>());
    assert!(blocks.iter().all(|block| !block.gap_potential), "{blocks:?}");
    assert!(blocks.windows(2).all(|pair| pair[0].at.hash == pair[1].at.parent));
    let head = engine.view().head().unwrap().number;
    assert_eq!(blocks[19].at.number, head - 2, "and not before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_listener_loses_its_place_and_catches_up_while_others_go_on() {
    let (cluster, engine) = running().await;
    let (mut slow, mut quick) = (engine.stable_blocks(2), engine.stable_blocks(100));
    mine(&cluster, &engine, 12).await;
    let seen = take(&mut quick, 12).await;
    assert!(seen.iter().all(|block| !block.gap_potential), "nobody waited for the slow one");
    let caught_up = take(&mut slow, 12).await;
    assert_eq!(numbers(&caught_up), numbers(&seen));
    let missed: Vec<bool> = caught_up.iter().map(|block| block.gap_potential).collect();
    assert!(!missed[0] && !missed[1] && missed[2..].iter().all(|missed| *missed), "{missed:?}");

    mine(&cluster, &engine, 2).await;
    let again = take(&mut slow, 2).await;
    assert!(again.iter().all(|block| !block.gap_potential), "in its place again: {again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorg_below_the_threshold_is_not_seen_by_listeners() {
    let (cluster, engine) = running().await;
    let mut stream = engine.stable_blocks(100);
    mine(&cluster, &engine, 4).await;
    cluster.chain.reorg(2, Reorged::Dropped);
    mine(&cluster, &engine, 4).await;
    let blocks = take(&mut stream, 7).await;
    assert!(blocks.iter().all(|block| !block.gap_potential), "{blocks:?}");
    for block in blocks {
        let canonical = cluster.chain.block(BlockTag::Number(block.at.number)).await.unwrap();
        assert_eq!(canonical.unwrap().at, block.at);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_engine() {
    let (_rig, engine) = running().await;
    let mut stream = engine.stable_blocks(10);
    drop(engine);
    while within("the end", stream.next()).await.unwrap().is_some() {}
}
