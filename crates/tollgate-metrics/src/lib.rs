//! Metrics: one dictionary of names, and the atomic values behind them.
//!
//! A field of [`ChainMetrics`] or [`NodeMetrics`] *is* the dictionary's entry: its name, its type (kind, unit,
//! labels and buckets) and its documentation (the help text) are declared once, in `chain.rs` and `node.rs`. The
//! server exposes them and prints `docs/metrics.md` from them. Whoever counts holds the struct and adds to a
//! field: one atomic operation, without a lookup of labels. Knows no exposition format, no HTTP and no clock.

mod accounts;
mod chain;
mod dictionary;
mod instrument;
mod labels;
mod node;

pub use accounts::{AccountLoad, AccountLoads, AccountTotals, BalanceReading, HeadMark};
pub use chain::ChainMetrics;
pub use dictionary::{Entry, Instrument, Kind, Observation, Visit};
pub use instrument::{
    Buckets, Counter, CounterBy, Family, Gauge, Histogram, HistogramBy, Latency, Lifetime, Reading,
    Samples, Sizes,
};
pub use labels::{
    CommitResult, CreateResult, FencedOp, ForwardResult, GreyZoneResult, LabelNames, LabelValue,
    LeaseResult, LogLevel, ReceiptResult, ReconcileResult, RenewResult, ResubmitResult, SpanResult,
    TxEnd,
};
pub use node::{NodeMetrics, ProcessMetrics, TollgateMetrics};
