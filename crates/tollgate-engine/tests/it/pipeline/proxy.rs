//! A small HTTP proxy in front of a node that can't be told to misbehave.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tollgate_testkit::rpc::{self, number, post};

/// What goes wrong. Nothing by default.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Faults {
    /// Every connection is closed.
    pub(crate) is_down: bool,
    /// Heads, counts and receipts are those of so many blocks ago.
    pub(crate) lag_blocks: u64,
    /// Added to every transaction count.
    pub(crate) nonce_offset: i64,
    /// Sends that are carried out and not answered.
    pub(crate) lost_answers: u32,
    /// Methods that the node is said not to have.
    pub(crate) missing: Vec<&'static str>,
}

/// Passes calls on to a node, but for its faults. Stops when it is dropped.
pub(crate) struct Proxy {
    url: String,
    faults: Arc<Mutex<Faults>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(node: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let faults = Arc::new(Mutex::new(Faults::default()));
        let seat = Seat { node: node.to_owned(), faults: faults.clone() };
        Self { url, faults, task: tokio::spawn(serve(listener, seat)) }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock().unwrap());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Seat {
    node: String,
    faults: Arc<Mutex<Faults>>,
}

async fn serve(listener: TcpListener, seat: Seat) {
    while let Ok((client, _)) = listener.accept().await {
        let seat = seat.clone();
        // A caller that went away, or a fault that closes the connection: both end it.
        tokio::spawn(async move { seat.talk(client).await });
    }
}

impl Seat {
    fn faults(&self) -> Faults {
        self.faults.lock().unwrap().clone()
    }

    async fn talk(&self, client: TcpStream) -> io::Result<()> {
        let mut client = BufReader::new(client);
        while let Some(body) = request(&mut client).await? {
            if self.faults().is_down {
                return Ok(());
            }
            let Some(answer) = self.answer(&body).await? else { return Ok(()) };
            // In one piece: two would wait for each other's acknowledgement.
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n\
                 {answer}",
                answer.len()
            );
            client.write_all(answer.as_bytes()).await?;
        }
        Ok(())
    }

    /// The answer to a call or a batch; `None` if it is lost.
    async fn answer(&self, body: &str) -> io::Result<Option<String>> {
        if self.faults() == Faults::default() {
            return post(&self.node, body).await.map(Some);
        }
        let mut asked: Value = serde_json::from_str(body)?;
        let is_batch = asked.is_array();
        let calls = if is_batch { asked.as_array_mut().unwrap().split_off(0) } else { vec![asked] };
        let mut answers = Vec::new();
        let mut is_lost = false;
        for call in calls {
            is_lost |= self.loses(&call);
            answers.push(self.one(call).await?);
        }
        let answer = if is_batch { Value::Array(answers) } else { answers.remove(0) };
        Ok((!is_lost).then(|| answer.to_string()))
    }

    fn loses(&self, call: &Value) -> bool {
        let left = &mut self.faults.lock().unwrap().lost_answers;
        let loses = call["method"] == "eth_sendRawTransaction" && *left > 0;
        if loses && *left != u32::MAX {
            *left -= 1;
        }
        loses
    }

    async fn one(&self, mut call: Value) -> io::Result<Value> {
        let faults = self.faults();
        let method = call["method"].as_str().unwrap_or_default().to_owned();
        if faults.missing.contains(&method.as_str()) {
            let message = format!("the method {method} does not exist/is not available");
            let error = json!({ "code": -32601, "message": message });
            return Ok(json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }));
        }
        let newest = match faults.lag_blocks {
            0 => u64::MAX,
            lag => {
                let head = rpc::call(&self.node, "eth_blockNumber", json!([])).await;
                number(&head).saturating_sub(lag)
            }
        };
        if newest != u64::MAX {
            look_back(&mut call, newest);
        }
        let mut answer: Value = serde_json::from_str(&post(&self.node, &call.to_string()).await?)?;
        let result = &mut answer["result"];
        match method.as_str() {
            "eth_getTransactionCount" => {
                let count = number(result).saturating_add_signed(faults.nonce_offset);
                *result = json!(format!("{count:#x}"));
            }
            "eth_blockNumber" if newest != u64::MAX => *result = json!(format!("{newest:#x}")),
            "eth_getBlockByNumber" | "eth_getTransactionReceipt" if result.is_object() => {
                let place = if method == "eth_getBlockByNumber" { "number" } else { "blockNumber" };
                if result[place].is_string() && number(&result[place]) > newest {
                    *result = Value::Null;
                }
            }
            _ => {}
        }
        Ok(answer)
    }
}

/// What a node that lags takes for its head.
fn look_back(call: &mut Value, newest: u64) {
    for param in call["params"].as_array_mut().into_iter().flatten() {
        if *param == "latest" || *param == "pending" {
            *param = json!(format!("{newest:#x}"));
        }
    }
}

/// The body of the next request; `None` if the caller is gone.
async fn request(client: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if client.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            None if line.trim_end().is_empty() => break,
            Some(_) | None => {}
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).await?;
    Ok(Some(String::from_utf8(body).unwrap()))
}
