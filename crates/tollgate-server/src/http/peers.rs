//! Asks other nodes on a caller's behalf, within bounds.
//!
//! Owns connections and counts. Knows nothing of what is asked, and never asks twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tollgate_engine::{Destination, Engine};
use tollgate_http::{HttpClient, HttpError, HttpResponse, Limits};
use tollgate_model::NodeId;

use super::forward::{CHAIN_ID, FORWARDED};
use super::guard::TRACE_ID;

/// How long a connection may take to come about (I13). Nodes are near each other, but a full queue at
/// the other end drops the first packet, which is sent again after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long another node has for its answer: less than a caller has to wait at most (I13).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);
/// Requests on their way to one node. A bound for each, so that a slow one takes nothing from the
/// others (I13, I14).
const UNDER_WAY_MAX: usize = 256;
/// Connections that are kept for later.
const IDLE_MAX: usize = 64;
/// The longest answer: that to a full batch.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How often it is looked whether the other node is still alive.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What another node must know of a caller; the rest is between the caller and this node.
const CARRIED: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::AUTHORIZATION,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("traceparent"),
    TRACE_ID,
];

/// The way to the other nodes.
pub(crate) struct Peers {
    http: HttpClient,
    under_way: Mutex<HashMap<NodeId, Arc<Semaphore>>>,
}

/// Why there is no answer of the other node.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It was not reached: nothing was done.
    NotAsked(String),
    /// As much is on its way to it as may be: nothing was done.
    Full,
    /// It may have done it.
    Unheard(String),
}

impl Default for Peers {
    fn default() -> Self {
        let http = HttpClient::new(&Limits {
            connect_timeout: CONNECT_TIMEOUT,
            idle_max: IDLE_MAX,
            response_bytes_max: ANSWER_BYTES_MAX,
        });
        Self { http, under_way: Mutex::default() }
    }
}

impl Peers {
    /// Posts a caller's request to another node, which must not pass it on again.
    pub(crate) async fn ask(
        &self,
        engine: &Engine,
        to: &Destination,
        path: &str,
        given: &HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, Unanswered> {
        let room = self.room(engine, &to.node);
        let _permit = room.try_acquire().map_err(|_| Unanswered::Full)?;
        let uri: Uri = format!("{}{path}", to.url)
            .parse()
            .map_err(|_| Unanswered::NotAsked(format!("{} is not a URL", to.url)))?;
        let mut headers = HeaderMap::new();
        for name in CARRIED {
            // All of them: whether one may stand twice, the other node decides.
            for value in given.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        headers.insert(FORWARDED, HeaderValue::from_static("1"));
        headers.insert(CHAIN_ID, HeaderValue::from(engine.chain_id().get()));
        let post = self.http.post(&uri, headers, body);
        tokio::select! {
            posted = post => posted.map_err(|error| match error {
                HttpError::Unreachable(why) => Unanswered::NotAsked(why),
                HttpError::NoAnswer(_) | HttpError::TooLong { .. } | HttpError::CutOff { .. } => {
                    Unanswered::Unheard(error.to_string())
                }
            }),
            why = lost(engine, &to.node) => Err(Unanswered::Unheard(why)),
        }
    }

    fn room(&self, engine: &Engine, node: &NodeId) -> Arc<Semaphore> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = under_way.get(node) {
            return room.clone();
        }
        // As many as there are nodes.
        under_way.retain(|known, _| engine.is_live(known));
        let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        under_way.insert(node.clone(), room.clone());
        room
    }
}

/// Waits until there is no use in waiting: a node that was stopped keeps its connections open and
/// says nothing, but it is silent to everybody.
async fn lost(engine: &Engine, node: &NodeId) -> String {
    let begun = Instant::now();
    while begun.elapsed() < ANSWER_TIMEOUT {
        sleep(LOOK_EVERY).await;
        if !engine.is_live(node) {
            return "it gives no sign of life".to_owned();
        }
    }
    format!("nothing within {ANSWER_TIMEOUT:?}")
}
