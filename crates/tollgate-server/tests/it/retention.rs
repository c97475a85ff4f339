//! Finished transactions that are removed: what callers are told, and the archive of the real binary.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_model::TxId;
use tollgate_model::port::RetentionStore;
use tollgate_testkit::wait::until;

use crate::program::{Program, Ran, command, http_get, http_post};
use crate::site::{SENDER, Site, TARGET};
use crate::start::{Ground, chain};

fn transfer(request_id: &str, value: &str) -> Value {
    let payload = json!({ "to": TARGET, "value": value });
    json!({ "submitter": SENDER, "requestId": request_id, "payload": payload })
}

/// A site with two final transactions, of which the first was removed; their ids.
async fn site_with_a_removed_one() -> (Site, String, String) {
    let site = Site::new().await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let created = site.post("/api/v1/tx", transfer(name, "1").to_string()).await.with(202);
        ids.push(created["txId"].as_str().unwrap().to_owned());
        site.finish(&ids[ids.len() - 1]).await;
    }
    let of: Vec<TxId> = ids.iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(site.store.remove_finished(&of, Duration::ZERO).await, Ok(1), "the last one stays");
    let [removed, kept] = ids.try_into().unwrap();
    (site, removed, kept)
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_actions_of_a_removed_transaction_are_gone_with_its_outcome() {
    let (site, removed, kept) = site_with_a_removed_one().await;
    for path in [
        format!("/api/v1/tx/{removed}"),
        format!("/api/v1/tx/{removed}?view=operator"),
        format!("/api/v1/tx/{removed}/history"),
        format!("/api/v1/tx/by-request?submitter={SENDER}&requestId=a"),
    ] {
        let answer = site.get(&path).await;
        answer.refused(410, "tx_removed");
        let told = answer.json()["removed"].clone();
        assert_eq!((&told["txId"], &told["requestId"]), (&json!(removed), &json!("a")), "{path}");
        assert_eq!((&told["state"], &told["subState"]), (&json!("CONFIRMED"), &json!(null)));
        assert!(told["txHash"].as_str().unwrap().starts_with("0x"), "{told}");
    }
    let cancelled = site.post(&format!("/api/v1/tx/{removed}/cancel"), "{}").await;
    cancelled.refused(410, "tx_removed");
    let gone = site.get(&format!("/api/v1/tx/{removed}")).await.json();
    let hash = gone["removed"]["txHash"].as_str().unwrap().to_owned();
    site.get(&format!("/api/v1/tx/by-hash/{hash}")).await.refused(404, "not_found");
    let list = site.get("/api/v1/tx").await.with(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    site.get(&format!("/api/v1/tx/{kept}")).await.with(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_of_a_removed_request_is_answered_as_archived_and_another_body_conflicts() {
    let (site, removed, _) = site_with_a_removed_one().await;
    let repeat = transfer("a", "1");
    let again = site.post_with("/api/v1/tx", &[("prefer", "wait=60")], &repeat).await.with(200);
    assert_eq!((&again["txId"], &again["archived"]), (&json!(removed), &json!(true)));
    assert_eq!((&again["state"], &again["requestId"]), (&json!("CONFIRMED"), &json!("a")));
    let other = transfer("a", "2");
    site.post("/api/v1/tx", other.to_string()).await.refused(409, "request_id_conflict");
    let simulated = site.post("/api/v1/tx?simulate=true", repeat.to_string()).await.with(200);
    assert_eq!(simulated["txId"], json!(removed));
    let both = json!({ "items": [repeat, other] });
    let batch = site.post("/api/v1/tx/batch", both.to_string()).await.with(200);
    assert_eq!(batch["items"][0]["status"], 200, "{batch}");
    assert_eq!(batch["items"][0]["tx"]["archived"], true, "{batch}");
    assert_eq!(batch["items"][1]["error"]["code"], "request_id_conflict", "{batch}");
    assert_eq!(site.chain.pooled(), 0, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn cursor_before_what_was_removed_is_gone_and_the_next_number_stays() {
    let (site, ..) = site_with_a_removed_one().await;
    let gone = site.get("/api/v1/tx/completions?after=0").await;
    gone.refused(410, "cursor_removed");
    assert_eq!(gone.json()["oldest"], 2);
    let feed = site.get("/api/v1/tx/completions?after=1").await.with(200);
    assert_eq!((&feed["items"][0]["seq"], &feed["next"]), (&json!(2), &json!(2)));
    assert_eq!(feed["items"][0]["requestId"], "b");
}

/// Transactions of the runs of the binary.
const COUNT: u64 = 12;

/// A node whose finished transactions are old after a second.
fn with_retention(ground: &Ground, rpc_url: &str, archive: &Path) -> Command {
    let mut serve = ground.serve(rpc_url, &["--finality", "confirmations:2"]);
    let settings = [
        ("FINISHED_AFTER", "1s"),
        ("MODE", "archive"),
        ("INTERVAL", "200ms"),
        ("BATCH_SIZE", "3"),
        ("PAUSE", "10ms"),
    ];
    for (name, value) in settings {
        serve.env(format!("TOLLGATE_RETENTION_{name}"), value);
    }
    serve.env("TOLLGATE_RETENTION_ARCHIVE_DIR", archive);
    serve
}

fn create(number: u64) -> String {
    let from = dev_accounts()[0].address.to_string();
    let body = json!({ "submitter": from, "requestId": format!("order-{number}"),
                       "payload": { "to": from, "value": number.to_string() } });
    body.to_string()
}

/// Creates the transactions and waits until all are final.
async fn finish_all(ground: &Ground) {
    for number in 1..=COUNT {
        let body = create(number);
        let answer = until("a create", || http_post(ground.port, "/api/v1/tx", &body)).await;
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }
    let last = COUNT - 1;
    until("the ends", || async {
        let path = format!("/api/v1/tx/completions?after={last}");
        let answer = http_get(ground.port, &path).await?;
        (answer.starts_with("HTTP/1.1 410") || answer.contains("\"seq\"")).then_some(())
    })
    .await;
}

/// The files of an archive that are complete.
fn files(archive: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(archive).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "gz")).collect()
}

/// The number of times that each request is in the archive.
fn archived(archive: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for file in files(archive) {
        let mut text = String::new();
        MultiGzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let attempts = line["tx"]["attempts"].as_array().unwrap();
            assert_eq!(line["rawAttempts"].as_array().unwrap().len(), attempts.len(), "{line}");
            assert!(line["history"].as_array().unwrap().len() > 2, "{line}");
            assert!(line["seq"].is_u64() && line["payload"].is_string(), "{line}");
            assert_eq!(line["tx"]["result"]["status"], "success", "{line}");
            let name = line["tx"]["requestId"].as_str().unwrap().to_owned();
            *found.entry(name).or_default() += 1;
        }
    }
    found
}

/// Waits until one transaction is left: the account's last.
async fn until_removed(ground: &Ground) {
    until("the removal", || async {
        let list = http_get(ground.port, "/api/v1/tx").await?;
        (list.matches("\"txId\"").count() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_archives_what_it_removes_and_a_repeat_pays_nobody_twice() {
    let (ground, chain, archive) = (Ground::new(), chain().await, tempfile::tempdir().unwrap());
    let folder = archive.path().join("made");
    let mut serve = with_retention(&ground, &chain.url(), &folder);
    let node = ground.started(serve.env("RUST_LOG", "info")).await;
    finish_all(&ground).await;
    until_removed(&ground).await;
    node.line_with("finished transactions removed").await;
    for number in 1..=COUNT {
        let again = http_post(ground.port, "/api/v1/tx", &create(number)).await.unwrap();
        assert!(again.starts_with("HTTP/1.1 200"), "{again}");
        assert_eq!(again.contains("\"archived\":true"), number < COUNT, "{again}");
    }
    let found = archived(&folder);
    assert_eq!(found.len() as u64, COUNT - 1, "the last one stays in the database");
    assert!(found.values().all(|times| *times == 1), "{found:?}");
    let feed = format!("http://127.0.0.1:{}", ground.port);
    let ran = Ran::of(command().args(["completions", "--url", &feed]));
    assert!(ran.code == Some(0) && ran.out.lines().count() <= 1, "{ran:?}");
    assert!(ran.err.contains("were removed"), "{ran:?}");
    let ran = Ran::of(command().args(["completions", "--after", "1", "--url", &feed]));
    assert!(ran.err.contains("were removed; after="), "{ran:?}");
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_between_archive_and_removal_loses_nothing() {
    let (ground, chain, archive) = (Ground::new(), chain().await, tempfile::tempdir().unwrap());
    let armed = archive.path().join("armed");
    let folder = archive.path().join("archive");
    let mut serve = with_retention(&ground, &chain.url(), &folder);
    serve.env("TOLLGATE_KILL_AT", "archive_written").env("TOLLGATE_KILL_ONCE", &armed);
    // Nothing is old before all are final.
    let node = ground.started(serve.env("TOLLGATE_RETENTION_FINISHED_AFTER", "90d")).await;
    finish_all(&ground).await;
    drop(node);
    std::fs::write(&armed, "").unwrap();
    serve.env("TOLLGATE_RETENTION_FINISHED_AFTER", "1s");
    let killed = Program::start(&mut serve).end();
    assert_eq!(killed.code, None, "killed: {killed:?}");
    let before = archived(&folder);
    assert!(!before.is_empty(), "in the archive, and still in the database");

    serve.env_remove("TOLLGATE_KILL_AT");
    let _heir = ground.started(&mut serve).await;
    until_removed(&ground).await;
    let after = archived(&folder);
    assert_eq!(after.len() as u64, COUNT - 1, "none is lost: {after:?}");
    let twice = |name: &String| 1 + u64::from(before.contains_key(name));
    assert!(after.iter().all(|(name, times)| *times == twice(name)), "{before:?} {after:?}");
}
