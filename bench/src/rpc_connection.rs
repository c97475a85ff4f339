//! One connection to a chain that costs the caller as little as it can.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpStream;

#[derive(Deserialize)]
struct Answer<T> {
    result: T,
}

/// A kept connection for JSON-RPC.
pub(crate) struct RpcConnection {
    requests: SendRequest<Full<Bytes>>,
    host: String,
}

impl RpcConnection {
    pub(crate) async fn open(host: &str) -> Self {
        let stream = TcpStream::connect(host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (requests, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { requests, host: host.to_owned() }
    }

    pub(crate) async fn post(&mut self, body: String) -> Bytes {
        let request = Request::post("/")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.requests.ready().await.unwrap();
        let answer = self.requests.send_request(request).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    }

    pub(crate) async fn call<T: DeserializeOwned>(&mut self, method: &str, params: Value) -> T {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.post(body.to_string()).await;
        let answer: Result<Answer<T>, _> = serde_json::from_slice(&answer);
        answer.unwrap_or_else(|error| panic!("{method}: {error}")).result
    }
}
