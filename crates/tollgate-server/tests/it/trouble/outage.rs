//! A database that is away for longer than any lease: refused connections, or silence.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_testkit::pg_proxy::PgProxy;
use tollgate_testkit::wait;

use super::duo::{ANSWER_MAX, Duo, assert_prompt, stage, tell, timed_all};
use crate::cluster::callers::Answers;

/// The time without a server.
const OUTAGE: Duration = Duration::from_secs(30);
/// The time without traffic to the server: longer than a lease, and than any answer takes.
const DARKNESS: Duration = Duration::from_secs(10);
/// Earlier requests are answered, and known owners forgotten, by then.
const SETTLED: Duration = Duration::from_secs(2);
/// The pause between two looks at a node.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Questions that only a database can answer.
const READS: [&str; 4] =
    ["/readyz", "/api/v1/submitters", "/api/v1/tx/completions?after=0", "/api/v1/tx?limit=1"];

/// Looks at both nodes until the time is over: alive, not ready, and reads are put off. Returns the
/// creates' answers, and the longest answer to a read.
async fn look(duo: &Duo, for_long: Duration) -> (BTreeMap<String, Answers>, Duration) {
    let begun = Instant::now();
    tokio::time::sleep(SETTLED).await;
    tell("at once", &duo.callers.answers());
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < for_long {
        for (_, alive, took) in timed_all(&duo.nodes, &["/livez"]).await {
            assert_eq!(alive.status, 200, "{alive:?} after {took:?}");
        }
        for (path, said, took) in timed_all(&duo.nodes, &READS).await {
            assert_eq!(said.status, 503, "{path}: {said:?}");
            assert!(said.head.contains("retry-after:"), "{path}: {said:?}");
            slowest = slowest.max(took);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    (duo.callers.answers(), slowest)
}

/// Nobody is taken, and everybody is told so in time.
fn assert_put_off(answers: &BTreeMap<String, Answers>, slowest_read: Duration) {
    tell("meanwhile", answers);
    eprintln!("meanwhile: reads 503, {slowest_read:?} at most");
    assert!(
        !answers.is_empty() && answers.keys().all(|kind| kind.starts_with("503")),
        "{answers:?}"
    );
    assert_prompt(answers);
    assert!(slowest_read < ANSWER_MAX, "a read after {slowest_read:?}");
}

/// Both nodes, which were not touched, are ready again and serve every account.
async fn assert_back(duo: Duo) {
    let back = Instant::now();
    for node in &duo.nodes {
        wait::until("a node to be ready", || async { node.is_ready().await.then_some(()) }).await;
    }
    let ready = back.elapsed();
    duo.goes_on().await;
    let served = back.elapsed();
    eprintln!("ready after {ready:?}, every account served after {served:?}");
    assert!(served < ANSWER_MAX, "{served:?}");
    duo.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_seconds_without_a_server_are_503_and_then_forgotten() {
    let duo = Duo::on(stage().await).await;
    duo.stage.server.shut_down();
    let (answers, slowest_read) = look(&duo, OUTAGE).await;
    assert_put_off(&answers, slowest_read);
    duo.stage.server.restart().await;
    assert_back(duo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_to_the_server_that_swallows_everything_is_503_and_then_forgotten() {
    let mut stage = stage().await;
    let proxy = PgProxy::to(&stage.database_url).await;
    stage.database_url = proxy.url().to_owned();
    stage.settings = vec![
        ("TOLLGATE_DATABASE_POOL_TIMEOUT", "1s"),
        ("TOLLGATE_DATABASE_STATEMENT_TIMEOUT", "2s"),
    ];
    let duo = Duo::on(stage).await;
    proxy.black_hole();
    let (answers, slowest_read) = look(&duo, DARKNESS).await;
    assert_put_off(&answers, slowest_read);
    proxy.restore();
    assert_back(duo).await;
}
