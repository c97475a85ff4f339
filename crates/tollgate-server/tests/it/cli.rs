//! The client commands: the real binary against `tollgate dev`.

use std::process::Stdio;

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::{rpc, wait};

use crate::dev::Dev;
use crate::program::{Program, Ran, command};

impl Ran {
    /// The value beside a name.
    pub(crate) fn field(&self, name: &str) -> &str {
        let mut lines = self.out.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix("  "));
        found.unwrap_or_else(|| panic!("no {name:?} in {self:?}")).trim_start()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

impl Dev {
    /// Runs a command against this node.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(command().args(args).env("TOLLGATE_URL", &self.url))
    }

    /// The same, which must end well.
    pub(crate) fn good(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}: {ran:?}");
        ran
    }

    pub(crate) async fn hold_mining(&self) {
        rpc::call(&self.rpc_url, "devchain_pauseMining", json!([])).await;
    }

    pub(crate) async fn resume_mining(&self) {
        rpc::call(&self.rpc_url, "devchain_resumeMining", json!([])).await;
    }

    /// Sends while no block comes; the id of what a node has.
    pub(crate) async fn pending(&self, request_id: &str) -> String {
        let (from, to) = (account(0), account(1));
        let args = ["tx", "send", "--from", &from, "--to", &to, "--request-id", request_id];
        let tx_id = self.good(&[&args[..], &["--replaceable"]].concat()).field("tx").to_owned();
        wait::until("a node to have it", || async {
            let tx = self.good(&["tx", "get", &tx_id]);
            (tx.field("state") == "TRACKING/PENDING").then_some(())
        })
        .await;
        tx_id
    }
}

