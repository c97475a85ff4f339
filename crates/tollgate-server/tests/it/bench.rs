//! `tollgate bench` against `tollgate dev`: the real binary on both sides.

use std::process::{Command, Output};

use serde_json::Value;

use crate::dev::{Dev, TOLLGATE};

impl Dev {
    fn bench(&self, more: &[&str]) -> Output {
        let mut command = Command::new(TOLLGATE);
        command.args(["bench", "--json", "--url", &self.url]).args(more);
        command.env_remove("TOLLGATE_API_KEY").output().unwrap()
    }
}

fn figures(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("not JSON: {output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_run_is_verified_on_the_chain() {
    let dev = Dev::start().await;
    let chain = ["--rpc-url", &dev.rpc_url];
    let single = ["--count", "60", "--concurrency", "8", "--submitters", "3", "--seed", "7"];
    let output = dev.bench(&[&single[..], &chain].concat());
    let said = figures(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!((&said["good"], &said["accepted"]), (&Value::Bool(true), &60.into()), "{said}");
    assert_eq!((&said["done"]["count"], &said["verification"]["mined"]), (&60.into(), &60.into()));
    assert_eq!(said["environment"]["submitters"], 3);

    // Again: everything is known, and nothing more is mined.
    let output = dev.bench(&[&single[..], &chain].concat());
    let said = figures(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!((&said["accepted"], &said["known"]), (&0.into(), &60.into()), "{said}");
    assert_eq!(said["verification"]["mined"], 0);

    let batches = ["--count", "70", "--batch", "32", "--concurrency", "2", "--wait", "mined"];
    let output = dev.bench(&[&batches[..], &chain].concat());
    let said = figures(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!((&said["accepted"], &said["done"]["count"]), (&70.into(), &70.into()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_run_against_another_chain_fails() {
    let (dev, other) = (Dev::start().await, Dev::start().await);
    let output = dev.bench(&["--count", "20", "--rpc-url", &other.rpc_url]);
    let said = figures(&output);
    assert!(!output.status.success(), "{said}");
    assert_eq!((&said["good"], &said["done"]["count"]), (&Value::Bool(false), &20.into()));
    assert_eq!(said["verification"]["missing"], 20, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_run_that_is_refused_says_why_and_fails() {
    let dev = Dev::start().await;
    let nobody = "0x0101010101010101010101010101010101010101";
    let output = dev.bench(&["--count", "3", "--submitter", nobody, "--wait", "accepted"]);
    let said = figures(&output);
    assert!(!output.status.success(), "{said}");
    assert_eq!(said["refused"]["unknown_submitter"], 3, "{said}");
}
