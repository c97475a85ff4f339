//! Whom the client asks, how often, and what it tells its caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollgate_client::{Client, ClientError, Patience};
use tollgate_model::{Address, ChainId};

/// Its first node of two is node 0.
const OF: Address = Address::ZERO;
const HASTY: Patience =
    Patience { tries: 6, timeout: Duration::from_secs(5), first_pause: Duration::from_millis(5) };

/// A node's next answer; an empty owner names none.
#[derive(Clone)]
struct Line {
    status: u16,
    body: Value,
    owner: String,
}

fn says(status: u16, code: &str, owner: &str) -> Line {
    let body = json!({ "code": code, "detail": "d", "retryable": status != 422, "txId": "t" });
    Line { status, body, owner: owner.to_owned() }
}

/// A node that says its lines, the last one for ever, and keeps what it was asked.
struct Node {
    url: String,
    lines: Arc<Mutex<VecDeque<Line>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    /// For which chains.
    chains: Arc<Mutex<Vec<Option<String>>>>,
}

impl Node {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (lines, asked) = (Arc::new(Mutex::new(VecDeque::new())), Arc::default());
        let node = Self { url, lines, asked, chains: Arc::default() };
        let (lines, asked) = (node.lines.clone(), node.asked.clone());
        let chains = node.chains.clone();
        let answer = move |headers: HeaderMap, body: axum::Json<Value>| async move {
            let key = headers.get("authorization").map(|key| key.to_str().unwrap().to_owned());
            let chain = headers.get(tollgate_client::CHAIN_ID);
            let chain = chain.map(|chain| chain.to_str().unwrap().to_owned());
            chains.lock().unwrap().push(chain);
            asked.lock().unwrap().push((key.unwrap_or_default(), body.0));
            let line = {
                let mut lines: std::sync::MutexGuard<'_, VecDeque<Line>> = lines.lock().unwrap();
                if lines.len() > 1 { lines.pop_front() } else { lines.front().cloned() }
            };
            let line = line.unwrap();
            let mut headers = HeaderMap::new();
            if !line.owner.is_empty() {
                headers.insert(tollgate_client::OWNER, line.owner.parse().unwrap());
            }
            (StatusCode::from_u16(line.status).unwrap(), headers, line.body.to_string())
        };
        let app = Router::new().route("/api/v1/tx", axum::routing::post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        node
    }

    fn says(&self, lines: impl IntoIterator<Item = Line>) {
        *self.lines.lock().unwrap() = lines.into_iter().collect();
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn two() -> (Node, Node, Client) {
    let (a, b) = (Node::new().await, Node::new().await);
    let client = Client::new([&a.url, &b.url]).unwrap().with_patience(HASTY);
    (a, b, client)
}

async fn create(client: &Client) -> Result<u16, ClientError> {
    client.create(OF, "order-1", &json!({ "value": "1" })).await.map(|answer| answer.status)
}

#[tokio::test]
async fn the_owner_that_an_answer_names_is_asked_next() {
    let (a, b, client) = two().await;
    a.says([says(202, "", &b.url)]);
    b.says([says(200, "", &b.url)]);
    assert_eq!([create(&client).await, create(&client.clone()).await], [Ok(202), Ok(200)]);
    assert_eq!((a.asked(), b.asked()), (1, 1), "clones share what they learn");
}

#[tokio::test]
async fn the_same_request_is_asked_again_until_it_is_taken() {
    let (a, b, client) = two().await;
    let client = client.with_api_key("secret").unwrap();
    a.says([says(409, "not_owner", ""), says(503, "unavailable", ""), says(202, "", "")]);
    b.says([says(503, "store_unavailable", "")]);
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!((a.asked(), b.asked()), (3, 2), "in turn, while nobody knows more");
    let wanted = json!({ "submitter": OF, "requestId": "order-1", "payload": { "value": "1" } });
    for (key, body) in a.asked.lock().unwrap().iter().chain(b.asked.lock().unwrap().iter()) {
        assert_eq!((key.as_str(), body), ("Bearer secret", &wanted));
    }
}

#[tokio::test]
async fn node_of_another_chain_is_left_for_one_of_the_chain_that_is_asked_for() {
    let (a, b, client) = two().await;
    a.says([says(409, "not_owner", "")]);
    b.says([says(202, "", "")]);
    let client = client.with_chain(ChainId::new(31_337).unwrap());
    assert_eq!(create(&client).await, Ok(202));
    for node in [&a, &b] {
        assert_eq!(*node.chains.lock().unwrap(), [Some("31337".to_owned())]);
    }
}

#[tokio::test]
async fn a_node_that_is_gone_is_left_for_the_other() {
    let (_, b, _) = two().await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Client::new([format!("http://{gone}"), b.url.clone()]).unwrap();
    let client = client.with_patience(HASTY);
    b.says([says(202, "", "")]);
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!(b.asked(), 2);
}

#[tokio::test]
async fn a_busy_submitter_is_not_asked_for_elsewhere() {
    let (a, b, client) = two().await;
    a.says([says(429, "busy", ""), says(202, "", "")]);
    assert_eq!(create(&client).await, Ok(202));
    assert_eq!((a.asked(), b.asked()), (2, 0));
}

#[tokio::test]
async fn a_refusal_is_told_at_once_and_silence_after_so_many_tries() {
    let (a, b, client) = two().await;
    a.says([says(422, "invalid_address", "")]);
    let refused = ClientError::Refused { code: "invalid_address".into(), detail: "d".into() };
    assert_eq!(create(&client).await, Err(refused));
    assert_eq!((a.asked(), b.asked()), (1, 0));
    a.says([says(503, "unavailable", "")]);
    b.says([says(409, "not_owner", &a.url)]);
    let tired = create(&client).await;
    assert!(matches!(&tired, Err(ClientError::NoAnswer(why)) if why.contains("d")), "{tired:?}");
    assert_eq!(a.asked() + b.asked(), 1 + HASTY.tries as usize, "I13");
}

#[test]
fn nodes_are_urls_and_there_is_one_at_least() {
    assert!(Client::new(["http://a", "https://b/toll/"]).is_ok());
    for bad in [vec![], vec!["http://a", "ftp://b"], vec!["a"], vec!["/a"], vec!["http://"]] {
        assert!(Client::new(&bad).is_err(), "{bad:?}");
    }
}
