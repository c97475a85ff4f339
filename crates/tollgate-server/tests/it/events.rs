//! `GET /api/v1/events`: pages, a poll that waits, and a stream.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate_devchain::dev_accounts;
use tollgate_model::port::{
    Acquisition, EventStore, FencedBatch, Lease, LeaseStore, NewTx, Page, RowVersion, TxStore,
};
use tollgate_model::{NodeId, TxEvent};
use tollgate_testkit::builders::{
    SectionExt, chain, intent, long_terms, moved, node_id, section, setup, submitter,
};
use tollgate_testkit::wait::within;
use tower::ServiceExt;

use crate::dev::Dev;
use crate::program::{Program, Ran, command};
use crate::site::{SENDER, Site, TARGET};

fn transfer(request_id: &str) -> String {
    let payload = json!({ "to": TARGET, "value": "5" });
    json!({ "submitter": SENDER, "requestId": request_id, "payload": payload }).to_string()
}

fn types(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_a_transaction_is_read_as_events_in_order() {
    let site = Site::new().await;
    let tx_id = site.post("/api/v1/tx", transfer("order-1")).await.json()["txId"].clone();
    let done = site.finish(tx_id.as_str().unwrap()).await;
    let (mut items, mut after) = (Vec::new(), 0);
    while items.last().is_none_or(|last: &Value| last["type"] != "TxConfirmed") {
        let page = site.get(&format!("/api/v1/events?after={after}&wait=10s")).await.with(200);
        after = page["next"].as_u64().unwrap();
        items.extend(page["items"].as_array().unwrap().clone());
    }
    let all = Value::Array(items);
    let expected = ["TxAccepted", "TxSubmitted", "TxReceiptUpdated", "TxConfirmed"];
    assert_eq!(types(&all), expected);
    for (place, event) in (1..).zip(all.as_array().unwrap()) {
        assert_eq!((&event["seq"], &event["subject"]), (&json!(place), &tx_id));
        assert_eq!(event["data"]["requestId"], "order-1");
        let id = format!("{}.{}.", tx_id.as_str().unwrap(), event["data"]["version"]);
        assert!(event["id"].as_str().unwrap().starts_with(&id), "{event}");
        for secret in ["nonce", "fencingToken", "raw"] {
            assert!(event["data"].get(secret).is_none(), "{event}");
        }
    }
    assert_eq!(all[1]["data"]["txHash"], done["txHash"], "the hash that was sent");
    assert_eq!(all[2]["data"]["newFork"], false);
    assert_eq!(all[3]["data"]["blockHash"], done["result"]["blockHash"]);
    let only = site.get("/api/v1/events?kind=TxConfirmed,TxFailed").await.with(200);
    assert_eq!((types(&only["items"]), &only["next"]), (vec!["TxConfirmed"], &json!(4)));
    let other = site.get(&format!("/api/v1/events?submitter={TARGET}")).await.with(200);
    assert_eq!((types(&other["items"]).len(), &other["next"]), (0, &json!(4)), "passed over");
    let end = site.get("/api/v1/events?from=end").await.with(200);
    assert_eq!((types(&end["items"]).len(), &end["next"]), (0, &json!(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_that_the_log_does_not_have_are_refused() {
    let site = Site::new().await;
    site.get("/api/v1/events?after=99").await.refused(409, "cursor_ahead");
    site.get("/api/v1/events?kind=TxGone").await.refused(422, "invalid_query");
    for n in 0..3 {
        site.post("/api/v1/tx", transfer(&format!("order-{n}"))).await.with(202);
    }
    site.get("/api/v1/events?after=0&wait=10s").await.with(200);
    let page = Page::new(Page::MAX).unwrap();
    site.store.number_events(page).await.unwrap();
    site.store.remove_events(Duration::ZERO, 0, page).await.unwrap();
    let gone = site.get("/api/v1/events?after=0").await;
    gone.refused(410, "cursor_removed");
    assert!(gone.json()["oldest"].as_u64() > Some(1), "{gone:?}");
}

/// A stream that is read frame by frame.
struct Stream(axum::body::Body);

impl Stream {
    async fn open(site: &Site, path: &str, last_event_id: Option<u64>) -> Self {
        let mut request = Request::get(path).header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = site.0.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(response.into_body())
    }

    /// The next frame; `None` at the end.
    async fn frame(&mut self) -> Option<String> {
        let frame = timeout(Duration::from_secs(30), self.0.frame()).await.expect("a frame");
        let bytes = frame?.unwrap().into_data().unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Reads up to an event; its number.
    async fn until(&mut self, seq: u64) -> u64 {
        loop {
            let frame = self.frame().await.expect("a stream that goes on");
            if field(&frame, "id").parse::<u64>().unwrap() >= seq {
                return seq;
            }
        }
    }
}

fn field<'a>(frame: &'a str, name: &str) -> &'a str {
    let line = frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {frame:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_goes_on_after_the_last_event_id() {
    let site = Site::new().await;
    let mut stream = Stream::open(&site, "/api/v1/events", None).await;
    let hello = stream.frame().await.unwrap();
    assert_eq!(field(&hello, "id"), "0");
    let tx_id = site.post("/api/v1/tx", transfer("order-1")).await.json()["txId"].clone();
    let first = stream.frame().await.unwrap();
    assert_eq!((field(&first, "id"), field(&first, "event")), ("1", "TxAccepted"));
    let data: Value = serde_json::from_str(field(&first, "data")).unwrap();
    assert_eq!(data["subject"], tx_id);
    drop(stream);
    site.finish(tx_id.as_str().unwrap()).await;
    let mut again = Stream::open(&site, "/api/v1/events?after=0", Some(1)).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|kind| kind != "TxConfirmed") {
        let frame = again.frame().await.unwrap();
        if frame.contains("\nevent: ") {
            seen.push(field(&frame, "event").to_owned());
        }
    }
    assert_eq!(seen, ["TxSubmitted", "TxReceiptUpdated", "TxConfirmed"], "the header counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_when_the_node_is_drained() {
    let site = Site::new().await;
    let mut stream = Stream::open(&site, "/api/v1/events", None).await;
    stream.frame().await.unwrap();
    site.chains.drain();
    assert_eq!(stream.frame().await, None);
}

/// Another node, which writes events as fast as the store takes them.
struct Writer<'a> {
    site: &'a Site,
    node: NodeId,
    lease: Lease,
}

impl<'a> Writer<'a> {
    async fn new(site: &'a Site) -> Self {
        let (of, node) = (submitter(1), node_id("writer"));
        site.store.register_chain(&chain()).await.unwrap();
        site.store.register_submitters(&[setup(of)]).await.unwrap();
        let granted = site.store.acquire(of, &node, &long_terms()).await.unwrap();
        let Acquisition::Granted { lease, .. } = granted else { panic!("{granted:?}") };
        Self { site, node, lease }
    }

    /// Transactions that are accepted and withdrawn: two events each.
    async fn write(&self, count: usize) {
        let txs: Vec<NewTx> = std::iter::repeat_with(intent).take(count).collect();
        let ends = txs.iter().map(|tx| {
            let row = RowVersion { state: tx.initial_state(), version: 1 };
            moved(tx.tx_id, row, TxEvent::Withdrawn)
        });
        let ends = ends.fold(section(self.lease), SectionExt::change);
        for part in [section(self.lease).creates(txs), ends] {
            let batch = FencedBatch::new(self.node.clone(), vec![part]).unwrap();
            self.site.store.commit(&batch).await.unwrap();
        }
    }
}

/// Events that a node keeps in memory for those that follow.
const KEPT: u64 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_of_a_stream_is_cut_off_and_the_others_miss_nothing() {
    let site = Site::new().await;
    let mut slow = Stream::open(&site, "/api/v1/events", None).await;
    let mut fast = Stream::open(&site, "/api/v1/events", None).await;
    let writer = Writer::new(&site).await;
    for stream in [&mut slow, &mut fast] {
        stream.frame().await.unwrap();
    }
    // A reader is up to date once it has seen an event that was written after it had seen all others.
    let (mut written, mut last_of_slow) = (0, 0);
    for _ in 0..3 {
        writer.write(1).await;
        written += 2;
        for stream in [&mut fast, &mut slow] {
            last_of_slow = stream.until(written).await;
        }
    }
    let mut read = written;
    // From now on only one of them reads.
    while written < KEPT + 2_000 {
        writer.write(250).await;
        written += 500;
        while read < written {
            let frame = fast.frame().await.expect("the fast one is not cut off");
            if frame.contains("\nevent: ") {
                read += 1;
                assert_eq!(field(&frame, "id"), read.to_string(), "in order, each once");
            }
        }
    }
    let mut end = None;
    while let Some(frame) = slow.frame().await {
        if frame.contains("\nevent: ") {
            last_of_slow = field(&frame, "id").parse().unwrap();
        }
        end = Some(frame);
    }
    assert_eq!(end.as_deref(), Some(": read too slowly; connect again with Last-Event-ID\n\n"));
    assert!(last_of_slow < written, "{last_of_slow} of {written}");
    writer.write(1).await;
    let frame = fast.frame().await.expect("the fast one goes on");
    assert_eq!(field(&frame, "id"), (written + 1).to_string());
    // It goes on where it was cut off: what it had to catch up with does not end it again.
    let mut again = Stream::open(&site, "/api/v1/events", Some(last_of_slow)).await;
    for seq in last_of_slow..written {
        let frame = again.frame().await.unwrap();
        if seq > last_of_slow {
            assert_eq!(field(&frame, "id"), seq.to_string());
        }
    }
}

/// The first steps of a new user: `tollgate dev` in one terminal, `tollgate events listen` in another.
#[tokio::test(flavor = "multi_thread")]
async fn listener_forwards_the_events_of_a_fresh_dev_node() {
    let (dev, receiver) = (Dev::start().await, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = format!("http://{}/hook", receiver.local_addr().unwrap());
    let (posted, mut posts) = mpsc::unbounded_channel();
    let take = move |body: String| {
        posted.send(serde_json::from_str::<Value>(&body).unwrap()).unwrap();
        async { StatusCode::NO_CONTENT }
    };
    let routes = Router::new().route("/hook", post(take));
    tokio::spawn(async move { axum::serve(receiver, routes).await.unwrap() });
    let mut listen = command();
    listen.args(["events", "listen", "--after", "0", "--forward-to", &url, "--url", &dev.url]);
    let _listen = Program::start(&mut listen);
    let from = dev_accounts()[0].address.to_string();
    let args = ["tx", "send", "--from", &from, "--to", TARGET, "--url", &dev.url];
    let sent = Ran::of(command().args(args));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "TxConfirmed") {
        let event = within("an event", posts.recv()).await.unwrap();
        kinds.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["TxAccepted", "TxSubmitted", "TxReceiptUpdated", "TxConfirmed"]);
}
