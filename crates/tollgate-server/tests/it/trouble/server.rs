//! A server that is restarted, or crashes.

use tollgate_testkit::PgServer;

use super::duo::{Duo, assert_prompt, stage, tell};

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
