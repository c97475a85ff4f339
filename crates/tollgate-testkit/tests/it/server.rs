//! The server that the tests start, and what a PostgreSQL store checks before it works on one.

use std::process::Command;
use std::time::{Duration, Instant};

use tollgate_model::port::StoreError;
use tollgate_postgres::{PgOptions, PgStore, migrate};
use tollgate_testkit::postgres::connect;
use tollgate_testkit::store_fixture::NodeOptions;
use tollgate_testkit::{PgFixture, PgServer, StoreFixture};

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_database_passes_the_stores_self_test() {
    let fixture = PgFixture::new().await;
    PgStore::open(fixture.options(NodeOptions::default())).await.unwrap();
    let shared: &dyn StoreFixture = &fixture;
    assert_eq!(shared.count("submitter_lease").await, 0, "the self-test leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_released_together_in_one_statement() {
    let fixture = PgFixture::new().await;
    let node = (&fixture as &dyn StoreFixture).node("a").await;
    let leases = node.own_all(1..=5).await;
    for sql in [
        "create table lease_updates (at timestamptz default clock_timestamp())",
        "create function count_update() returns trigger language plpgsql as $$
           begin insert into lease_updates default values; return null; end $$",
        "create trigger count_update after update on submitter_lease
           for each statement execute function count_update()",
    ] {
        fixture.execute(sql).await.unwrap();
    }
    assert_eq!(node.release(&node.id, &leases).await.unwrap(), 5);
    assert_eq!(fixture.query_i64("select count(*) from lease_updates").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_may_lose_acknowledged_commits_is_refused() {
    let fixture = PgFixture::new().await;
    let name = fixture.url().rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let sql = format!("alter database {name} set synchronous_commit = off");
    fixture.execute(&sql).await.unwrap();
    let refused = PgStore::open(fixture.options(NodeOptions::default())).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Unsafe(why) if why.contains("synchronous_commit")));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_do_not_wait_for_the_standby_are_refused() {
    let (primary, standby) = PgServer::start_with_standby().await;
    let database = primary.fresh_database().await;
    let options = PgOptions::new(primary.url_with(&standby, &database));
    migrate(&options).await.unwrap();
    PgStore::open(options.clone()).await.unwrap();
    let client = connect(&primary.url(&database)).await.unwrap();
    let sql = format!("alter database {database} set synchronous_commit = local");
    client.batch_execute(&sql).await.unwrap();
    let refused = PgStore::open(options).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Unsafe(why) if why.contains("failover")), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_schema_is_refused() {
    let server = PgServer::start().await;
    let database = server.fresh_database().await;
    assert!(PgStore::open(PgOptions::new(server.url(&database))).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_our_own_survives_a_crash_and_starts_fast() {
    // The first start on a machine makes the template.
    drop(PgServer::start_own().await);
    let start = Instant::now();
    let server = PgServer::start_own().await;
    let took = start.elapsed();
    println!("PostgreSQL started in {took:?}");
    assert!(took < Duration::from_secs(5), "a start takes {took:?}");
    let database = server.fresh_database().await;
    let options = PgOptions::new(server.url(&database));
    migrate(&options).await.unwrap();
    server.crash();
    assert!(PgStore::open(options.clone()).await.is_err(), "it is down");
    server.restart().await;
    PgStore::open(options).await.unwrap();
}

/// The child of a child: a process that starts a server and is then killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_test_process_leaves_no_server_behind() {
    const ROLE: &str = "TOLLGATE_TESTKIT_START_AND_WAIT";
    if std::env::var_os(ROLE).is_some() {
        let server = PgServer::start_own().await;
        println!("url {}", server.url("postgres"));
        std::future::pending::<()>().await;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "server::a_killed_test_process_leaves_no_server_behind"])
        .env(ROLE, "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(victim.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(output).map(Result::unwrap);
    let url = lines.find_map(|line| line.strip_prefix("url ").map(str::to_owned)).unwrap();
    assert!(connect(&url).await.is_ok());
    victim.kill().unwrap();
    victim.wait().unwrap();
    tollgate_testkit::wait::until("the server to die with its parent", || async {
        connect(&url).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_has_every_commit_and_without_it_there_are_none() {
    let (primary, standby) = PgServer::start_with_standby().await;
    let database = primary.fresh_database().await;
    let url = primary.url_with(&standby, &database);
    let write = async |value: i32| {
        let client = connect(&url).await?;
        client.batch_execute("create table if not exists kept (value int)").await?;
        client.execute("insert into kept values ($1)", &[&value]).await
    };
    write(1).await.unwrap();
    standby.crash();
    let waits = tokio::time::timeout(Duration::from_secs(1), write(2)).await;
    assert!(waits.is_err(), "a commit waits for the standby");
    standby.restart().await;
    write(3).await.unwrap();
    primary.crash();
    standby.promote().await;
    write(4).await.unwrap();
    let client = connect(&url).await.unwrap();
    let rows = client.query("select value from kept order by value", &[]).await.unwrap();
    let kept: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert!([1, 3, 4].iter().all(|value| kept.contains(value)), "{kept:?}");
}
