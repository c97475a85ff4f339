//! JSON-RPC over a WebSocket, and `eth_subscribe` to new heads.
//!
//! One task for each connection. Heads come through a bounded buffer: a subscriber that reads too
//! slowly misses some, as at a real node, and finds them by number.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::endpoint::Endpoint;
use super::eth::ahead_of;
use super::http::{HANG_MAX, Reply, failed, reply_to};
use super::json;
use crate::chain::{Block, BlockId};
use crate::error::RpcError;

/// Subscriptions of one connection, at most.
const SUBSCRIPTIONS_MAX: usize = 100;

enum Event {
    Message(Option<Result<Message, axum::Error>>),
    Head(Result<Arc<Block>, RecvError>),
    HangUp,
}

pub(super) async fn serve(mut socket: WebSocket, endpoint: Arc<Endpoint>) {
    let mut heads = endpoint.shared.heads.subscribe();
    let mut port_state = endpoint.port_state.subscribe();
    let mut subscriptions = Subscriptions::default();
    let epoch = port_state.borrow_and_update().epoch;
    loop {
        let event = tokio::select! {
            message = socket.recv() => Event::Message(message),
            head = heads.recv() => Event::Head(head),
            _ = port_state.wait_for(|port_state| port_state.epoch != epoch) => Event::HangUp,
        };
        let goes_on = match event {
            Event::Message(Some(Ok(Message::Text(text)))) => {
                answer(&mut socket, &endpoint, &mut subscriptions, text.as_bytes()).await
            }
            Event::Message(Some(Ok(Message::Binary(bytes)))) => {
                answer(&mut socket, &endpoint, &mut subscriptions, &bytes).await
            }
            Event::Message(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => true,
            Event::Message(Some(Ok(Message::Close(_)) | Err(_)) | None) => false,
            Event::Head(Ok(block)) => tell(&mut socket, &endpoint, &subscriptions, &block).await,
            Event::Head(Err(RecvError::Lagged(_))) => true,
            Event::Head(Err(RecvError::Closed)) | Event::HangUp => false,
        };
        if !goes_on {
            return;
        }
    }
}

#[derive(Default)]
struct Subscriptions {
    heads: BTreeSet<u64>,
    made: u64,
}

impl Subscriptions {
    /// Handles the two methods that only a connection can; `None` for all others.
    fn handle(&mut self, request: &Value) -> Option<Value> {
        let method = request.get("method")?.as_str()?;
        let param = request.get("params").and_then(|params| params.get(0));
        let text = param.and_then(Value::as_str).unwrap_or_default();
        let result = match method {
            "eth_subscribe" if text != "newHeads" => {
                Err(RpcError::new(-32601, format!("no \"{text}\" subscription in eth namespace")))
            }
            "eth_subscribe" if self.heads.len() >= SUBSCRIPTIONS_MAX => {
                Err(RpcError::new(-32000, "too many subscriptions"))
            }
            "eth_subscribe" => {
                self.made += 1;
                self.heads.insert(self.made);
                Ok(json!(id(self.made)))
            }
            "eth_unsubscribe" => {
                let number = text.strip_prefix("0x").map(|text| u64::from_str_radix(text, 16));
                Ok(json!(number.is_some_and(|n| n.is_ok_and(|n| self.heads.remove(&n)))))
            }
            _ => return None,
        };
        let request_id = request.get("id").cloned().unwrap_or_default();
        Some(match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": request_id, "result": result }),
            Err(error) => failed(&request_id, &error),
        })
    }
}

fn id(number: u64) -> String {
    format!("{number:#034x}")
}

/// Answers one message; false if the connection is to close.
async fn answer(
    socket: &mut WebSocket,
    endpoint: &Endpoint,
    subscriptions: &mut Subscriptions,
    message: &[u8],
) -> bool {
    // A silent endpoint does not answer subscriptions either: they go the way of all calls.
    let is_silent = endpoint.settings().untruths.is_silent;
    let own = serde_json::from_slice::<Value>(message).ok().filter(|_| !is_silent);
    if let Some(answer) = own.and_then(|request| subscriptions.handle(&request)) {
        return send(socket, &answer).await;
    }
    match reply_to(endpoint, message).await {
        Reply::Json(answer) => send(socket, &answer).await,
        Reply::Hang => {
            tokio::time::sleep(HANG_MAX).await;
            false
        }
        // A WebSocket has no status: what a gateway does is to close it.
        Reply::Close | Reply::Status(..) => false,
    }
}

/// Tells the subscriptions of a new head, or of the older one that a lagging endpoint sees now.
async fn tell(
    socket: &mut WebSocket,
    endpoint: &Endpoint,
    subscriptions: &Subscriptions,
    block: &Arc<Block>,
) -> bool {
    let settings = endpoint.settings();
    if settings.is_mute || settings.untruths.is_silent || subscriptions.heads.is_empty() {
        return true;
    }
    let seen = match settings.lag {
        0 => Some(block.clone()),
        lag => {
            let number = block.number().checked_sub(lag);
            let chain = endpoint.shared.chain();
            let view = endpoint.view(&chain, &settings);
            number.and_then(|number| view.block(BlockId::Number(number)).cloned())
        }
    };
    let Some(seen) = seen else { return true };
    let header = match settings.untruths.head_ahead {
        0 => json::header(&seen),
        ahead => json::header(&ahead_of(&seen, ahead)),
    };
    let header = Value::Object(header);
    for subscription in &subscriptions.heads {
        let event = json!({
            "jsonrpc": "2.0",
            "method": "eth_subscription",
            "params": { "subscription": id(*subscription), "result": header },
        });
        if !send(socket, &event).await {
            return false;
        }
    }
    true
}

async fn send(socket: &mut WebSocket, value: &Value) -> bool {
    socket.send(Message::Text(Utf8Bytes::from(value.to_string()))).await.is_ok()
}
