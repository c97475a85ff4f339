//! Clients that go straight to the owner.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_client::Client;
use tollgate_devchain::dev_accounts;

use super::stage::{SENDERS, Stage};
use crate::program::command;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_learns_who_owns_needs_hardly_any_forwarding() {
    let stage = Stage::set("6s", "500ms").await;
    let nodes = [stage.node("a").await, stage.node("b").await, stage.node("c").await];
    let urls: Vec<String> =
        nodes.iter().map(|node| format!("http://127.0.0.1:{}", node.port)).collect();
    let submitters = SENDERS.len().to_string();
    let mut bench: Command = command();
    bench
        .args(["bench", "--json", "--nodes", &urls.join(","), "--submitters", &submitters])
        .args(["--count", "600", "--concurrency", "12", "--rpc-url", &stage.rpc_url()]);
    let output = tokio::task::spawn_blocking(move || bench.output().unwrap()).await.unwrap();
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(output.status.success() && said["good"] == true, "{said}");
    assert_eq!((&said["accepted"], &said["verification"]["mined"]), (&600.into(), &600.into()));
    let routing = &said["routing"];
    eprintln!("{routing}");
    assert!(routing["calls"].as_u64().unwrap() >= 600, "{routing}");
    assert!(routing["directShare"].as_f64().unwrap() > 0.95, "{routing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_finds_owners_and_finds_them_again_when_one_is_killed() {
    let stage = Stage::set("3s", "1s").await;
    let mut nodes = vec![stage.node("a").await, stage.node("b").await, stage.node("c").await];
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let client = Client::new(nodes.iter().map(|node| url(node.port))).unwrap();
    let (mut accepted, mut forwarded) = (BTreeMap::new(), 0);
    let mut round = async |number: u64| {
        for account in SENDERS {
            let accounts = dev_accounts();
            let value = (account as u64 + 1) * 1_000 + number;
            let payload = json!({
                "to": accounts[9].address, "value": value.to_string(), "gas": 30_000,
            });
            let order = format!("order-{value}");
            let answer = client.create(accounts[account].address, &order, &payload).await.unwrap();
            forwarded += u64::from(answer.forwarded);
            accepted.insert(answer.body["txId"].as_str().unwrap().to_owned(), value);
        }
        forwarded
    };
    let learning = round(0).await;
    for number in 1..=5 {
        // Ownership may still move to where it should be, so now and then one is passed on.
        assert!(round(number).await <= learning + SENDERS.len() as u64);
    }
    let (owner, _) = nodes[0].owner_of(0).await.unwrap();
    let place = nodes.iter().position(|node| node.name == owner).unwrap();
    nodes.remove(place).program.signal("KILL");
    for number in 6..=8 {
        round(number).await;
    }
    stage.check(&nodes[0], &accepted).await;
}
