//! Two real nodes whose API asks for certificates: they forward to each other over mTLS.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tollgate_devchain::dev_accounts;
use tollgate_testkit::cluster::write_keys;
use tollgate_testkit::{PgServer, wait};

use super::stage::{SENDERS, create};
use crate::program::{Program, command, free_port};
use crate::start::chain;
use crate::tls::Authority;

/// Runs a client command with a caller's certificate; the JSON that it printed.
fn ask(ca: &Authority, port: u16, args: &[&str]) -> Option<Value> {
    let mut client = command();
    client.args(args).args(["--json", "--url", &format!("https://127.0.0.1:{port}")]);
    client.arg("--ca-file").arg(ca.path("ca.pem"));
    client.arg("--client-cert-file").arg(ca.path("caller.pem"));
    client.arg("--client-key-file").arg(ca.path("caller.key"));
    let ran = client.output().unwrap();
    ran.status.success().then(|| serde_json::from_slice(&ran.stdout).unwrap())
}

fn serve(name: &str, port: u16, ca: &Authority, urls: (&str, &str), keys: &str) -> Command {
    let mut serve = command();
    serve
        .args(["serve", "--no-auth", "--node-name", name])
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .args(["--database-url", urls.0, "--rpc-url", urls.1, "--private-key-file", keys])
        .env("TOLLGATE_TLS_CERT_FILE", ca.path("server.pem"))
        .env("TOLLGATE_TLS_KEY_FILE", ca.path("server.key"))
        .env("TOLLGATE_TLS_CLIENT_CA_FILE", ca.path("ca.pem"))
        .env("TOLLGATE_CLUSTER_CA_FILE", ca.path("ca.pem"))
        .env("TOLLGATE_CLUSTER_CERT_FILE", ca.path("node.pem"))
        .env("TOLLGATE_CLUSTER_KEY_FILE", ca.path("node.key"))
        .env("RUST_LOG", "warn");
    serve
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_forward_to_each_other_over_mutual_tls() {
    let (server, chain, ca) = (PgServer::start().await, chain().await, Authority::new());
    for name in ["server", "node", "caller"] {
        ca.sign(name);
    }
    let keys = ca.path("keys");
    write_keys(&keys, SENDERS);
    let database = server.url(&server.fresh_database().await);
    let (urls, keys) = ((database.as_str(), chain.url()), keys.to_str().unwrap());
    let ports = [free_port(), free_port()];
    let _nodes = ["a", "b"]
        .into_iter()
        .zip(ports)
        .map(|(name, port)| Program::start(&mut serve(name, port, &ca, (urls.0, &urls.1), keys)))
        .collect::<Vec<_>>();
    for port in ports {
        wait::until("a node to answer", || async { ask(&ca, port, &["submitter", "list"]) }).await;
    }
    // Some accounts are preferred at each node: the others' creates are forwarded.
    let mut owners: BTreeMap<String, u32> = BTreeMap::new();
    let node = tollgate_http::HttpClient::with_tls(
        &tollgate_http::Limits {
            connect_timeout: Duration::from_secs(10),
            idle_max: 1,
            response_bytes_max: 1024 * 1024,
        },
        &ca.caller(Some("caller")).client_config().unwrap(),
    );
    let mut forwarded = 0;
    for round in 0..20_u64 {
        for account in SENDERS {
            for (port, at) in ports.into_iter().zip(0..) {
                let uri = format!("https://127.0.0.1:{port}/api/v1/tx").parse().unwrap();
                let mut headers = hyper::HeaderMap::new();
                headers.insert("content-type", "application/json".parse().unwrap());
                let value = 1 + round * 100 + account as u64 * 2 + at;
                let body = create(account, value).into();
                let answer = node.post(&uri, headers, body).await.unwrap();
                // A node that has just started may not know the other one yet.
                if answer.status == 409 && answer.header("retry-after").is_some() {
                    continue;
                }
                assert!([200, 202].contains(&answer.status), "{answer:?}");
                forwarded += u32::from(answer.header("tollgate-forwarded") == Some("1"));
                let owner = answer.header("tollgate-owner").unwrap_or_default().to_owned();
                assert!(owner.is_empty() || owner.starts_with("https://127.0.0.1:"), "{owner}");
                *owners.entry(owner).or_default() += 1;
            }
        }
        if forwarded > 0 {
            break;
        }
        let account = dev_accounts()[0].address.to_string();
        ask(&ca, ports[0], &["submitter", "show", &account]);
    }
    assert!(forwarded > 0, "{owners:?}");
}
