//! A rolling restart under load: nobody notices.

use std::time::Duration;

use tollgate_testkit::wait;

use super::callers::Callers;
use super::pulse::Pulse;
use super::stage::{BLOCK_INTERVAL, SENDERS, Stage, ask, create};

/// The longest time of a submitter without an accepted create.
const IDLE_MAX: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_three_nodes_fails_no_request_and_leaves_no_submitter_idle() {
    let stage = Stage::set("6s", "500ms").await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(stage.node(name).await);
    }
    let callers = Callers::start(nodes.iter().map(|node| node.port).collect());
    callers.progress(5).await;
    // What this machine needs for a create while nothing happens, at worst.
    let usual = SENDERS.map(|account| callers.seen(account).slowest).max().unwrap();
    let pulse = Pulse::start(&stage.database_url).await;
    for place in 0..nodes.len() {
        let old = nodes.remove(place);
        let (name, port) = (old.name.clone(), old.port);
        old.program.signal("TERM");
        let ended = tokio::task::spawn_blocking(move || old.program.end()).await.unwrap();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        callers.progress(2).await;
        nodes.insert(place, stage.node_at(&name, port).await);
        callers.progress(2).await;
    }
    let ended = callers.end().await;
    for code in ended.repeated.keys() {
        let allowed = ["not_owner", "unavailable", "draining", "store_unavailable", "not there"];
        assert!(allowed.contains(&code.as_str()), "{:?}", ended.repeated);
    }
    for (account, seen) in &ended.accounts {
        let gaps = seen.accepted_at.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.max().unwrap();
        eprintln!("account {account}: {} creates, longest gap {longest:?}", seen.accepted_at.len());
        let bound = IDLE_MAX + usual + pulse.allowance();
        assert!(longest < bound, "account {account} was idle for {longest:?}, of {bound:?}");
    }
    stage.check(&nodes[0], &ended.accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_stop_hands_over_at_once_and_passes_requests_on_meanwhile() {
    let mut stage = Stage::set("20s", "500ms").await;
    stage.drain_wait = "10m";
    let (old, heir) = (stage.node("old").await, stage.node("heir").await);
    let mut accepted = std::collections::BTreeMap::new();
    let mut take = async |port: u16, account: usize, value: u64| {
        let body = create(account, value);
        let said = wait::until("a create to be taken", || async {
            let said = ask(port, "POST", "/api/v1/tx", &body).await.unwrap();
            match said.status {
                202 | 200 => Some(said),
                409 | 503 => None,
                _ => panic!("{said:?}"),
            }
        })
        .await;
        accepted.insert(said.body["txId"].as_str().unwrap().to_owned(), value);
        said
    };
    // No block comes until the accounts have moved: only open work has an owner.
    stage.chain.set_block_interval(None);
    for account in SENDERS {
        take(old.port, account, account as u64 + 1).await;
    }
    old.program.signal("TERM");
    // Leases of 20 s: what is not let go stays with the old one for longer than this waits.
    for account in SENDERS {
        wait::until("the heir to own it", || async {
            heir.owner_of(account).await.filter(|(owner, _)| *owner == heir.name)
        })
        .await;
    }
    stage.chain.set_block_interval(Some(BLOCK_INTERVAL));
    let ready = ask(old.port, "GET", "/readyz", "").await.unwrap();
    assert_eq!((ready.status, &ready.body["code"]), (503, &"draining".into()), "{ready:?}");
    for account in SENDERS {
        let said = take(old.port, account, account as u64 + 101).await;
        assert!(said.head.contains("tollgate-forwarded: 1"), "{said:?}");
        assert!(said.head.contains(&format!("tollgate-owner: http://127.0.0.1:{}", heir.port)));
    }
    // Told twice, it ends at once.
    old.program.signal("TERM");
    let ended = tokio::task::spawn_blocking(move || old.program.end()).await.unwrap();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    stage.check(&heir, &accepted).await;
}
