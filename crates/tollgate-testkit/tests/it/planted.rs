//! Shows that the suite can fail: each mistake is planted, and the suite must name the promise that it
//! breaks.

use std::future::Future;

use tollgate_model::port::StoreError;
use tollgate_model::sql::Overrides;
use tollgate_postgres::PgStore;
use tollgate_testkit::conformance::{fence, idempotency, server};
use tollgate_testkit::mistakes::{
    EXISTS_GUARD, FEED_SEQUENCE, PLAIN_SEQUENCE_EVENTS, PLAIN_SEQUENCE_FEED, REPEATABLE_READ,
    SKIPPED_GUARD, SQLITE_DEFERRED_BEGIN, SQLITE_SKIPPED_GUARD,
};
use tollgate_testkit::store_fixture::NodeOptions;
use tollgate_testkit::{PgFixture, SqliteFixture, StoreFixture, StoreKind};

/// Runs a test of the suite that must fail with a message that names the promise.
async fn caught(promise: &str, test: impl Future<Output = ()> + Send + 'static) {
    let error = tokio::spawn(test).await.expect_err("the suite did not notice the mistake");
    assert!(error.is_panic());
    let panic = error.into_panic();
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    println!("noticed: {message}");
    assert!(message.contains(promise), "the message names {promise}: {message}");
}

/// Runs a test of the suite on a fixture with a mistake.
macro_rules! caught {
    ($fixture:expr, $promise:literal, $test:path) => {
        let fixture = $fixture.await;
        caught($promise, async move { $test(&fixture).await }).await;
    };
}

async fn postgres(mistake: Overrides) -> PgFixture {
    PgFixture::with_overrides(mistake).await.with_child(crate::CHILD)
}

async fn sqlite(mistake: Overrides) -> SqliteFixture {
    SqliteFixture::with_overrides(mistake).await.with_child(crate::CHILD)
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_a_guard_without_a_lock() {
    caught!(
        postgres(EXISTS_GUARD),
        "I2: a write of",
        fence::a_writer_delayed_before_commit_cannot_land_after_a_takeover
    );
    caught!(
        postgres(EXISTS_GUARD),
        "I2: a write of",
        fence::a_writer_delayed_after_its_guard_cannot_land_after_a_takeover
    );
    caught!(
        postgres(EXISTS_GUARD),
        "I2: a write landed",
        fence::a_writer_that_waits_for_a_row_cannot_land_after_a_takeover
    );
    caught!(
        postgres(EXISTS_GUARD),
        "I2: a batch landed",
        fence::a_release_never_overtakes_a_batch_in_flight
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_a_missing_guard() {
    caught!(
        postgres(SKIPPED_GUARD),
        "I2: its time was over",
        fence::a_batch_after_expiry_is_refused_even_if_nobody_took_over
    );
    caught!(
        sqlite(SQLITE_SKIPPED_GUARD),
        "I2: its time was over",
        fence::a_batch_after_expiry_is_refused_even_if_nobody_took_over
    );
    caught!(
        postgres(SKIPPED_GUARD),
        "I1: another node's lease",
        fence::a_lease_that_was_never_granted_writes_nothing
    );
    caught!(
        sqlite(SQLITE_SKIPPED_GUARD),
        "I1: another node's lease",
        fence::a_lease_that_was_never_granted_writes_nothing
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_refuses_a_database_whose_token_is_not_a_key() {
    let fixture = PgFixture::new().await;
    let sql = "alter table submitter_lease drop constraint submitter_lease_token_is_a_key";
    fixture.execute(sql).await.unwrap();
    let refused = PgStore::open(fixture.options(NodeOptions::default())).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unsafe(_)), "{refused}");
    // The same for what only looks like a key.
    for index in [
        "create unique index k on submitter_lease (chain_id, submitter, fencing_token)
           where fencing_token > 0",
        "create unique index k on submitter_lease (chain_id, submitter) include (fencing_token)",
        "create index k on submitter_lease (chain_id, submitter, fencing_token)",
    ] {
        fixture.execute(index).await.unwrap();
        let refused = PgStore::open(fixture.options(NodeOptions::default())).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unsafe(_)), "{index}: {refused}");
        fixture.execute("drop index k").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_a_takeover_that_answers_from_an_old_snapshot() {
    caught!(
        postgres(REPEATABLE_READ),
        "I2: the new owner was given a cursor from before",
        fence::a_takeover_that_waited_for_a_writer_sees_what_it_wrote
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_a_feed_numbered_by_a_sequence() {
    let fixture = postgres(PLAIN_SEQUENCE_FEED).await;
    fixture.execute(FEED_SEQUENCE).await.unwrap();
    let test = server::a_reader_of_the_feed_misses_nothing_of_a_commit_that_hangs;
    caught("I10: a reader missed", async move { test(&fixture).await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_events_numbered_by_a_sequence() {
    let fixture = postgres(PLAIN_SEQUENCE_EVENTS).await;
    fixture.execute(FEED_SEQUENCE).await.unwrap();
    let test = server::a_reader_of_events_misses_nothing_of_a_commit_that_hangs;
    caught("I10: a reader missed", async move { test(&fixture).await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_a_slot_or_a_request_without_a_unique_key() {
    for kind in [StoreKind::Postgres, StoreKind::Sqlite] {
        let fixture = kind.start().await;
        fixture.execute("drop index managed_tx_slot").await.unwrap();
        let test = idempotency::a_second_row_for_a_slot_is_refused_by_the_database_itself;
        caught("I3: a second transaction in one slot", async move { test(&*fixture).await }).await;
        let fixture = kind.start().await;
        fixture.execute("drop index managed_tx_request").await.unwrap();
        let test = idempotency::a_second_row_for_a_request_is_refused_by_the_database_itself;
        let promise = "I7: a second transaction for one request";
        caught(promise, async move { test(&*fixture).await }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_catches_a_deferred_begin() {
    caught!(
        sqlite(SQLITE_DEFERRED_BEGIN),
        "I1: a batch that holds its lease was undone",
        fence::a_guarded_batch_commits_whatever_its_neighbours_do
    );
}
