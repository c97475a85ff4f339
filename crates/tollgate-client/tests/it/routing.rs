//! The nodes that the client tries, the number of tries, and the result for its caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollgate_client::{Client, ClientError, RetryPolicy};
use tollgate_model::{Address, ChainId};

/// A submitter whose default node of two is the first.
const SUBMITTER: Address = Address::ZERO;
const FAST: RetryPolicy = RetryPolicy {
    tries: 6,
    timeout: Duration::from_secs(5),
    first_pause: Duration::from_millis(5),
};

/// A scripted response; an empty owner sends no owner header.
#[derive(Clone)]
struct Scripted {
    status: u16,
    body: Value,
    owner: String,
}

fn response(status: u16, code: &str, owner: &str) -> Scripted {
    let body = json!({ "code": code, "detail": "d", "retryable": status != 422, "txId": "t" });
    Scripted { status, body, owner: owner.to_owned() }
}

/// A node with scripted responses, the last one repeated, that records its requests.
struct Node {
    url: String,
    script: Arc<Mutex<VecDeque<Scripted>>>,
    /// API key and body of each request.
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    /// The chain header of each request.
    chains: Arc<Mutex<Vec<Option<String>>>>,
}

impl Node {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (script, requests) = (Arc::default(), Arc::default());
        let node = Self { url, script, requests, chains: Arc::default() };
        let (script, requests) = (node.script.clone(), node.requests.clone());
        let chains = node.chains.clone();
        let answer = move |headers: HeaderMap, body: axum::Json<Value>| async move {
            let key = headers.get("authorization").map(|key| key.to_str().unwrap().to_owned());
            let chain = headers.get(tollgate_client::CHAIN_ID);
            let chain = chain.map(|chain| chain.to_str().unwrap().to_owned());
            chains.lock().unwrap().push(chain);
            requests.lock().unwrap().push((key.unwrap_or_default(), body.0));
            let next = {
                let mut script = script.lock().unwrap();
                if script.len() > 1 { script.pop_front() } else { script.front().cloned() }
            };
            let Scripted { status, body, owner } = next.unwrap();
            let mut headers = HeaderMap::new();
            if !owner.is_empty() {
                headers.insert(tollgate_client::OWNER, owner.parse().unwrap());
            }
            (StatusCode::from_u16(status).unwrap(), headers, body.to_string())
        };
        let app = Router::new().route("/api/v1/tx", axum::routing::post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        node
    }

    fn script(&self, responses: impl IntoIterator<Item = Scripted>) {
        *self.script.lock().unwrap() = responses.into_iter().collect();
    }

    fn request_count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

async fn two() -> (Node, Node, Client) {
    let (a, b) = (Node::new().await, Node::new().await);
    let client = Client::new([&a.url, &b.url]).unwrap().with_retry_policy(FAST);
    (a, b, client)
}

async fn create(client: &Client) -> Result<u16, ClientError> {
    client.create(SUBMITTER, "order-1", &json!({ "value": "1" })).await.map(|answer| answer.status)
}

#[tokio::test]
async fn owner_named_by_a_response_is_tried_next() {
    let (a, b, client) = two().await;
    a.script([response(202, "", &b.url)]);
    b.script([response(200, "", &b.url)]);
    assert_eq!([create(&client).await, create(&client.clone()).await], [Ok(202), Ok(200)]);
    assert_eq!((a.request_count(), b.request_count()), (1, 1), "clones share what they learn");
}

#[tokio::test]
async fn same_request_is_repeated_until_it_is_accepted() {
    let (a, b, client) = two().await;
    let client = client.with_api_key("secret").unwrap();
    a.script([
        response(409, "not_owner", ""),
        response(503, "unavailable", ""),
        response(202, "", ""),
    ]);
    b.script([response(503, "store_unavailable", "")]);
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!(
        (a.request_count(), b.request_count()),
        (3, 2),
        "in turn, while the owner is unknown"
    );
    let wanted =
        json!({ "submitter": SUBMITTER, "requestId": "order-1", "payload": { "value": "1" } });
    for (key, body) in a.requests.lock().unwrap().iter().chain(b.requests.lock().unwrap().iter()) {
        assert_eq!((key.as_str(), body), ("Bearer secret", &wanted));
    }
}

#[tokio::test]
async fn node_of_another_chain_is_followed_by_the_next_node() {
    let (a, b, client) = two().await;
    a.script([response(409, "not_owner", "")]);
    b.script([response(202, "", "")]);
    let client = client.with_chain(ChainId::new(31_337).unwrap());
    assert_eq!(create(&client).await, Ok(202));
    for node in [&a, &b] {
        assert_eq!(*node.chains.lock().unwrap(), [Some("31337".to_owned())]);
    }
}

#[tokio::test]
async fn unreachable_node_is_followed_by_the_next_node() {
    let (_, b, _) = two().await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Client::new([format!("http://{gone}"), b.url.clone()]).unwrap();
    let client = client.with_retry_policy(FAST);
    b.script([response(202, "", "")]);
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!(b.request_count(), 2);
}

#[tokio::test]
async fn busy_submitter_is_not_tried_at_another_node() {
    let (a, b, client) = two().await;
    a.script([response(429, "busy", ""), response(202, "", "")]);
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!((a.request_count(), b.request_count()), (2, 0));
}

#[tokio::test]
async fn refusal_is_returned_at_once_and_silence_after_all_tries() {
    let (a, b, client) = two().await;
    a.script([response(422, "invalid_address", "")]);
    let refused = ClientError::Refused { code: "invalid_address".into(), detail: "d".into() };
    assert_eq!(create(&client).await, Err(refused));
    assert_eq!((a.request_count(), b.request_count()), (1, 0));
    a.script([response(503, "unavailable", "")]);
    b.script([response(409, "not_owner", &a.url)]);
    let tired = create(&client).await;
    assert!(matches!(&tired, Err(ClientError::NoAnswer(why)) if why.contains("d")), "{tired:?}");
    assert_eq!(a.request_count() + b.request_count(), 1 + FAST.tries as usize, "I13");
}

#[test]
fn client_needs_at_least_one_http_url() {
    assert!(Client::new(["http://a", "https://b/toll/"]).is_ok());
    for bad in [vec![], vec!["http://a", "ftp://b"], vec!["a"], vec!["/a"], vec!["http://"]] {
        assert!(Client::new(&bad).is_err(), "{bad:?}");
    }
}
