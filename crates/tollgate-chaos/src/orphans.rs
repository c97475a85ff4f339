//! Open work of accounts that no node serves: a further node accepts and signs it, and never comes back.
//! Its sends were swallowed, so somebody else has to send them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::from_value;
use tokio::time::sleep;
use tollgate_api::{Tx, path};
use tollgate_testkit::http::ask;
use tollgate_testkit::wait;

use crate::cluster::{Cluster, ORPHANED};
use crate::event_log::{Accepted, EventLog};
use crate::order::Order;

const NAME: &str = "gone";

const REPEAT: Duration = Duration::from_millis(200);

/// Leaves so many signed transactions of each account behind.
pub(crate) async fn leave(cluster: &Cluster, log: &Arc<EventLog>, of_each: u64) {
    let node = cluster.start_one_that_sends_nothing(NAME, ORPHANED).await;
    let orders = ORPHANED.flat_map(|account| (0..of_each).map(move |n| Order::new(account, n)));
    let mut tx_ids = Vec::new();
    for order in orders {
        let tx = create(node.port, &order).await;
        tx_ids.push(tx.tx_id.clone());
        let Order { account, value } = order;
        log.accept(&order.request(), Accepted { account, value, tx_id: tx.tx_id });
    }
    for tx_id in &tx_ids {
        wait::until("a transaction to be sent", || async {
            let said = ask(node.port, "GET", &path::tx(tx_id), "").await.ok()?;
            (said.body["state"] == "TRACKING").then_some(())
        })
        .await;
    }
    node.process.lock().await.kill().await;
    let count = tx_ids.len();
    log.tell(&format!("orphans: {count} of {} accounts that no node serves", ORPHANED.len()));
}

/// Creates until it is accepted: the node may still be taking the account.
async fn create(port: u16, order: &Order) -> Tx {
    let body = serde_json::to_string(&order.create()).unwrap();
    loop {
        if let Ok(said) = ask(port, "POST", path::TX, &body).await
            && [200, 202].contains(&said.status)
        {
            return from_value(said.body).unwrap();
        }
        sleep(REPEAT).await;
    }
}
