//! The notes about what needs a person: the overview names what waits for somebody.

use serde_json::json;
use tollgate_model::alert::{AlertLevel, AlertSubject};
use tollgate_model::port::{AlertKind, AlertReport, AlertStore};
use tollgate_model::{Address, ChainId, NodeId, Submitter, Text};
use tollgate_testkit::http::request;
use tollgate_testkit::{rpc, wait};
use uuid::Uuid;

use super::{api, create, first_account, get, read};
use crate::dev::Dev;
use crate::site::Site;

async fn page(dev: &Dev, path: &str) -> String {
    let host = dev.url.strip_prefix("http://").unwrap();
    request(host, "GET", path, "").await.unwrap().body
}

async fn act(dev: &Dev, account: &str, action: &str) {
    let path = format!("/api/v1/submitters/{account}/{action}");
    let done = api(dev, "POST", &path, &json!({ "reason": "end of day" })).await;
    assert!(done["status"].is_string(), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn account_whose_payments_wait_for_funds_needs_a_person() {
    let dev = Dev::start().await;
    let (_, account) = first_account(&dev).await;
    let calm = page(&dev, "/").await;
    assert!(calm.contains("Nothing needs a person."), "{calm}");
    // A create that can't be afforded is refused: the money goes while the transactions wait for their nonces.
    act(&dev, &account, "pause").await;
    let first = create(&dev, &account, json!({})).await;
    create(&dev, &account, json!({})).await;
    rpc::call(&dev.rpc_url, "devchain_setBalance", json!([account, "0x1"])).await;
    act(&dev, &account, "resume").await;
    let told = wait::until("the overview to tell it", || async {
        let told = page(&dev, "/").await;
        let is_told = told.contains("waits for funds at nonce 0, with 1 transaction behind it.");
        is_told.then_some(told)
    })
    .await;
    let (needs, rest) = told.split_once("id=\"totals\"").unwrap();
    assert!(needs.contains(&format!("href=\"/tx/{first}\"")), "{needs}");
    let (_, accounts) = rest.split_once("id=\"accounts\"").unwrap();
    assert!(accounts.contains("no funds"), "its row is not merely active: {accounts}");
    let tx = page(&dev, &format!("/tx/{first}")).await;
    for words in [
        "<b>Insufficient funds</b>: the account can&#39;t pay for value and gas.",
        "Tollgate holds, alerts, and sends the same bytes again",
    ] {
        assert!(tx.contains(words), "{words}: {tx}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_beside_an_account_that_takes_no_work_looks_and_does_not_resume_it() {
    let dev = Dev::start().await;
    let (_, account) = first_account(&dev).await;
    act(&dev, &account, "pause").await;
    let told = page(&dev, "/").await;
    let (needs, _) = told.split_once("id=\"totals\"").unwrap();
    assert!(needs.contains("is paused: end of day."), "{needs}");
    let command = format!("<code>tollgate submitter show {account}</code>");
    assert!(needs.contains(&command), "{needs}");
    assert!(!needs.contains("tollgate submitter resume"), "{needs}");
}

async fn raise(site: &Site, kind: AlertKind, level: AlertLevel, detail: &str) {
    let of = Submitter::new(ChainId::new(7).unwrap(), Address::repeat_byte(1));
    let report = AlertReport {
        alert_id: Uuid::new_v4(),
        kind,
        subject: AlertSubject::account(of),
        level,
        detail: Text::lossy(detail),
        node: NodeId::new("night", Uuid::nil()).unwrap(),
    };
    assert!(site.store.report_alert(&report, &[]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn open_alert_needs_a_person_unless_it_is_only_worth_knowing() {
    let site = Site::new().await;
    raise(&site, AlertKind::ReceiptBacklog, AlertLevel::Warning, "40 wait for a receipt").await;
    raise(&site, AlertKind::Stuck, AlertLevel::Critical, "the head makes no progress").await;
    raise(&site, AlertKind::FeeCap, AlertLevel::Info, "the market is above the cap").await;
    let told = read(&site.0, get("/")).await.text;
    let warning = told.find("40 wait for a receipt").expect("the warning");
    let critical = told.find("the head makes no progress").expect("the critical one");
    assert!(critical < warning, "the most urgent first");
    assert!(
        told.contains(">receipt_backlog</span>"),
        "the name under which alerts.md has it: {told}"
    );
    assert!(told.contains("<code>tollgate alert list --config tollgate.toml</code>"), "{told}");
    assert!(!told.contains("the market is above the cap"), "{told}");
}
