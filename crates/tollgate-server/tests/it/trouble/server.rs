//! A server that is restarted, crashes, or is replaced by its standby.

use tollgate_testkit::PgServer;

use super::duo::{Duo, assert_prompt, stage, tell};
use crate::cluster::stage::Stage;

const TIMES: usize = 3;

async fn the_server_goes_and_comes_back(what: &str, goes: impl Fn(&PgServer)) {
    let duo = Duo::on(stage().await).await;
    for _ in 0..TIMES {
        goes(&duo.stage.server);
        duo.trouble_is_felt().await;
        duo.stage.server.restart().await;
        eprintln!("{what}: goes on after {:?}", duo.goes_on().await);
        let answers = duo.callers.answers();
        tell(what, &answers);
        assert_prompt(&answers);
    }
    duo.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_server_costs_nobody_more_than_another_try() {
    the_server_goes_and_comes_back("restart", PgServer::shut_down).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_costs_nobody_more_than_another_try() {
    the_server_goes_and_comes_back("crash", PgServer::crash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_goes_on_where_the_server_ended() {
    let (primary, standby) = PgServer::start_with_standby().await;
    let mut stage = Stage::on(primary, "3s", "500ms").await;
    let database = stage.database_url.rsplit('/').next().unwrap().to_owned();
    stage.database_url = stage.server.url_with(&standby, &database);
    stage.settings = vec![
        ("TOLLGATE_DATABASE_POOL_TIMEOUT", "1s"),
        ("TOLLGATE_DATABASE_STATEMENT_TIMEOUT", "2s"),
    ];
    let duo = Duo::on(stage).await;

    // Without it nothing is acknowledged, and nobody waits for ever to be told so.
    standby.crash();
    duo.trouble_is_felt().await;
    standby.restart().await;
    eprintln!("standby back: goes on after {:?}", duo.goes_on().await);
    let answers = duo.callers.answers();
    tell("without the standby", &answers);
    assert_prompt(&answers);

    duo.stage.server.crash();
    duo.trouble_is_felt().await;
    standby.promote().await;
    eprintln!("standby promoted: goes on after {:?}", duo.goes_on().await);
    let answers = duo.callers.answers();
    tell("failover", &answers);
    assert_prompt(&answers);
    duo.end().await;
}
