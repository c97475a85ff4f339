//! Spans of a node, for a collector that the settings name ([docs/logs.md](docs/logs.md)).

#[cfg(feature = "otlp")]
mod otlp;

use std::sync::Arc;

use tollgate_metrics::NodeMetrics;
use tollgate_model::port::span::{NoSpans, SpanSink};

use crate::config::TraceSettings;
use crate::failure::Failure;

/// The spans of a node.
pub(crate) struct NodeSpans {
    sink: Arc<dyn SpanSink>,
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

impl NodeSpans {
    /// Starts what the settings ask for.
    ///
    /// # Errors
    /// The collector's URL can't be used.
    #[cfg(feature = "otlp")]
    pub(crate) fn start(
        settings: &TraceSettings,
        node: &str,
        metrics: &Arc<NodeMetrics>,
    ) -> Result<Self, Failure> {
        let Some(url) = &settings.otlp_url else { return Ok(Self::none()) };
        let options = otlp::ExporterOptions {
            url: url.0.clone(),
            sample_percent: settings.sample_percent,
            node: node.to_owned(),
        };
        let (sink, exporter) = otlp::start(options, metrics.clone())?;
        Ok(Self { sink: Arc::new(sink), exporter: Some(exporter) })
    }

    /// The settings refuse a collector before anything starts.
    #[cfg(not(feature = "otlp"))]
    pub(crate) fn start(_: &TraceSettings, _: &str, _: &Arc<NodeMetrics>) -> Result<Self, Failure> {
        Ok(Self::none())
    }

    fn none() -> Self {
        Self {
            sink: Arc::new(NoSpans),
            #[cfg(feature = "otlp")]
            exporter: None,
        }
    }

    pub(crate) fn sink(&self) -> Arc<dyn SpanSink> {
        self.sink.clone()
    }

    /// Sends what still waits, but not for long.
    pub(crate) async fn stop(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
    }
}
