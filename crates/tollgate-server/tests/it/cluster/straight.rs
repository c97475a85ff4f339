//! Clients that go straight to the owner.

use std::process::Command;

use serde_json::Value;

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
