//! Two real nodes that ask for keys: a request that is forwarded is its caller's at the other node as well.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_http::{HttpClient, HttpResponse, Limits};
use tollgate_model::access::KeySecret;
use tollgate_testkit::cluster::write_keys;
use tollgate_testkit::{PgServer, wait};

use super::stage::SENDERS;
use crate::program::{Program, Ran, command, free_port};
use crate::start::chain;

fn serve(name: &str, port: u16, database: &str, rpc: &str, keys: &str) -> Command {
    let mut serve = command();
    serve
        .args(["serve", "--node-name", name, "--listen", &format!("127.0.0.1:{port}")])
        .args(["--database-url", database, "--rpc-url", rpc, "--private-key-file", keys])
        .env("RUST_LOG", "warn");
    serve
}

fn new_key(database: &str, args: &[&str]) -> String {
    let mut new = command();
    new.args(["api-key", "new", "--database-url", database, "--name", "test", "--quiet"]);
    let made = Ran::of(new.args(args));
    assert_eq!(made.code, Some(0), "{made:?}");
    made.out.trim().to_owned()
}

struct Client(HttpClient);

impl Client {
    async fn get(&self, port: u16, path: &str, key: &str) -> HttpResponse {
        let mut headers = hyper::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {key}").parse().unwrap());
        let uri = format!("http://127.0.0.1:{port}{path}").parse().unwrap();
        self.0.send(hyper::Method::GET, &uri, headers, hyper::body::Bytes::new()).await.unwrap()
    }

    async fn post(&self, port: u16, path: &str, key: &str, body: &Value) -> HttpResponse {
        let mut headers = hyper::HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("authorization", format!("Bearer {key}").parse().unwrap());
        let uri = format!("http://127.0.0.1:{port}{path}").parse().unwrap();
        self.0.post(&uri, headers, body.to_string().into()).await.unwrap()
    }
}

fn transfer(account: usize, request: &str) -> Value {
    let accounts = dev_accounts();
    let (from, to) = (accounts[account].address.to_string(), accounts[9].address.to_string());
    json!({"submitter": from, "requestId": request, "payload": {"to": to, "value": "1"}})
}

fn tx_id(answer: &HttpResponse, request: &str) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert!([200, 202].contains(&answer.status), "{body}");
    assert_eq!(body["requestId"], request, "{body}");
    body["txId"].as_str().unwrap().to_owned()
}

/// Two nodes that are ready, and that record spans.
async fn start_two(ports: [u16; 2], database: &str, rpc: &str, keys: &Path) -> Vec<Program> {
    let keys = keys.to_str().unwrap();
    let start = |(name, port)| {
        // The signature between nodes covers the trace, which each node writes anew. Nobody collects the spans.
        let mut serve = serve(name, port, database, rpc, keys);
        Program::start(serve.env("TOLLGATE_TRACES_OTLP_URL", "http://127.0.0.1:1"))
    };
    let nodes = ["a", "b"].into_iter().zip(ports).map(start).collect();
    for port in ports {
        wait::until("a ready node", || async {
            crate::program::http_get(port, "/readyz").await.filter(|text| text.contains(" 200 "))
        })
        .await;
    }
    nodes
}

