//! The metrics of a process: HTTP, the database, logs and the system.

use tollgate_model::port::AlertKind;

use crate::dictionary::{Entry, Instrument, metrics};
use crate::instrument::{
    Counter, CounterBy, Family, Gauge, Histogram, Latency, Reading, Samples, Sizes,
};
use crate::labels::{LogLevel, OfBuild, OfRequest, OfRoute, SpanResult};

metrics! {
    /// The metrics of the process itself, without those of the system.
    TollgateMetrics, prefix = "tollgate_" {
        /// HTTP requests that were answered, by method, route pattern and status.
        http_requests_total: Family<OfRequest, Counter>,
        /// Time from the head of an HTTP request to the head of its answer, by route pattern.
        http_request_seconds: Family<OfRoute, Histogram<Latency>>,
        /// HTTP requests that are being answered now.
        http_in_flight: Gauge,
        /// Statements that one database transaction of a batch runs.
        store_batch_statements: Histogram<Sizes>,
        /// Log lines that were written, by level.
        log_lines_total: CounterBy<LogLevel>,
        /// Log lines that were lost because the reader of the log was too slow.
        log_lines_dropped_total: Counter,
        /// Least difference between the clocks of this node and of the database. Absent until both were compared.
        clock_drift_seconds: Gauge,
        /// New alerts about the node itself that it raised, by kind.
        node_alerts_total: CounterBy<AlertKind>,
        /// Spans of traces, by what became of them.
        trace_spans_total: CounterBy<SpanResult>,
        /// Always 1: the version of the program and the kind of database.
        build_info: Samples<OfBuild>,
    }
    and {}
}

metrics! {
    /// The metrics of the process that the system keeps, with the names that all programs use. Only on Linux.
    ProcessMetrics, prefix = "process_" {
        /// Time on processors, of users and of the system.
        cpu_seconds_total: Reading,
        /// Resident memory.
        resident_memory_bytes: Gauge,
        /// Open files.
        open_fds: Gauge,
        /// The limit on open files.
        max_fds: Gauge,
        /// Start of the process, in seconds since 1970.
        start_time_seconds: Gauge,
    }
    and {}
}

/// The metrics of a process.
#[derive(Debug, Default)]
pub struct NodeMetrics {
    /// Its own.
    pub tollgate: TollgateMetrics,
    /// The system's.
    pub process: ProcessMetrics,
}

impl NodeMetrics {
    /// The dictionary's entries.
    pub fn entries() -> Vec<Entry> {
        TollgateMetrics::entries().into_iter().chain(ProcessMetrics::entries()).collect()
    }

    /// The metrics, in the order of [`Self::entries`].
    pub fn instruments(&self) -> Vec<&dyn Instrument> {
        self.tollgate.instruments().into_iter().chain(self.process.instruments()).collect()
    }
}
