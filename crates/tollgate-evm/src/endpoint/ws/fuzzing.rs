//! The fuzz target of the WebSocket: frames and messages as a node may send them.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::dial::Stream;
use super::{Announced, Connection, Outgoing};

/// Bytes between the two sides; a longer input is cut.
const BUFFER_BYTES: usize = 64 * 1024;
/// Calls that wait for an answer.
const CALLS: u64 = 3;

/// Reads bytes as a node sends them. An input whose first byte is `t` is lines of text, one message
/// each; any other is frames as they are.
///
/// # Panics
/// If the reader does, if it does not end with its input, or if a call is left without an answer.
pub fn web_socket(data: &[u8]) {
    let frames = match data {
        [b't', lines @ ..] => as_frames(lines),
        frames => frames.to_vec(),
    };
    thread_local! {
        static RUNTIME: Option<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().enable_time().build().ok();
    }
    RUNTIME.with(|runtime| {
        if let Some(runtime) = runtime {
            runtime.block_on(receive(&frames[..frames.len().min(BUFFER_BYTES)]));
        }
    });
}

/// Each line as an unmasked text frame.
fn as_frames(lines: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        frames.push(0x81);
        match u8::try_from(line.len()) {
            Ok(length @ ..=125) => frames.push(length),
            _ => {
                frames.push(126);
                frames.extend((line.len() as u16).to_be_bytes());
            }
        }
        frames.extend(&line[..line.len().min(usize::from(u16::MAX))]);
    }
    frames
}

async fn receive(frames: &[u8]) {
    let (ours, mut theirs) = tokio::io::duplex(BUFFER_BYTES);
    if theirs.write_all(frames).await.is_err() || theirs.shutdown().await.is_err() {
        return;
    }
    let stream: Box<dyn Stream> = Box::new(ours);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let (announce, _heads) = watch::channel(Announced::default());
    let (_sender, mut calls) = mpsc::channel::<Outgoing>(1);
    let mut connection = Connection::new(socket, &announce, Duration::from_secs(5));
    let mut answers = Vec::new();
    for id in 1..=CALLS {
        let (answer, wait) = oneshot::channel();
        connection.waiting.insert(id, answer);
        answers.push(wait);
    }
    let why = connection.serve(&mut calls).await;
    connection.end(&why);
    for answer in answers {
        assert!(answer.await.is_ok(), "every call is answered, if only with an error");
    }
}
