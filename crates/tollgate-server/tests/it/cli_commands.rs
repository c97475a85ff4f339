//! Commands for single jobs: simulate, batch, raw, history, CSV, nodes, reservations, authorizations.

use std::fs::File;

use serde_json::{Value, json};
use tollgate_testkit::{rpc, wait};

use crate::cli::account;
use crate::dev::Dev;
use crate::program::{Program, Ran, command};
use crate::signed::signed_by;

impl Dev {
    /// Runs a command that reads this text from stdin.
    fn with_input(&self, args: &[&str], input: &str) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        std::fs::write(&file, input).unwrap();
        let input = File::open(file).unwrap();
        Ran::of(command().args(args).env("TOLLGATE_URL", &self.url).stdin(input))
    }

    async fn chain_id(&self) -> u64 {
        rpc::number(&rpc::call(&self.rpc_url, "eth_chainId", json!([])).await)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn simulation_shows_the_cost_and_uses_no_nonce() {
    let dev = Dev::start().await;
    let (from, to) = (account(0), account(1));
    let call = ["tx", "simulate", "--from", &from, "--to", &to, "--value", "1eth"];
    let tried = dev.good(&call);
    assert_eq!((tried.field("submitter"), tried.field("gas")), (from.as_str(), "25200"));
    assert!(tried.field("max cost").starts_with("1.0"), "{tried:?}");
    assert!(tried.field("max fee").ends_with("gwei"), "{tried:?}");
    assert_eq!(dev.good(&[&call[..], &["--json"]].concat()).json()["simulated"], true);
    assert_eq!(dev.good(&["submitter", "show", &from]).field("next nonce"), "0");
    let broke = ["tx", "simulate", "--from", &from, "--to", &to, "--value", "99999eth"];
    assert_eq!(dev.run(&broke).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_answers_each_line_and_a_repeat_pays_nothing_twice() {
    let dev = Dev::start().await;
    let (from, to) = (account(0), account(1));
    let line = |id: &str, to: &str| {
        json!({ "submitter": from, "requestId": id, "payload": { "to": to, "value": "1" } })
            .to_string()
    };
    let text = format!("{}\n\n{}\n{}\n", line("提币-1", &to), line("b", "0x12"), line("c", &to));
    let sent = dev.with_input(&["tx", "batch"], &text);
    assert_eq!(sent.code, Some(1), "{sent:?}");
    assert_eq!(sent.err, "tollgate: one line was refused\n");
    let lines: Vec<&str> = sent.out.lines().collect();
    assert_eq!(lines.len(), 3, "{sent:?}");
    assert!(lines[0].starts_with("1       202") && lines[0].ends_with("提币-1"), "{sent:?}");
    assert!(lines[1].starts_with("3       422  invalid_address: "), "{sent:?}");
    assert!(lines[2].starts_with("4       202") && lines[2].ends_with("  c"), "{sent:?}");
    let again = dev.with_input(&["tx", "batch", "--json"], &text);
    let answers: Vec<Value> =
        again.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<&Value> = answers.iter().map(|answer| &answer["status"]).collect();
    assert_eq!(statuses, [200, 422, 200], "{again:?}");
    assert_eq!(dev.good(&["submitter", "show", &from]).field("next nonce"), "2");

    let nameless = json!({ "submitter": from, "payload": { "to": to } }).to_string();
    let refused = dev.with_input(&["tx", "batch"], &format!("{}\n{nameless}\n", line("d", &to)));
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.err.contains("line 2: requestId is missing"), "{refused:?}");
    assert_eq!(
        dev.good(&["submitter", "show", &from]).field("next nonce"),
        "2",
        "nothing was sent"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_bytes_are_sent_from_the_command_line_or_from_stdin() {
    let dev = Dev::start().await;
    let signed = signed_by(0, 0, 7, dev.chain_id().await).await;
    let sent = dev.good(&["tx", "raw", &signed, "--wait"]);
    assert_eq!(sent.field("state"), "CONFIRMED");
    let again = dev.with_input(&["tx", "raw"], &format!("{signed}\n"));
    assert_eq!(again.field("tx"), sent.field("tx"), "the same bytes are the same transaction");
    assert_eq!(dev.run(&["tx", "raw", "0x02"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_trail_is_shown_page_by_page() {
    let dev = Dev::start().await;
    let (from, to) = (account(0), account(1));
    let sent = dev.good(&["tx", "send", "--from", &from, "--to", &to, "--wait"]);
    let tx_id = sent.field("tx");
    let history = dev.good(&["tx", "history", tx_id]);
    let last = history.out.lines().last().unwrap();
    assert!(last.contains("finalised") && last.contains("CONFIRMED"), "{history:?}");
    let first = dev.run(&["tx", "history", tx_id, "--limit", "1"]);
    assert!(first.out.lines().nth(1).unwrap().contains("created"), "{first:?}");
    assert_eq!((first.out.lines().count(), first.err.as_str()), (2, "more with --after 1\n"));
    let rest = dev.good(&["tx", "history", tx_id, "--after", "1", "--json"]).json();
    assert_eq!(rest["items"][0]["version"], 2, "{rest}");
    assert_eq!(dev.run(&["tx", "history", "nonsense"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_printed_as_csv_with_the_cursor_of_the_next_page() {
    let dev = Dev::start().await;
    let (from, to) = (account(0), account(1));
    for name in ["one", "two"] {
        dev.good(&["tx", "send", "--from", &from, "--to", &to, "--request-id", name]);
    }
    let all = dev.good(&["tx", "list", "--csv"]);
    let lines: Vec<&str> = all.out.lines().collect();
    assert!(lines[0].starts_with("txId,chainId,submitter,requestId,state"), "{all:?}");
    assert!(
        lines.len() == 3 && lines[1].contains(",two,") && lines[2].contains(",one,"),
        "{all:?}"
    );
    let page = dev.run(&["tx", "list", "--csv", "--limit", "1"]);
    let cursor = page.err.trim().strip_prefix("more with --cursor ").unwrap();
    let next = dev.good(&["tx", "list", "--csv", "--limit", "5", "--cursor", cursor]);
    assert!(next.out.contains(",one,") && !next.out.contains(",two,"), "{next:?}");
    let refused = dev.run(&["tx", "list", "--csv", "--state", "DONE"]);
    assert!(refused.code == Some(1) && refused.err.contains("Invalid state"), "{refused:?}");
    assert_eq!(dev.run(&["tx", "list", "--csv", "--json"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_the_database_are_listed() {
    let dev = Dev::start().await;
    let listed = dev.good(&["nodes"]);
    let line = listed.out.lines().nth(1).unwrap();
    assert!(line.starts_with("31337  ") && line.contains("  alive  20  "), "{listed:?}");
    let listed = dev.good(&["nodes", "--json"]).json();
    let node = &listed["items"][0];
    assert_eq!((&node["url"], &node["draining"]), (&json!(dev.url), &json!(false)), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_are_reserved_given_back_and_reported_as_used() {
    let dev = Dev::start_with(&[("TOLLGATE_RESERVATIONS_ENABLED", "true")]).await;
    let from = account(0);
    let of = |words: &[&str]| dev.good(&[&["submitter", "nonces"], words].concat());
    let held = of(&["reserve", &from, "--hold", "10m"]);
    assert_eq!((held.field("nonce"), held.field("state")), ("0", "RESERVED"));
    let listed = of(&["list", &from]);
    assert!(listed.out.contains("0      RESERVED  in 9m"), "{listed:?}");
    let token = held.field("owner token");
    let back = of(&["recyclable", &from, "0", "--owner-token", token, "--reason", "订单撤销"]);
    assert_eq!((back.field("state"), back.field("reason")), ("RECYCLABLE", "订单撤销"));
    assert!(of(&["list", &from]).out.contains("RECYCLABLE  -"), "{:?}", of(&["list", &from]));
    let again = of(&["reserve", &from]);
    assert_eq!(again.field("nonce"), "0", "the lowest that came back");
    let hash = format!("0x{}", "ab".repeat(32));
    let token = again.field("owner token");
    let used = of(&["used", &from, "0", "--owner-token", token, "--tx-hash", &hash]);
    assert_eq!((used.field("state"), used.field("hash")), ("USED", hash.as_str()));
    let stale = ["submitter", "nonces", "used", &from, "0", "--tx-hash", &hash, "--owner-token"];
    let stranger = "2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11";
    assert_eq!(dev.run(&[&stale[..], &[stranger]].concat()).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn mined_transaction_is_shown_with_its_blocks_of_those_that_it_needs() {
    let dev = Dev::start().await;
    dev.hold_mining().await;
    let tx_id = dev.pending("blocks").await;
    rpc::call(&dev.rpc_url, "devchain_mine", json!([1])).await;
    wait::until("it to be mined", || async {
        let tx = dev.good(&["tx", "get", &tx_id]);
        (tx.field("state") == "TRACKING/MINED").then_some(())
    })
    .await;
    let tx = dev.good(&["tx", "get", &tx_id, "--operator"]);
    assert_eq!(tx.field("blocks"), "1 of 2", "{tx:?}");
    dev.resume_mining().await;
    let tx = dev.good(&["tx", "get", &tx_id, "--wait", "60"]);
    assert_eq!(tx.field("state"), "CONFIRMED");
    assert!(!tx.out.contains("blocks "), "nothing is waited for any more: {tx:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_is_given_as_json_and_judged_by_the_node() {
    let dev = Dev::start().await;
    let (from, authority) = (account(0), account(1));
    let item = json!({
        "chainId": dev.chain_id().await, "address": account(5), "nonce": 0, "authority": authority,
    })
    .to_string();
    let send = ["tx", "send", "--from", &from, "--to", &from, "--gas", "100000"];
    let refused = dev.run(&[&send[..], &["--authorization", &item]].concat());
    let why = format!("authorizationList[0]: nonce 0 of {authority} is not reserved");
    assert!(refused.code == Some(1) && refused.err.contains(&why), "{refused:?}");
    let wrong = dev.run(&[&send[..], &["--authorization", "{}"]].concat());
    assert!(wrong.code == Some(2) && wrong.err.contains("no authorization"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn following_a_node_that_writes_no_events_says_what_they_need() {
    let dev = Dev::start_with(&[("TOLLGATE_EVENTS_ENABLED", "false")]).await;
    let mut follow = command();
    follow.args(["events", "follow"]).env("TOLLGATE_URL", &dev.url);
    let follow = Program::start(&mut follow);
    follow.line_with("no events yet; a node writes them only with events.enabled").await;
}

#[test]
fn help_of_dev_names_its_own_defaults() {
    let ran = Ran::of(command().args(["dev", "--help"]));
    assert!(ran.out.contains("--finality confirmations:2 and a temporary database"), "{ran:?}");
    assert!(!ran.out.contains("]("), "no link of Markdown: {ran:?}");
}
