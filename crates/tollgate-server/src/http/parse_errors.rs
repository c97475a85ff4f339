//! Gives a problem body to the answers that hyper writes by itself when it can't parse a request.
//!
//! hyper has no hook for them: they never reach a handler. They are recognised on the way to the socket
//! by their status and by the trace id that every answer of a handler has.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_api::{ErrorCode, header};
use tracing::info;
use uuid::Uuid;

use super::problem::Problem;

/// A connection whose parse errors are answered with a problem.
pub(super) struct WithParseErrors<S> {
    stream: S,
    /// The rest of an answer that is written in the place of hyper's.
    unwritten: Option<Vec<u8>>,
}

impl<S> WithParseErrors<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, unwritten: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithParseErrors<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithParseErrors<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unwritten.is_none() {
            self.unwritten = parse_error(bytes).map(answer);
        }
        let Self { stream, unwritten } = &mut *self;
        let Some(rest) = unwritten else {
            return Pin::new(stream).poll_write(context, bytes);
        };
        while !rest.is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => drop(rest.drain(..written)),
            }
        }
        *unwritten = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match parts.first() {
            Some(first) if self.unwritten.is_some() || parse_error(first).is_some() => {
                self.poll_write(context, first)
            }
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The problem that an answer of hyper stands for; `None` if a handler gave the answer.
fn parse_error(answer: &[u8]) -> Option<ErrorCode> {
    let status = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    let code = match status.get(..3)? {
        b"400" => ErrorCode::InvalidRequest,
        b"414" | b"431" => ErrorCode::HeadTooLarge,
        _ => return None,
    };
    let trace_id = header::TRACE_ID.as_bytes();
    (!answer.windows(trace_id.len()).any(|name| name == trace_id)).then_some(code)
}

fn answer(code: ErrorCode) -> Vec<u8> {
    let detail = match code {
        ErrorCode::HeadTooLarge => {
            "at most 100 headers, and 64 KiB of path, query and headers in all"
        }
        _ => "the request line, a header or the framing of the body is not valid HTTP/1.1",
    };
    let (trace_id, status) = (Uuid::now_v7().to_string(), code.status());
    info!(trace_id, status, code = code.name(), "request refused");
    let body = Problem::new(code, detail).with_trace_id(&trace_id);
    let body = serde_json::to_string(&body).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: application/problem+json\r\n{}: {trace_id}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        if status == 400 { "Bad Request" } else { "Request Header Fields Too Large" },
        header::TRACE_ID,
        body.len(),
    );
    (head + &body).into_bytes()
}
