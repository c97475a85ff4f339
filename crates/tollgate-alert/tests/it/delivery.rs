//! From an alert of an engine to the receivers, over a store that two nodes share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate_alert::{AlertCollector, AlertDelivery, OnNewAlert, Sink, SinkKind};
use tollgate_model::alert::{AlertLevel, AlertSubject};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{Alert, AlertKind, Alerts, Page, Store};
use tollgate_model::{NodeId, Timestamp};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use uuid::Uuid;

use crate::receiver::{Received, Receiver};
use crate::support::{FixedClock, account, options, sink};

/// A node's part: its collector and its tasks.
struct Node {
    collector: AlertCollector,
    delivery: AlertDelivery,
}

impl Node {
    fn start(store: &Arc<dyn Store>, name: &str, sinks: Vec<Sink>) -> Self {
        let (node, raised) = (NodeId::new(name, Uuid::now_v7()).unwrap(), Arc::new(Notify::new()));
        let clock: Arc<dyn Clock> = Arc::new(FixedClock);
        let (collector, _) = collect(store, &node, sinks.clone(), &raised, Box::new(|_, _| {}));
        let delivery = AlertDelivery::start(store, &node, &clock, sinks, &raised);
        Self { collector, delivery }
    }
}

fn collect(
    store: &Arc<dyn Store>,
    node: &NodeId,
    sinks: Vec<Sink>,
    raised: &Arc<Notify>,
    on_new: OnNewAlert,
) -> (AlertCollector, JoinHandle<()>) {
    AlertCollector::start(store.clone(), node.clone(), sinks, raised.clone(), on_new)
}

async fn store() -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(SqliteOptions::memory()).await.unwrap())
}

fn alert(kind: AlertKind) -> Alert {
    Alert { kind, submitter: account(), tx_id: None, nonce: None, detail: "words".to_owned() }
}

fn ok(_: &Received) -> Option<(u16, &'static str, String)> {
    Some((200, "", "ok".to_owned()))
}

/// Waits until the store holds what is expected.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), looking).await.expect(what)
}

/// I11.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_see_the_same_condition_send_one_message_and_one_when_it_is_over() {
    let (receiver, store) = (Receiver::start(ok).await, store().await);
    let sinks = vec![sink(SinkKind::Slack, &receiver.url, None)];
    let nodes = [Node::start(&store, "a", sinks.clone()), Node::start(&store, "b", sinks)];
    for _ in 0..20 {
        nodes.iter().for_each(|node| node.collector.raise(&alert(AlertKind::Stuck)));
    }
    let first = receiver.next().await.json();
    assert!(first["text"].as_str().unwrap().starts_with("[CRITICAL]"), "{first}");
    let page = Page::new(10).unwrap();
    let open = until("all reports", async || {
        let open = store.alerts(true, page).await.unwrap();
        // Reports of the same condition are joined while they wait.
        (open[0].times >= 2).then(|| open[0].clone())
    });
    let open = open.await;
    let far = Timestamp::from_unix_micros(i64::MAX / 2);
    until("delivery", async || {
        let sent: u64 = nodes.iter().map(|node| node.delivery.counts().get()[0]).sum();
        (sent == 1).then_some(())
    })
    .await;
    assert!(store.resolve_alert(open.alert_id, far).await.unwrap());
    let second = receiver.next().await.json();
    assert!(second["text"].as_str().unwrap().starts_with("[RESOLVED]"), "{second}");
    for node in nodes {
        node.delivery.stop().await;
    }
    assert!(receiver.rest().await.is_empty(), "each was sent once");
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_that_never_answers_delays_no_other_and_nobody_who_raises() {
    let (good, store) = (Receiver::start(ok).await, store().await);
    let silent = Receiver::start(|_: &Received| None).await;
    let mut slow = options(SinkKind::Slack, &silent.url, None);
    slow.name = "silent".to_owned();
    let sinks = vec![Sink::new(slow).unwrap(), sink(SinkKind::Slack, &good.url, None)];
    let node = Node::start(&store, "a", sinks);
    node.collector.raise(&alert(AlertKind::Stuck));
    silent.next().await;
    good.next().await;
    node.collector.raise(&alert(AlertKind::Hole));
    good.next().await;
    assert!(silent.rest().await.is_empty(), "its first message is still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_message_is_given_up_and_counted() {
    let (receiver, store) = (
        Receiver::start(|_: &Received| Some((404, "", "no_service".to_owned()))).await,
        store().await,
    );
    let node = Node::start(&store, "a", vec![sink(SinkKind::Slack, &receiver.url, None)]);
    node.collector.raise(&alert(AlertKind::Stuck));
    receiver.next().await;
    until("the outcome", async || (node.delivery.counts().get() == [0, 0, 1]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_of_one_moment_share_a_message() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let receiver = Receiver::start(|received: &Received| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        ok(received)
    })
    .await;
    let store = store().await;
    let node = Node::start(&store, "a", Vec::new());
    let sinks = vec![sink(SinkKind::Slack, &receiver.url, None)];
    // Written while no sink is served.
    let (other, raised) = (NodeId::new("b", Uuid::now_v7()).unwrap(), Arc::new(Notify::new()));
    let (writer, writing) = collect(&store, &other, sinks.clone(), &raised, Box::new(|_, _| {}));
    for kind in [AlertKind::Stuck, AlertKind::Hole, AlertKind::Protect] {
        writer.report(kind, AlertSubject::account(account()), AlertLevel::Critical, "x");
    }
    drop(writer);
    writing.await.unwrap();
    node.delivery.stop().await;
    let served = Node::start(&store, "c", sinks);
    let body = receiver.next().await.json();
    assert_eq!(body["blocks"].as_array().unwrap().len(), 3);
    served.delivery.stop().await;
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

/// I13.
#[tokio::test]
async fn reports_beyond_the_queue_are_counted_and_make_nobody_wait() {
    let store = store().await;
    let node = NodeId::new("a", Uuid::now_v7()).unwrap();
    let raised = Arc::new(Notify::new());
    let (collector, _) = collect(&store, &node, Vec::new(), &raised, Box::new(|_, _| {}));
    // The runtime has one thread: nothing is written before this task waits.
    for _ in 0..1_500 {
        collector.raise(&alert(AlertKind::Stuck));
    }
    assert_eq!(collector.dropped(), 500);
}

#[tokio::test]
async fn new_alert_is_counted_once_by_the_node_that_raised_it() {
    let (store, raised) = (store().await, Arc::new(Notify::new()));
    let counted = Arc::new(Mutex::new(Vec::new()));
    for name in ["a", "b"] {
        let node = NodeId::new(name, Uuid::now_v7()).unwrap();
        let seen = counted.clone();
        let on_new = Box::new(move |kind, subject: &AlertSubject| {
            seen.lock().unwrap().push((name, kind, subject.submitter()));
        });
        let (collector, writing) = collect(&store, &node, Vec::new(), &raised, on_new);
        for kind in [AlertKind::Stuck, AlertKind::Stuck, AlertKind::LowBalance] {
            collector.raise(&alert(kind));
        }
        if name == "b" {
            collector.raise(&alert(AlertKind::Hole));
        }
        drop(collector);
        writing.await.unwrap();
    }
    let mut counted = counted.lock().unwrap().clone();
    counted.sort();
    let of = Some(account());
    let expected =
        [("a", AlertKind::Stuck, of), ("a", AlertKind::LowBalance, of), ("b", AlertKind::Hole, of)];
    assert_eq!(counted, expected);
}
