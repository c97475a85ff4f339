//! Nodes that have different keys: each account is worked for where its key is, and any node takes any
//! request.

use std::collections::BTreeMap;

use tollgate_testkit::{postgres, wait};

use super::stage::{SENDERS, Stage, ask, create};

/// Longer than an owner waits before it lets go for a node that is preferred: three heartbeats.
const HEARTBEATS: i32 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_different_keys_take_every_request_and_no_account_moves() {
    let stage = Stage::set("6s", "500ms").await;
    let (mine, yours): (Vec<usize>, Vec<usize>) = SENDERS.partition(|account| account % 2 == 0);
    let (a, b) = (stage.node_for("a", &mine).await, stage.node_for("b", &yours).await);
    let ports = [a.port, b.port];
    let mut accepted = BTreeMap::new();
    let mut value = 0;
    // Once they know of each other.
    for (port, account) in [(a.port, yours[0]), (b.port, mine[0])] {
        value += 1;
        let said = wait::until("the other node's account to be known", || async {
            let said = ask(port, "POST", "/api/v1/tx", &create(account, value)).await.ok()?;
            (said.status == 202).then_some(said)
        })
        .await;
        accepted.insert(said.body["txId"].as_str().unwrap().to_owned(), value);
    }
    let client = postgres::connect(&stage.database_url).await.unwrap();
    let beaten = format!(
        "select count(*) = 2 and bool_and(heartbeat_at > started_at + {HEARTBEATS} * interval '500 ms')
           from node"
    );
    let mut is_over = false;
    while !is_over {
        for account in SENDERS {
            value += 1;
            let port = ports[value as usize % 2];
            let said = ask(port, "POST", "/api/v1/tx", &create(account, value)).await.unwrap();
            assert_eq!(said.status, 202, "account {account} at {port}: {:?}", said.body);
            accepted.insert(said.body["txId"].as_str().unwrap().to_owned(), value);
        }
        is_over = client.query_one(&beaten, &[]).await.unwrap().get(0);
    }
    for (node, accounts) in [(&a, &mine), (&b, &yours)] {
        for account in accounts {
            let owner = node.owner_of(*account).await;
            assert_eq!(owner, Some((node.name.clone(), 1)), "account {account} never moved");
        }
    }
    stage.check(&a, &accepted).await;
}
