//! `tollgate backup` while a node writes, `tollgate restore`, and a node on the restored database.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tollgate_devchain::dev_accounts;
use tollgate_testkit::wait::until;
use tollgate_testkit::{PgServer, rpc};

use crate::program::{Ran, command, http_get, http_post};
use crate::start::{Ground, chain};

/// Creates before and during the backup.
const COUNT: u64 = 40;
/// Creates that are accepted before the backup begins.
const BEFORE: u64 = 10;

fn create(request: &str) -> String {
    let from = dev_accounts()[0].address.to_string();
    json!({ "submitter": from, "requestId": request, "payload": { "to": from } }).to_string()
}

fn order(number: u64) -> String {
    create(&format!("order-{number}"))
}

fn run(args: &[&str]) -> Ran {
    Ran::of(command().args(args))
}

fn url(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

/// The number of transactions of the account on the chain.
async fn mined(rpc_url: &str) -> u64 {
    let from = dev_accounts()[0].address.to_string();
    let count = rpc::call(rpc_url, "eth_getTransactionCount", json!([from, "latest"])).await;
    u64::from_str_radix(count.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

async fn until_mined(rpc_url: &str, count: u64) {
    until("the transactions", || async { (mined(rpc_url).await == count).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_backup_holds_every_account_repeats_nothing_and_continues_after_resume() {
    let (ground, chain, folder) = (Ground::new(), chain().await, tempfile::tempdir().unwrap());
    let (file, target) = (folder.path().join("backup"), folder.path().join("restored.db"));
    let finality = ["--finality", "confirmations:2"];
    let node = ground.started(&mut ground.serve(&chain.url(), &finality)).await;
    let (accepted, port) = (Arc::new(AtomicU64::new(0)), ground.port);
    let counter = accepted.clone();
    let callers = tokio::spawn(async move {
        for number in 1..=COUNT {
            let body = order(number);
            let answer = until("a create", || http_post(port, "/api/v1/tx", &body)).await;
            assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
            counter.store(number, Ordering::Release);
        }
    });
    let enough = || async { (accepted.load(Ordering::Acquire) >= BEFORE).then_some(()) };
    until("some creates", enough).await;
    let backup =
        ["backup", "--database-url", &ground.database_url(), "--to", file.to_str().unwrap()];
    let ran = run(&backup);
    assert!(ran.code == Some(0) && ran.out.contains("accounts      1"), "{ran:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = run(&backup);
    assert!(again.code == Some(1) && again.err.contains("is not overwritten"), "{again:?}");
    callers.await.unwrap();
    until_mined(&chain.url(), COUNT).await;
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));

    let (from, to) = (file.to_str().unwrap(), url(&target));
    let restore = ["restore", "--from", from, "--database-url", &to];
    let ran = run(&restore);
    assert!(ran.code == Some(0) && ran.out.contains("restored from a backup of 20"), "{ran:?}");
    let again = run(&restore);
    assert!(again.code == Some(1) && again.err.contains("exists"), "{again:?}");

    let mut serve = ground.serve(&chain.url(), &[&finality[..], &["--database-url", &to]].concat());
    let node = ground.started(&mut serve).await;
    let account = format!("/api/v1/submitters/{}", dev_accounts()[0].address);
    let shown = until("the account", || http_get(port, &account)).await;
    assert!(shown.contains("\"PAUSED\"") && shown.contains("restored from a backup"), "{shown}");
    for number in 1..=BEFORE {
        let body = order(number);
        let repeat = until("a repeat", || http_post(port, "/api/v1/tx", &body)).await;
        assert!(repeat.starts_with("HTTP/1.1 200"), "I7: {repeat}");
    }
    let body = create("after");
    let new = until("a create", || http_post(port, "/api/v1/tx", &body)).await;
    assert!(new.starts_with("HTTP/1.1 202") && new.contains("\"QUEUED\""), "{new}");
    assert_eq!(mined(&chain.url()).await, COUNT, "I3: no slot before an operator resumes");

    let (resume, reason) =
        (format!("{account}/resume"), json!({ "reason": "compared" }).to_string());
    until("the resume", || async {
        let answer = http_post(port, &resume, &reason).await?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
    until("the new one in the feed of an old reader, I10", || async {
        let feed = http_get(port, &format!("/api/v1/tx/completions?after={COUNT}")).await?;
        feed.contains("\"after\"").then_some(())
    })
    .await;
    assert_eq!(mined(&chain.url()).await, COUNT + 1, "each request once");
    let shown = until("the account", || http_get(port, &account)).await;
    let token =
        shown.split("\"fencingToken\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
    assert!(token.is_some_and(|token| token.parse::<u64>().unwrap() > 1_000_000), "I4: {shown}");
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
}

#[test]
fn restore_refuses_what_is_no_whole_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (live, copy, target) =
        (folder.path().join("live.db"), folder.path().join("copy"), folder.path().join("new.db"));
    assert_eq!(run(&["migrate", "--database-url", &url(&live)]).code, Some(0));
    let refused = |from: &Path, why: &str| {
        let to = url(&target);
        let ran = run(&["restore", "--from", from.to_str().unwrap(), "--database-url", &to]);
        assert!(ran.code == Some(1) && ran.err.contains(why), "{ran:?}");
        let left =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("new")).collect();
        assert!(left.is_empty(), "{left:?}");
    };
    refused(&live, "is not a whole backup");
    refused(&folder.path().join("absent"), "absent");
    let to = copy.to_str().unwrap().to_owned();
    assert_eq!(run(&["backup", "--database-url", &url(&live), "--to", &to]).code, Some(0));
    let mut bytes = std::fs::read(&copy).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    std::fs::write(&copy, &bytes).unwrap();
    refused(&copy, "copy");
    let ran = run(&["backup", "--database-url", "postgres://localhost/x", "--to", "unused"]);
    assert!(ran.code == Some(1) && ran.err.contains("PostgreSQL has tools of its own"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_restored_by_its_own_tools_is_marked_unless_a_node_is_alive() {
    let (ground, chain, server) = (Ground::new(), chain().await, PgServer::start().await);
    let database = server.url(&server.fresh_database().await);
    let mark = ["restore", "--database-url", &database, "--backup-time", "2026-11-18T09:30:00Z"];
    let mut serve = ground.serve(&chain.url(), &["--database-url", &database]);
    let node = ground.started(&mut serve).await;
    let ran = run(&mark);
    assert!(ran.code == Some(1) && ran.err.contains("stop them first"), "{ran:?}");
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
    let ran = run(&mark);
    assert!(ran.code == Some(0) && ran.out.contains("backup of 2026-11-18T09:30:00Z"), "{ran:?}");
    let node = ground.started(&mut serve).await;
    let account = format!("/api/v1/submitters/{}", dev_accounts()[0].address);
    let shown = until("the account", || http_get(ground.port, &account)).await;
    assert!(shown.contains("\"PAUSED\""), "{shown}");
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
}
