//! Events as server-sent events (`text/event-stream`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use tokio::time::timeout;
use tollgate_api::Event;
use tollgate_model::Seq;
use tollgate_model::event::NumberedEvent;
use tollgate_model::port::Page;
use tracing::debug;

use super::hub::Follower;
use super::viewer::Viewer;

/// The time without an event after which a comment is sent, so that nobody takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The pause before a client connects again, in milliseconds.
const RECONNECT_MS: u32 = 1_000;
/// Events that are read for one caller at a time (I13).
const PART: u32 = 256;

/// One caller's stream.
struct EventStream {
    follower: Follower,
    viewer: Viewer,
    /// Everything up to it was sent or left out.
    position: Seq,
    ready: VecDeque<Bytes>,
    /// The caller has been up to date: from then on it is cut off if it can't keep up.
    was_live: bool,
    has_ended: bool,
}

/// Answers with the events after a position, for as long as the caller reads.
pub(super) fn answer(follower: Follower, viewer: Viewer, position: Seq) -> Response {
    let hello = format!("retry: {RECONNECT_MS}\nid: {position}\n: connected\n\n");
    let ready = VecDeque::from([Bytes::from(hello)]);
    let stream =
        EventStream { follower, viewer, position, ready, was_live: false, has_ended: false };
    let frames = stream::unfold(stream, |mut stream| async move {
        let frame = stream.next().await?;
        Some((Ok::<_, Infallible>(frame), stream))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies pass each event on at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl EventStream {
    /// The next frame; `None` at the end. Only asked for when the caller has read what came before.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.has_ended || self.follower.is_closed() {
                return None;
            }
            if self.read().await {
                continue;
            }
            match timeout(HEARTBEAT, self.follower.grows(self.position)).await {
                Ok(true) => {}
                Ok(false) => return None,
                // With the position, which also passes what the filter leaves out.
                Err(_) => {
                    if let Err(problem) = self.viewer.caller_now().await {
                        self.end(&format!("no more events: {}", problem.body.detail));
                        continue;
                    }
                    let position = self.position;
                    return Some(Bytes::from(format!("id: {position}\n: heartbeat\n\n")));
                }
            }
        }
    }

    /// Reads on; false if there is nothing after the position.
    async fn read(&mut self) -> bool {
        let part = match Page::new(PART) {
            Ok(page) => self.follower.after(self.position, page).await,
            Err(_) => return false,
        };
        let part = match part {
            Ok(part) => part,
            Err(error) => return self.end(&format!("the log can't be read: {error}")),
        };
        if self.position < part.removed_through {
            return self.end("events after the last one were removed");
        }
        if self.was_live && !part.is_live {
            return self.end("read too slowly; connect again with Last-Event-ID");
        }
        self.was_live |= part.is_live;
        match self.viewer.shown(part.events).await {
            Ok(shown) => self.ready.extend(shown.iter().map(|event| frame(event))),
            Err(problem) => return self.end(&format!("no more events: {}", problem.body.detail)),
        }
        let has_moved = part.next > self.position;
        self.position = part.next.max(self.position);
        has_moved
    }

    /// Ends the stream with a comment that says why.
    fn end(&mut self, why: &str) -> bool {
        debug!(error = why, "event stream ended");
        self.ready.push_back(Bytes::from(format!(": {}\n\n", why.replace(['\r', '\n'], " "))));
        self.has_ended = true;
        true
    }
}

fn frame(event: &NumberedEvent) -> Bytes {
    let (seq, kind) = (event.seq, event.event.kind);
    // A type of texts and numbers: it can be written, without line breaks.
    let data = serde_json::to_string(&Event::from(event)).unwrap_or_default();
    let mut frame = String::with_capacity(data.len() + 80);
    let _ = write!(frame, "id: {seq}\nevent: {kind}\ndata: {data}\n\n");
    Bytes::from(frame)
}
