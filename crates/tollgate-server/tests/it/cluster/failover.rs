//! Nodes that die or freeze under load: the others go on, and what wakes up is harmless.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_testkit::wait;

use super::callers::Callers;
use super::pulse::Pulse;
use super::stage::{Node, SENDERS, Stage};

/// Accounts that a node owns, once every account is where it should be.
async fn owned_by(of: &Node, stage: &Stage, nodes: [&Node; 2]) -> Vec<usize> {
    wait::until("every account to be where it should be", || async {
        for account in SENDERS {
            let (owner, _) = of.owner_of(account).await?;
            (owner == stage.preferred(account, nodes)).then_some(())?;
        }
        Some(())
    })
    .await;
    SENDERS.filter(|account| stage.preferred(*account, nodes) == of.name).collect()
}

/// Two nodes under load, the first of which owns something; ports are random, so it may be the other.
async fn two(stage: &Stage) -> (Node, Node, Vec<usize>, Callers) {
    let (a, b) = (stage.node("a").await, stage.node("b").await);
    let callers = Callers::start(vec![a.port, b.port]);
    callers.progress(5).await;
    let of_a = owned_by(&a, stage, [&a, &b]).await;
    if !of_a.is_empty() {
        return (a, b, of_a, callers);
    }
    let of_b = owned_by(&b, stage, [&a, &b]).await;
    (b, a, of_b, callers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_nodes_submitters_are_served_again_within_the_lease_and_a_second() {
    const LEASE: Duration = Duration::from_secs(3);
    let stage = Stage::set("3s", "1s").await;
    let (doomed, heir, lost, callers) = two(&stage).await;
    // What this machine needs for a create while nothing happens, at worst.
    let usual = SENDERS.map(|account| callers.seen(account).slowest).max().unwrap();
    let pulse = Pulse::start(&stage.database_url).await;
    doomed.program.signal("KILL");
    let killed = Instant::now();
    let first = |account: usize| {
        callers.seen(account).accepted_at.into_iter().find(|at| *at > killed + usual)
    };
    for account in &lost {
        let at = wait::until("the other node to serve it", || async { first(*account) }).await;
        let took = at - killed;
        let bound = LEASE + Duration::from_secs(1) + usual * 2 + pulse.allowance();
        eprintln!("account {account}: served again after {took:?}, of {bound:?}");
        assert!(took < bound, "{took:?}, of {bound:?}");
        assert_eq!(heir.owner_of(*account).await.unwrap().0, heir.name);
    }
    let ended = callers.end().await;
    stage.check(&heir, &ended.accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_slept_past_its_lease_is_fenced_and_comes_back_clean() {
    let stage = Stage::set("2s", "500ms").await;
    let (sleeper, other, owned, callers) = two(&stage).await;
    let account = owned[0];
    let (_, token) = other.owner_of(account).await.unwrap();
    sleeper.program.signal("STOP");
    let taken = wait::until("the other node to take over", || async {
        other.owner_of(account).await.filter(|(owner, _)| *owner == other.name)
    })
    .await;
    assert!(taken.1 > token, "I4: {taken:?} after {token}");
    let before = callers.count(account);
    wait::until("the other node to serve it", || async {
        (callers.count(account) >= before + 5).then_some(())
    })
    .await;
    sleeper.program.signal("CONT");
    sleeper.program.line_with("fenced").await;
    wait::until("it to be ready", || async { sleeper.is_ready().await.then_some(()) }).await;
    // A clean node: what should be its own comes back to it, and is served.
    wait::until("its account to come back", || async {
        other
            .owner_of(account)
            .await
            .filter(|(owner, now)| *owner == sleeper.name && *now > taken.1)
    })
    .await;
    let before = callers.count(account);
    wait::until("it to serve its account", || async {
        (callers.count(account) >= before + 5).then_some(())
    })
    .await;
    let ended = callers.end().await;
    stage.check(&sleeper, &ended.accepted).await;
}
