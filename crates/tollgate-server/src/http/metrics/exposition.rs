//! Writes metrics as text: OpenMetrics by `prometheus-client`, and Prometheus' older format from it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tollgate_metrics::{ChainMetrics, Entry, Instrument, Kind, NodeMetrics, Observation};

/// A text format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// `text/plain; version=0.0.4`, which everything reads.
    Prometheus,
    /// `application/openmetrics-text`.
    OpenMetrics,
}

impl Format {
    /// The format for an `Accept` header.
    pub(crate) fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes the metrics of a process and of its chains, which are given with their ids.
pub(super) fn write(
    node: Arc<NodeMetrics>,
    chains: Vec<(String, Arc<ChainMetrics>)>,
    format: Format,
) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Shown { node, chains }));
    let mut text = String::new();
    // A string takes everything.
    let _ = encode(&mut text, &registry);
    match format {
        Format::OpenMetrics => text,
        Format::Prometheus => to_prometheus(&text),
    }
}

#[derive(Debug)]
struct Shown {
    node: Arc<NodeMetrics>,
    chains: Vec<(String, Arc<ChainMetrics>)>,
}

/// One series: its labels, and what it shows.
struct Series {
    labels: Vec<(&'static str, String)>,
    shown: Value,
}

enum Value {
    Number(f64),
    Histogram { sum: f64, buckets: Vec<(f64, u64)> },
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (entry, instrument) in NodeMetrics::entries().iter().zip(self.node.instruments()) {
            write_metric(&mut encoder, entry, series_of(instrument, None))?;
        }
        let of_chains: Vec<_> =
            self.chains.iter().map(|(id, metrics)| (id, metrics.instruments())).collect();
        for (place, entry) in ChainMetrics::entries().iter().enumerate() {
            let of_each = of_chains.iter();
            let series = of_each.flat_map(|(id, all)| series_of(all[place], Some(id)));
            write_metric(&mut encoder, entry, series.collect())?;
        }
        Ok(())
    }
}

fn series_of(instrument: &dyn Instrument, chain_id: Option<&String>) -> Vec<Series> {
    let mut all = Vec::new();
    instrument.collect(&mut |labels, shown| {
        let chain = chain_id.map(|id| ("chain_id", id.clone()));
        let own = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let labels = chain.into_iter().chain(own).collect();
        let shown = match shown {
            Observation::Value(value) => Value::Number(value),
            Observation::Histogram { sum, buckets } => {
                Value::Histogram { sum, buckets: buckets.to_vec() }
            }
        };
        all.push(Series { labels, shown });
    });
    all
}

fn write_metric(
    encoder: &mut DescriptorEncoder<'_>,
    entry: &Entry,
    series: Vec<Series>,
) -> fmt::Result {
    if series.is_empty() {
        return Ok(());
    }
    // The encoder adds the suffix to the samples of counters.
    let (name, kind) = match entry.kind {
        Kind::Counter => {
            (entry.name.strip_suffix("_total").unwrap_or(entry.name), MetricType::Counter)
        }
        Kind::Gauge => (entry.name, MetricType::Gauge),
        Kind::Histogram => (entry.name, MetricType::Histogram),
    };
    let mut metric = encoder.encode_descriptor(name, &entry.help, None, kind)?;
    for Series { labels, shown } in &series {
        match labels.is_empty() {
            true => write_sample(&mut metric, entry.kind, shown)?,
            false => write_sample(&mut metric.encode_family(labels)?, entry.kind, shown)?,
        }
    }
    Ok(())
}

fn write_sample(sample: &mut MetricEncoder<'_>, kind: Kind, shown: &Value) -> fmt::Result {
    match (kind, shown) {
        (Kind::Counter, Value::Number(value)) => {
            sample.encode_counter::<NoLabelSet, f64, f64>(value, None)
        }
        (_, Value::Number(value)) => sample.encode_gauge(value),
        (_, Value::Histogram { sum, buckets }) => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            sample.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
    }
}

/// The older format names a counter in its comments as in its samples, and has no end mark.
fn to_prometheus(text: &str) -> String {
    let (mut out, mut help) = (String::with_capacity(text.len()), None);
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# HELP ") {
            help = about.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let (_, help) = help.take().unwrap_or_default();
            // A string takes everything.
            let _ = writeln!(out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_metrics::CreateResult;

    fn text(format: Format) -> String {
        let chain = Arc::new(ChainMetrics::default());
        chain.tx_create_total.inc(CreateResult::Created);
        chain.commit_seconds.observe(std::time::Duration::from_millis(3));
        write(Arc::default(), vec![("7".to_owned(), chain)], format)
    }

    #[test]
    fn counter_has_its_suffix_in_the_comments_of_the_older_format_only() {
        let old = text(Format::Prometheus);
        let sample = "tollgate_tx_create_total{chain_id=\"7\",result=\"created\"} 1.0\n";
        assert!(old.contains("# TYPE tollgate_tx_create_total counter\n"), "{old}");
        assert!(old.contains(sample) && !old.contains("# EOF"), "{old}");
        let new = text(Format::OpenMetrics);
        assert!(new.contains("# TYPE tollgate_tx_create counter\n"), "{new}");
        assert!(new.contains(sample) && new.ends_with("# EOF\n"), "{new}");
    }

    #[test]
    fn histogram_is_cumulative_and_ends_with_all_observations() {
        let old = text(Format::Prometheus);
        let bucket = |bound: &str, count: u64| {
            let labels = format!("{{le=\"{bound}\",chain_id=\"7\"}}");
            let other = format!("{{chain_id=\"7\",le=\"{bound}\"}}");
            let line = |labels: &str| format!("tollgate_commit_seconds_bucket{labels} {count}\n");
            assert!(old.contains(&line(&labels)) || old.contains(&line(&other)), "{old}");
        };
        bucket("0.0025", 0);
        bucket("0.005", 1);
        bucket("+Inf", 1);
        assert!(old.contains("tollgate_commit_seconds_count{chain_id=\"7\"} 1\n"), "{old}");
    }

    #[test]
    fn format_is_openmetrics_only_if_the_request_accepts_it() {
        let scraper = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2,*/*;q=0.1";
        assert_eq!(Format::accepted(scraper), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Prometheus);
        assert_eq!(Format::accepted(""), Format::Prometheus);
    }
}