pub(crate) fn account(number: usize) -> String {
    dev_accounts()[number].address.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_transaction_can_be_waited_for_shown_and_listed() {
    let dev = Dev::start().await;
    let (from, to) = (account(0), account(1));
    let notes = r#"{"z":1,"a":"é"}"#;
    let send = ["tx", "send", "--from", &from, "--to", &to, "--value", "1.5eth"];
    let named = ["--request-id", "order 1/é", "--metadata", notes, "--speed", "fast"];
    let until = ["--max-fee-per-gas", "900gwei", "--valid-until", "2999-01-01T00:00:00Z"];
    let wait = ["--gas", "30000", "--wait"];
    let sent = dev.good(&[&send[..], &named, &until, &wait].concat());
    assert_eq!((sent.field("state"), sent.field("result")), ("CONFIRMED", "success"));
    assert_eq!((sent.field("request"), sent.field("gas used")), ("order 1/é", "21000"));
    assert_eq!(sent.field("valid until"), "2999-01-01T00:00:00Z");
    let mined = json!([sent.field("hash")]);
    let mined = rpc::call(&dev.rpc_url, "eth_getTransactionByHash", mined).await;
    assert_eq!(rpc::number(&mined["value"]), 1_500_000_000_000_000_000);
    assert_eq!(rpc::number(&mined["gas"]), 30_000);

    let again = dev.good(&[&send[..], &named, &until, &wait[..2], &["--json"]].concat()).json();
    assert_eq!(again["txId"], sent.field("tx"), "the same request");
    assert_eq!(again["metadata"], json!({ "z": 1, "a": "é" }));
    let other = dev.run(&["tx", "send", "--from", &from, "--to", &to, "--request-id", "order 1/é"]);
    assert_eq!((other.code, other.out.as_str()), (Some(1), ""));
    assert!(other.err.contains("The request id is in use with another payload"), "{other:?}");

    let found = dev.good(&["tx", "get", "--from", &from, "--request-id", "order 1/é"]);
    assert_eq!(found.field("tx"), sent.field("tx"));
    let seen = dev.good(&["tx", "get", sent.field("tx"), "--operator"]);
    assert_eq!(seen.field("nonce"), "0");
    assert!(seen.out.contains("1  intent  mined"), "{seen:?}");

    let unnamed = dev.good(&["tx", "send", "--from", &account(3), "--to", &to, "--wait"]);
    assert!(unnamed.field("request").starts_with("cli-"), "{unnamed:?}");
    let list = dev.good(&["tx", "list", "--submitter", &from, "--state", "CONFIRMED"]);
    let lines: Vec<&str> = list.out.lines().collect();
    assert_eq!(lines.len(), 2, "{list:?}");
    assert_eq!(lines[0].find("STATE"), lines[1].find("CONFIRMED"), "aligned: {list:?}");
    let first = dev.run(&["tx", "list", "--limit", "1"]);
    let next = first.err.trim().strip_prefix("more with --cursor ").unwrap();
    let second = dev.run(&["tx", "list", "--limit", "1", "--cursor", next]);
    assert!(second.out.contains(sent.field("tx")), "{second:?}");
    let early = dev.good(&["tx", "list", "--until", "2020-01-01T00:00:00Z"]);
    assert_eq!(early.out.lines().count(), 1, "{early:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_flag_prints_the_answer_unchanged() {
    let dev = Dev::start().await;
    let from = account(0);
    let sent = dev.good(&["tx", "send", "--from", &from, "--to", &from, "--wait", "--json"]).json();
    assert_eq!(sent["state"], "CONFIRMED");
    let tx_id = sent["txId"].as_str().unwrap();
    for (args, path) in [
        (vec!["tx", "get", tx_id], format!("/api/v1/tx/{tx_id}")),
        (vec!["tx", "get", tx_id, "--operator"], format!("/api/v1/tx/{tx_id}?view=operator")),
        (vec!["tx", "list"], "/api/v1/tx?limit=20".to_owned()),
        (vec!["submitter", "list", "--limit", "2"], "/api/v1/submitters?limit=2".to_owned()),
    ] {
        let ran = dev.good(&[&args[..], &["--json"]].concat());
        let (_, body) = rpc::request("GET", &format!("{}{path}", dev.url), "").await.unwrap();
        assert_eq!(ran.out, format!("{body}\n"), "{args:?}");
    }
    let trail = dev.good(&["tx", "watch", tx_id, "--json"]).out;
    let events: Vec<Value> =
        trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.first().unwrap()["event"], "created");
    assert_eq!(events.last().unwrap()["to"]["state"], "CONFIRMED");
    let none = "0198c0de-7a11-7000-8000-00000000cafe";
    let refused = dev.run(&["tx", "get", none, "--json"]);
    assert_eq!((refused.code, &refused.json()["code"]), (Some(1), &json!("not_found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_step_in_and_watch_what_comes_of_it() {
    let dev = Dev::start().await;
    dev.hold_mining().await;
    let tx_id = dev.pending("slow").await;
    let faster = dev.good(&["tx", "speed-up", &tx_id, "--reason", "in a hurry"]);
    assert_eq!(faster.field("outcome"), "signed");
    assert_eq!(faster.field("new hash"), faster.field("hash"));
    let price = ["--max-fee-per-gas", "300gwei", "--max-priority-fee-per-gas", "50gwei"];
    let dearer = dev.good(&[&["tx", "replace", &tx_id][..], &price].concat());
    assert!(dearer.out.contains("300 gwei"), "{dearer:?}");
    let other = ["tx", "replace", &tx_id, "--to", &account(5), "--value", "3", "--gas", "50000"];
    assert!(dev.good(&other).out.contains("replacement"));
    assert_eq!(dev.good(&["tx", "resubmit", &tx_id]).field("outcome"), "resent");
    assert_eq!(dev.good(&["tx", "resolve", &tx_id]).field("outcome"), "under_way");

    let mut watch = command();
    watch.args(["tx", "watch", &tx_id]).env("TOLLGATE_URL", &dev.url);
    let watch = Program::start(&mut watch);
    watch.line_with("created").await;
    let cancelled = dev.good(&["tx", "cancel", &tx_id, "--reason", "changed my mind"]);
    assert_eq!(cancelled.field("outcome"), "signed");
    watch.line_with("changed my mind").await;
    let hash = cancelled.field("new hash");
    wait::until("it to be in a pool", || async {
        let found = rpc::call(&dev.rpc_url, "eth_getTransactionByHash", json!([hash])).await;
        (!found.is_null()).then_some(())
    })
    .await;
    dev.resume_mining().await;
    watch.line_with("FAILED_FINAL/CANCELLED").await;
    assert_eq!(watch.end().code, Some(1), "it was not executed");
    let late = dev.run(&["tx", "speed-up", &tx_id]);
    assert_eq!(
        (late.code, late.err.as_str()),
        (Some(1), "tollgate: The transaction is final: it is final\n")
    );
    assert_eq!(dev.good(&["tx", "cancel", &tx_id]).field("outcome"), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn submitters_are_listed_paused_resumed_remoded_and_compared() {
    let dev = Dev::start().await;
    let from = account(0);
    let paused = dev.good(&["submitter", "pause", &from, "--reason", "key rotation"]);
    assert_eq!((paused.field("status"), paused.field("was")), ("PAUSED", "ACTIVE"));
    let sent = dev.good(&["tx", "send", "--from", &from, "--to", &from]);
    let tx_id = sent.field("tx");
    assert_eq!(dev.good(&["tx", "get", tx_id]).field("state"), "QUEUED/HELD");
    let shown = dev.good(&["submitter", "show", &from.to_lowercase()]);
    assert_eq!((shown.field("reason"), shown.field("queued")), ("key rotation", "1"));
    let list = dev.good(&["submitter", "list", "--wide"]);
    let line = list.out.lines().find(|line| line.starts_with(&from)).unwrap();
    assert!(line.contains("PAUSED"), "{line}");
    let resumed = dev.good(&["submitter", "resume", &from, "--reason", "rotated"]);
    assert_eq!((resumed.field("status"), resumed.field("was")), ("ACTIVE", "PAUSED"));
    assert_eq!(dev.good(&["tx", "watch", tx_id]).out.matches("CONFIRMED").count(), 1);
    let remoded = dev.good(&["submitter", "mode", &from, "strict", "--reason", "bridge"]);
    assert_eq!((remoded.field("mode"), remoded.field("was mode")), ("strict", "pipelined"));
    let back = dev.good(&["submitter", "mode", &from, "pipelined", "--reason", "done"]);
    assert_eq!((back.field("mode"), back.field("was mode")), ("pipelined", "strict"));
    let compared = dev.good(&["submitter", "reconcile", &from]);
    assert_eq!((compared.field("chain nonce"), compared.field("pending nonce")), ("1", "1"));
    assert_eq!(compared.field("step"), "none: everything agrees");
    let fill = ["submitter", "fill", &from, "--first", "0", "--last", "0", "--with", "placeholder"];
    let filled = dev.run(&[&fill[..], &["--reason", "drill"]].concat());
    assert_eq!((filled.field("handed back"), filled.field("chain nonce")), ("0", "1"));
    let nothing = "tollgate: nothing to fill: the chain or a pool counts all 1 nonces\n";
    assert_eq!((filled.code, filled.err.as_str()), (Some(0), nothing));
    let filled = dev.run(&[&fill[..], &["--reason", "drill", "--json"]].concat()).json();
    assert_eq!((&filled["handedBack"], &filled["taken"]), (&json!(0), &json!(0)), "{filled}");
    assert_eq!((&filled["counted"], &filled["free"]), (&json!(1), &json!(0)), "{filled}");
    assert_eq!(filled["address"], json!(from));
    let beyond = dev.run(&["submitter", "advance", &from, "9", "--reason", "drill"]);
    assert_eq!(beyond.code, Some(1));
    let stranger = dev.run(&["submitter", "show", "0x0101010101010101010101010101010101010101"]);
    assert_eq!(stranger.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_lists_what_was_asked_for_newest_first() {
    let dev = Dev::start().await;
    let from = account(0);
    dev.good(&["submitter", "pause", &from, "--reason", "key rotation"]);
    dev.good(&["submitter", "resume", &from, "--reason", "rotated"]);
    let listed = dev.good(&["audit", "list", "--wide"]).out;
    let lines: Vec<&str> = listed.lines().collect();
    for (line, action, reason) in
        [(lines[1], "resumeSubmitter", "rotated"), (lines[2], "pauseSubmitter", "key rotation")]
    {
        for part in [action, &*from, "127.0.0.1", reason] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    let newest = dev.run(&["audit", "list", "--limit", "1"]);
    assert_eq!((newest.out.lines().count(), newest.code), (2, Some(0)), "{newest:?}");
    let cursor = newest.err.trim().rsplit(' ').next().unwrap();
    let next = dev.good(&["audit", "list", "--cursor", cursor, "--json"]).json();
    assert_eq!(next["items"][0]["action"], "pauseSubmitter", "{next}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_is_printed_and_followed() {
    let dev = Dev::start().await;
    let (from, to) = (account(0), account(1));
    let mut follow = command();
    follow.args(["completions", "--follow", "--url", &dev.url]);
    let follow = Program::start(&mut follow);
    for name in ["one", "two"] {
        let send = ["tx", "send", "--from", &from, "--to", &to, "--request-id", name, "--wait"];
        dev.good(&send);
        let line = follow.line_with(name).await;
        assert!(line.contains("CONFIRMED"), "{line}");
    }
    follow.signal("INT");
    let lines = follow.end().lines;
    assert_eq!(lines.len(), 2, "each is told once: {lines:?}");
    let all = dev.good(&["completions"]).out;
    assert_eq!(all.lines().map(|line| line.starts_with(['1', '2'])).collect::<Vec<_>>(), [true; 2]);
    let rest = dev.good(&["completions", "--after", "1", "--json"]).json();
    assert_eq!((&rest["seq"], &rest["requestId"]), (&json!(2), &json!("two")));
    assert_eq!(dev.good(&["completions", "--after", "2"]).out, "");

    let mut unread = command();
    unread.args(["completions", "--url", &dev.url]).stdout(Stdio::piped());
    let mut unread = unread.spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().unwrap().code(), Some(0), "nobody reads: no error");
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_code_tells_refusal_usage_error_and_unreachable_node_apart() {
    let dev = Dev::start().await;
    let from = account(0);
    let reason = ["--reason", "x"];
    for (code, args, words) in [
        (1, vec!["tx", "get", "nonsense"], "Invalid transaction id"),
        (1, vec!["tx", "get", "../submitters"], "Invalid transaction id"),
        (1, vec!["tx", "watch", "0198c0de-7a11-7000-8000-00000000cafe"], "no such transaction"),
        (1, vec!["tx", "cancel", "0198c0de-7a11-7000-8000-00000000cafe"], "no such transaction"),
        (1, vec!["tx", "list", "--state", "DONE"], "Invalid state"),
        (1, vec!["tx", "send", "--from", "0x12", "--to", &from], "Invalid address"),
        (1, [&["submitter", "pause", "0x12"][..], &reason].concat(), "Invalid address"),
        (1, vec!["completions", "--after", "18446744073709551615"], "Invalid cursor"),
        (1, vec!["tx", "list", "--url", &dev.rpc_url], "not the answer of a Tollgate node"),
        (2, vec!["tx", "send", "--from", &from], "--to"),
        (2, vec!["tx", "send", "--from", &from, "--to", &from, "--value", "1.5"], "whole number"),
        (2, vec!["tx", "send", "--from", &from, "--to", &from, "--speed", "warp"], "slow"),
        (2, vec!["tx", "send", "--from", &from, "--to", &from, "--metadata", "{"], "not JSON"),
        (2, vec!["tx", "get"], "TX_ID"),
        (2, vec!["tx", "replace", "id"], "--max-fee-per-gas"),
        (2, vec!["tx", "replace", "id", "--max-fee-per-gas", "5", "--gas", "5"], "--to"),
        (2, vec!["submitter", "resume", &from], "--reason"),
        (2, vec!["tx", "list", "--url", "ftp://127.0.0.1"], "http://"),
        (3, vec!["tx", "list", "--url", "http://127.0.0.1:1"], "can't be reached"),
        (3, vec!["submitter", "list", "--url", "http://127.0.0.1:1"], "can't be reached"),
        (3, vec!["completions", "--follow", "--url", "http://127.0.0.1:1"], "can't be reached"),
        (
            3,
            vec!["tx", "send", "--from", &from, "--to", &from, "--url", "http://127.0.0.1:1"],
            "repeat the command with --request-id cli-",
        ),
    ] {
        let ran = dev.run(&args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(words), "{args:?}: {ran:?}");
    }
    let nobody = dev.run(&["tx", "list", "--url", "http://127.0.0.1:1", "--json"]);
    let problem = nobody.json();
    assert_eq!((nobody.code, &problem["code"]), (Some(3), &json!("unreachable")));
    assert!(problem["detail"].as_str().unwrap().contains("can't be reached"), "{problem}");
}
