//! No connection to the database is to be had: the node's own are all taken, or the server's are.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_testkit::pg_proxy::PgProxy;
use tollgate_testkit::postgres::{Client, connect};
use tollgate_testkit::wait;

use super::duo::{Duo, assert_prompt, stage, tell, timed};
use crate::cluster::stage::SENDERS;

/// The length of the outage: longer than a lease.
const HELD: Duration = Duration::from_secs(5);
/// The pause between two looks, and between two tries at a connection.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Owners and tokens of all accounts.
async fn leases(hand: &Client) -> BTreeMap<Vec<u8>, (String, i64)> {
    let rows = hand.query("select submitter, owner_node, fencing_token from submitter_lease", &[]);
    rows.await.unwrap().iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}

/// Waits until every account is with the node that should have it: from then on none moves.
async fn at_rest(duo: &Duo) {
    let [a, b] = &duo.nodes;
    wait::until("every account to be where it should be", || async {
        for account in SENDERS {
            let (owner, _) = a.owner_of(account).await?;
            (owner == duo.stage.preferred(account, [a, b])).then_some(())?;
        }
        Some(())
    })
    .await;
}

/// Until the time is over nothing is taken and everybody is told so; returns what `/readyz` said.
async fn put_off(duo: &Duo, what: &str) -> Vec<String> {
    let (begun, mut said) = (Instant::now(), Vec::new());
    duo.trouble_is_felt().await;
    // What was taken before has its answer by now.
    tokio::time::sleep(LOOK_EVERY).await;
    tell(what, &duo.callers.answers());
    while begun.elapsed() < HELD {
        for node in &duo.nodes {
            let (ready, _) = timed(node, "/readyz").await;
            said.push(ready.body["detail"].as_str().unwrap_or_default().to_owned());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let answers = duo.callers.answers();
    tell(what, &answers);
    assert!(answers.keys().all(|kind| kind.starts_with("503")), "{answers:?}");
    assert_prompt(&answers);
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_is_503_and_costs_no_lease() {
    let mut stage = stage().await;
    stage.settings =
        vec![("TOLLGATE_DATABASE_CONNECTIONS", "2"), ("TOLLGATE_DATABASE_POOL_TIMEOUT", "500ms")];
    let duo = Duo::on(stage).await;
    at_rest(&duo).await;
    let mut hand = connect(&duo.stage.database_url).await.unwrap();
    let before = leases(&hand).await;
    let lock = hand.transaction().await.unwrap();
    lock.batch_execute("lock table managed_tx in access exclusive mode").await.unwrap();
    let ready = put_off(&duo, "full pool").await;
    assert!(ready.iter().any(|said| said.contains("no connection within")), "{ready:?}");
    lock.rollback().await.unwrap();
    assert_eq!(leases(&hand).await, before, "nobody lost a lease over it");
    eprintln!("full pool: goes on after {:?}", duo.goes_on().await);
    duo.end().await;
}

/// Takes every connection that is to be had, until it is told to go.
fn crowd(url: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut sessions = Vec::new();
        loop {
            match connect(&url).await {
                Ok(session) => sessions.push(session),
                Err(_) => tokio::time::sleep(LOOK_EVERY / 10).await,
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_free_connection_is_503_and_then_forgotten() {
    let mut stage = stage().await;
    let (straight, proxy) = (stage.database_url.clone(), PgProxy::to(&stage.database_url).await);
    stage.database_url = proxy.url().to_owned();
    let duo = Duo::on(stage).await;
    proxy.cut();
    let crowd = crowd(straight.clone());
    wait::until("the server to be full", || async {
        let refused = connect(&straight).await.err()?;
        refused.as_db_error().filter(|error| error.code().code() == "53300").map(|_| ())
    })
    .await;
    proxy.restore();
    let ready = put_off(&duo, "full server").await;
    assert!(ready.iter().any(|said| said.contains("53300")), "{ready:?}");
    crowd.abort();
    eprintln!("full server: goes on after {:?}", duo.goes_on().await);
    duo.end().await;
}
