//! `tollgate bench` against `tollgate dev`: the real binary on both sides.

use std::io::{BufRead, BufReader, Lines};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tollgate_testkit::wait::until;

const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// A node on its own dev chain; killed when it is dropped.
struct Dev {
    process: Child,
    /// Kept open: a program that can't print ends.
    _said: Lines<BufReader<ChildStdout>>,
    url: String,
    rpc_url: String,
}

impl Dev {
    async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let args = ["dev", "--block-interval", "50ms", "--finality", "confirmations:2"];
        let mut process = Command::new(TOLLGATE)
            .args(args)
            .args(["--window", "500", "--listen", &listen])
            .env("RUST_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let chain = said.by_ref().map_while(Result::ok).find_map(|line| {
            line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned)
        });
        let rpc_url = chain.expect("dev says where its chain is");
        until("the node to listen", || async { TcpStream::connect(&listen).ok() }).await;
        Self { process, _said: said, url: format!("http://{listen}"), rpc_url }
    }

    fn bench(&self, more: &[&str]) -> Output {
        let mut command = Command::new(TOLLGATE);
        command.args(["bench", "--json", "--url", &self.url]).args(more);
        command.env_remove("TOLLGATE_API_KEY").output().unwrap()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
