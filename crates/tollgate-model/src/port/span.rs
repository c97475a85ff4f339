//! Spans: what took time for transactions whose request has a trace, for a tracing system outside.

use std::time::Duration;

use crate::trace::{SpanId, TraceParent};

/// The part that a span plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// Work of this process.
    Internal,
    /// A request that this process answered.
    Server,
    /// A call that another process answered.
    Client,
}

/// Something that took time and ends now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its own ids.
    pub context: TraceParent,
    /// The span that it is a part of; `None` if it is the first of its trace.
    pub parent: Option<SpanId>,
    /// Further traces that it was done for.
    pub links: Vec<TraceParent>,
    pub name: &'static str,
    pub kind: SpanKind,
    pub took: Duration,
    /// True if it did not end as it should.
    pub failed: bool,
    pub attributes: Vec<(&'static str, String)>,
}

/// Receives spans.
pub trait SpanSink: Send + Sync {
    /// False if nothing is recorded: then nothing needs to be measured.
    fn is_on(&self) -> bool;

    /// The context of a new span, below another one or as the first of a trace; `None` if it is not recorded.
    fn begin(&self, parent: Option<TraceParent>) -> Option<TraceParent>;

    /// Takes a span. Never waits, and may lose it.
    fn record(&self, span: Span);
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSpans;

impl SpanSink for NoSpans {
    fn is_on(&self) -> bool {
        false
    }

    fn begin(&self, _: Option<TraceParent>) -> Option<TraceParent> {
        None
    }

    fn record(&self, _: Span) {}
}
