//! Records what took time for transactions whose request has a trace. Decides nothing, and costs a transaction
//! without a trace one look.

use std::time::Duration;

use tollgate_model::port::Section;
use tollgate_model::port::span::{Span, SpanKind, SpanSink};
use tollgate_model::{Submitter, TraceParent, TxHash, TxId};

/// The most traces that one span names (I13): a batch may hold thousands.
const LINKS_MAX: usize = 64;

/// The subject of a span.
pub(crate) struct About {
    pub(crate) name: &'static str,
    pub(crate) kind: SpanKind,
    pub(crate) took: Duration,
    pub(crate) failed: bool,
}

/// The transaction of a span.
#[derive(Clone, Copy)]
pub(crate) struct OfTx {
    pub(crate) tx_id: TxId,
    pub(crate) submitter: Submitter,
    pub(crate) tx_hash: Option<TxHash>,
}

/// Records a span below the request that made the transaction.
pub(crate) fn record(
    spans: &dyn SpanSink,
    trace: TraceParent,
    about: &About,
    of: OfTx,
    more: impl IntoIterator<Item = (&'static str, String)>,
) {
    let Some(context) = spans.begin(Some(trace)) else { return };
    let About { name, kind, took, failed } = *about;
    let mut attributes = vec![
        ("tollgate.tx_id", of.tx_id.to_string()),
        ("tollgate.submitter", of.submitter.to_string()),
    ];
    attributes.extend(of.tx_hash.map(|hash| ("tollgate.tx_hash", hash.to_string())));
    attributes.extend(more);
    let (parent, links) = (Some(trace.span_id()), Vec::new());
    spans.record(Span { context, parent, links, name, kind, took, failed, attributes });
}

/// The traces that a database transaction is for, each once.
pub(crate) fn traces_of(spans: &dyn SpanSink, sections: &[Section]) -> Vec<TraceParent> {
    let mut traces: Vec<TraceParent> = Vec::new();
    if !spans.is_on() {
        return traces;
    }
    for section in sections {
        let created = section.creates.iter().filter_map(|tx| tx.trace);
        let changed = section.updates.iter().filter_map(|update| update.trace);
        for trace in created.chain(changed).filter(|trace| trace.is_sampled()) {
            if traces.len() == LINKS_MAX {
                return traces;
            }
            if !traces.contains(&trace) {
                traces.push(trace);
            }
        }
    }
    traces
}

/// Records a database transaction: a part of the first of its traces, with links to the others.
pub(crate) fn record_commit(
    spans: &dyn SpanSink,
    traces: &[TraceParent],
    (took, failed): (Duration, bool),
    (sections, operations): (usize, usize),
) {
    let Some((first, others)) = traces.split_first() else { return };
    let Some(context) = spans.begin(Some(*first)) else { return };
    spans.record(Span {
        context,
        parent: Some(first.span_id()),
        links: others.to_vec(),
        name: "commit batch",
        kind: SpanKind::Client,
        took,
        failed,
        attributes: vec![
            ("tollgate.batch.submitters", sections.to_string()),
            ("tollgate.batch.operations", operations.to_string()),
        ],
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tollgate_model::port::span::NoSpans;
    use tollgate_model::port::{Lease, NewTx, Payload};
    use tollgate_model::trace::{SpanId, TraceId};
    use tollgate_model::{Address, Bytes, ChainId, FencingToken};
    use uuid::Uuid;

    use super::*;

    /// Keeps spans, whose own id is always the same.
    #[derive(Default)]
    struct Kept(Mutex<Vec<Span>>);

    const OWN: [u8; 8] = [9; 8];

    impl SpanSink for Kept {
        fn is_on(&self) -> bool {
            true
        }

        fn begin(&self, parent: Option<TraceParent>) -> Option<TraceParent> {
            parent.map(|parent| parent.with_span(SpanId::new(OWN).unwrap()))
        }

        fn record(&self, span: Span) {
            self.0.lock().unwrap().push(span);
        }
    }

    fn trace(n: u8, sampled: bool) -> TraceParent {
        let (trace, span) = (TraceId::new([n; 16]).unwrap(), SpanId::new([n; 8]).unwrap());
        TraceParent::new(trace, span, sampled)
    }

    fn section(traces: &[Option<TraceParent>]) -> Section {
        let submitter = Submitter::new(ChainId::MIN, Address::ZERO);
        let mut section = Section::new(Lease { submitter, token: FencingToken::MIN });
        section.creates.extend(traces.iter().map(|trace| NewTx {
            tx_id: TxId::from_uuid(Uuid::from_u128(7)),
            request_id: None,
            payload: Payload::new(Bytes::from_static(b"intent")).unwrap(),
            slot: None,
            held: false,
            valid_until: None,
            author: None,
            trace: *trace,
        }));
        section
    }

    #[test]
    fn commit_is_a_part_of_its_first_trace_with_links_to_the_others() {
        let kept = Kept::default();
        let (one, two) = (trace(1, true), trace(2, true));
        let sections = [section(&[None, Some(one)]), section(&[Some(two), Some(one)])];
        let traces = traces_of(&kept, &sections);
        assert_eq!(traces, [one, two], "each once");
        record_commit(&kept, &traces, (Duration::from_millis(1), false), (2, 4));
        let spans = kept.0.into_inner().unwrap();
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].context.trace_id(), one.trace_id());
        assert_eq!(spans[0].context.span_id().bytes(), OWN);
        assert_eq!((spans[0].parent, &spans[0].links), (Some(one.span_id()), &vec![two]));
    }

    #[test]
    fn commit_without_a_recorded_trace_records_nothing() {
        let kept = Kept::default();
        let traces = traces_of(&kept, &[section(&[None, Some(trace(1, false))])]);
        record_commit(&kept, &traces, (Duration::ZERO, false), (1, 2));
        assert!(traces.is_empty() && kept.0.into_inner().unwrap().is_empty());
        assert!(traces_of(&NoSpans, &[section(&[Some(trace(1, true))])]).is_empty());
    }

    #[test]
    fn commit_names_a_bounded_number_of_traces() {
        let all: Vec<_> = (1..=200).map(|n| Some(trace(n, true))).collect();
        assert_eq!(traces_of(&Kept::default(), &[section(&all)]).len(), LINKS_MAX);
    }
}
