//! Connections that end in the middle of a batch, and after its commit was sent.

use tollgate_testkit::pg_proxy::PgProxy;
use tollgate_testkit::wait;

use super::duo::{Duo, assert_prompt, stage, tell};

/// Cuts at each place.
const ROUNDS: usize = 3;
/// Connections that are cut in a round.
const CUTS: usize = 2;

/// Statements of a batch with creates, and of one with changes.
const CREATES: &str = "insert into managed_tx";
const CHANGES: &str = "update managed_tx";
const FEED: &str = "insert into tx_completion";
const COMMIT: &str = "commit";

/// Cuts at each of these places, many times, and waits each time until all accounts are served again.
async fn cut_again_and_again(
    what: &str,
    places: &[&[&str]],
    lay: impl Fn(&PgProxy, &[&str], usize),
) {
    let mut stage = stage().await;
    let proxy = PgProxy::to(&stage.database_url).await;
    stage.database_url = proxy.url().to_owned();
    let duo = Duo::on(stage).await;
    for place in places {
        for round in 1..=ROUNDS {
            let caught = proxy.statement_cuts() + CUTS;
            lay(&proxy, place, CUTS);
            wait::until("connections to be cut", || async {
                (proxy.statement_cuts() == caught).then_some(())
            })
            .await;
            let took = duo.goes_on().await;
            eprintln!("{what} {place:?}, round {round}: goes on after {took:?}");
        }
    }
    assert_eq!(proxy.statement_cuts(), places.len() * ROUNDS * CUTS);
    let answers = duo.callers.answers();
    tell(what, &answers);
    assert_prompt(&answers);
    duo.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_end_in_mid_transaction_lose_and_double_nothing() {
    let places: [&[&str]; 3] = [&[CREATES], &[CREATES, COMMIT], &[CHANGES, COMMIT]];
    cut_again_and_again("before", &places, PgProxy::cut_before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_whose_answers_are_lost_lose_and_double_nothing() {
    // The last one loses the answer to the numbering of outcomes, too.
    let places: [&[&str]; 3] = [&[CREATES, COMMIT], &[CHANGES, COMMIT], &[FEED]];
    cut_again_and_again("after", &places, PgProxy::cut_after).await;
}