fn client() -> Client {
    let limits = Limits {
        connect_timeout: Duration::from_secs(10),
        idle_max: 1,
        response_bytes_max: 1024 * 1024,
    };
    Client(HttpClient::new(&limits))
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_create_is_its_tenants_at_the_owner_and_needs_its_role_and_scope() {
    let (server, chain) = (PgServer::start().await, chain().await);
    let database = server.url(&server.fresh_database().await);
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    write_keys(&keys, SENDERS);
    let first = dev_accounts()[SENDERS.start].address.to_string();
    let acme = new_key(&database, &["--role", "submit", "--tenant", "acme"]);
    let other = new_key(&database, &["--role", "submit", "--tenant", "other"]);
    let reader = new_key(&database, &["--role", "read"]);
    let narrow = new_key(&database, &["--role", "submit", "--submitter", &first]);
    let ports = [free_port(), free_port()];
    let _nodes = start_two(ports, &database, &chain.url(), &keys).await;
    let client = client();
    let round = AtomicU32::new(0);
    // Some accounts are preferred at each node: the others' creates are forwarded, once the nodes know of each
    // other. Any node answers a repeat itself, so each round has a request id of its own.
    wait::until("a forwarded create", || async {
        let request = &*format!("order-{}", round.fetch_add(1, Ordering::Relaxed));
        let (mut forwarded, mut found) = (0, BTreeMap::<(usize, &str), String>::new());
        for account in SENDERS {
            for (tenant, key) in [("acme", &acme), ("other", &other)] {
                for port in ports {
                    let body = transfer(account, request);
                    let answer = client.post(port, "/api/v1/tx", key, &body).await;
                    forwarded += u32::from(answer.header("tollgate-forwarded") == Some("1"));
                    let id = tx_id(&answer, request);
                    let known = found.entry((account, tenant)).or_insert_with(|| id.clone());
                    assert_eq!(*known, id, "both nodes know the tenant's request");
                }
            }
            let batch = json!({"items": [transfer(account, request)]});
            for (tenant, key) in [("acme", &acme), ("other", &other)] {
                for port in ports {
                    let answer = client.post(port, "/api/v1/tx/batch", key, &batch).await;
                    let body: Value = serde_json::from_slice(&answer.body).unwrap();
                    assert_eq!(body["items"][0]["tx"]["txId"], found[&(account, tenant)], "{body}");
                }
            }
            assert_ne!(found[&(account, "acme")], found[&(account, "other")]);
            for port in ports {
                let body = transfer(account, "refused");
                let refused = client.post(port, "/api/v1/tx", &reader, &body).await;
                assert_eq!(refused.status, 403, "{refused:?}");
                let address = dev_accounts()[account].address.to_string();
                let answer =
                    client.post(port, "/api/v1/tx", &narrow, &transfer(account, request)).await;
                let allowed =
                    if address == first { answer.status < 300 } else { answer.status == 403 };
                assert!(allowed, "{address}: {answer:?}");
            }
        }
        (forwarded > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_that_the_command_line_revokes_is_refused_by_both_nodes_within_five_seconds() {
    let (server, chain) = (PgServer::start().await, chain().await);
    let database = server.url(&server.fresh_database().await);
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    write_keys(&keys, SENDERS);
    let admin = new_key(&database, &["--role", "admin"]);
    let sender = new_key(&database, &["--role", "submit"]);
    let ports = [free_port(), free_port()];
    let _nodes = start_two(ports, &database, &chain.url(), &keys).await;
    let client = client();
    for port in ports {
        let answer = client.get(port, "/api/v1/submitters", &sender).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let id = KeySecret::parse(&sender).unwrap().id().to_string();
    let mut revoke = command();
    let revoked = Ran::of(revoke.args(["api-key", "revoke", &id, "--database-url", &database]));
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    // The revocation is in the database from here on.
    let begun = Instant::now();
    for port in ports {
        wait::until("the refusal", || async {
            let answer = client.post(port, "/api/v1/tx", &sender, &transfer(0, "late")).await;
            (answer.status == 401).then_some(())
        })
        .await;
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let audit = client.get(ports[1], "/api/v1/audit", &admin).await;
    let audit: Value = serde_json::from_slice(&audit.body).unwrap();
    let newest = &audit["items"][0];
    assert_eq!((&newest["action"], &newest["subject"]), (&json!("revokeApiKey"), &json!(id)));
    assert_eq!((&newest["author"], &newest["keyId"]), (&json!("cli"), &Value::Null), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_action_is_recorded_with_the_key_and_address_of_its_caller() {
    let (server, chain) = (PgServer::start().await, chain().await);
    let database = server.url(&server.fresh_database().await);
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    write_keys(&keys, SENDERS);
    let admin = new_key(&database, &["--role", "admin"]);
    let ports = [free_port(), free_port()];
    let _nodes = start_two(ports, &database, &chain.url(), &keys).await;
    let client = client();
    // Some accounts are preferred at the other node, once the nodes know of each other.
    let account = wait::until("a forwarded action", || async {
        for account in SENDERS {
            let address = dev_accounts()[account].address.to_string();
            let path = format!("/api/v1/submitters/{address}/pause");
            let paused = client.post(ports[0], &path, &admin, &json!({"reason": "night"})).await;
            if paused.status == 200 && paused.header("tollgate-forwarded") == Some("1") {
                return Some(address);
            }
        }
        None
    })
    .await;
    let audit = client.get(ports[0], "/api/v1/audit", &admin).await;
    let audit: Value = serde_json::from_slice(&audit.body).unwrap();
    let newest = &audit["items"][0];
    let id = KeySecret::parse(&admin).unwrap().id().to_string();
    assert_eq!((&newest["action"], &newest["reason"]), (&json!("pauseSubmitter"), &json!("night")));
    assert_eq!(
        (&newest["keyId"], &newest["address"]),
        (&json!(id), &json!("127.0.0.1")),
        "{audit}"
    );
    assert!(newest["subject"].as_str().unwrap().ends_with(&account), "{audit}");
}
