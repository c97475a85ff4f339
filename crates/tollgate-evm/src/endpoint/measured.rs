//! The metrics of one endpoint's calls. Owns the histograms of the methods that were called, so that a call finds
//! its own without making its labels.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_metrics::{ChainMetrics, Histogram, Latency};

use super::answer::kind_name;
use super::error::RpcError;

/// Counts and times the calls of an endpoint.
#[derive(Default)]
pub(super) struct Measured {
    endpoint: String,
    metrics: Arc<ChainMetrics>,
    methods: Mutex<HashMap<&'static str, Arc<Histogram<Latency>>>>,
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Measured {
    pub(super) fn new(endpoint: &str, metrics: Arc<ChainMetrics>) -> Self {
        Self { endpoint: endpoint.to_owned(), metrics, methods: Mutex::default() }
    }

    /// A call or batch was sent and answered, or not answered in time.
    pub(super) fn note_call(&self, method: &'static str, took: Duration, error: Option<&RpcError>) {
        self.histogram(method).observe(took);
        error.into_iter().for_each(|error| self.note_error(error));
    }

    /// There is no result.
    pub(super) fn note_error(&self, error: &RpcError) {
        let class = kind_name(error.kind);
        self.metrics.rpc_errors_total.with(&[&self.endpoint, class]).inc();
    }

    fn histogram(&self, method: &'static str) -> Arc<Histogram<Latency>> {
        let mut methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        let add = || self.metrics.rpc_request_seconds.with(&[&self.endpoint, method]);
        methods.entry(method).or_insert_with(add).clone()
    }
}
