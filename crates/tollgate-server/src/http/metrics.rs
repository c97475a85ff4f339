//! `/metrics`: fills in what is only known when somebody asks, and writes all metrics in Prometheus' format.
//!
//! Owns no values. The dictionary and the counters are those of `tollgate-metrics`.

mod exposition;
mod process;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tollgate_api::Endpoint;
use tollgate_metrics::{AccountTotals, BalanceReading, ChainMetrics, Entry, NodeMetrics};
use tollgate_model::port::span::NoSpans;
use tollgate_model::{Address, Timestamp};

use super::middleware::Observers;
use super::openapi::may_fail;
use super::problem::Problem;
use super::served_chains::{Chains, StartedChain};
use super::{health, middleware};
pub(crate) use exposition::Format;

may_fail! {
    MetricsProblems: NotFound;
}

/// The metrics of a node, and how they are shown.
#[derive(Clone, Debug, Default)]
pub struct MetricsOptions {
    /// The counters of the process.
    pub node: Arc<NodeMetrics>,
    /// Shows values of each account, with its address as a label.
    pub per_submitter: bool,
    /// They have a listener of their own: the API's has no `/metrics`.
    pub on_own_listener: bool,
}

/// Every metric that a node exports: those of the process, and those of each chain.
pub fn metrics_dictionary() -> (Vec<Entry>, Vec<Entry>) {
    (NodeMetrics::entries(), ChainMetrics::entries())
}

/// The routes of the metrics' own listener.
pub fn metrics_router(chains: Chains) -> Router {
    let observers = Observers { spans: Arc::new(NoSpans), ..chains.observers() };
    Router::new()
        .route("/metrics", get(show))
        .route("/livez", get(health::live))
        .fallback(middleware::no_route)
        .method_not_allowed_fallback(middleware::no_method)
        .layer(axum::middleware::from_fn(middleware::note_route))
        .layer(from_fn_with_state(observers, middleware::with_trace_id))
        .with_state(chains)
}

/// Metrics for Prometheus
///
/// In the text format of Prometheus, or OpenMetrics if the request accepts it. Not found if
/// `metrics.listen` gives them an address of their own.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "health",
    responses(
        (status = 200, description = "All metrics.", body = String, content_type = "text/plain"),
        MetricsProblems
    )
)]
pub(crate) async fn on_api(
    State(chains): State<Chains>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match chains.metrics().on_own_listener {
        true => Err(middleware::no_route().await),
        false => Ok(show(State(chains), headers).await),
    }
}

async fn show(State(chains): State<Chains>, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accepted.unwrap_or_default());
    // The system's files are read, and there may be thousands of series.
    let written = tokio::task::spawn_blocking(move || write(&chains, format)).await;
    match written {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(_) => Problem::defect().into_response(),
    }
}

fn write(chains: &Chains, format: Format) -> String {
    let options = chains.metrics();
    process::read(&options.node.process);
    let shown = chains.started().map(|started| {
        let engine = &started.api.engine;
        refresh(started, engine.now(), options.per_submitter);
        (engine.chain_id().to_string(), engine.metrics().clone())
    });
    let shown = shown.collect();
    exposition::write(options.node.clone(), shown, format)
}

/// Fills in the gauges of a chain.
fn refresh(started: &StartedChain, now: Timestamp, per_submitter: bool) {
    let metrics = started.api.engine.metrics();
    let accounts = metrics.accounts.by_account(now);
    let (_, sum) = metrics.accounts.totals(now);
    metrics.leases_held.add(0.0);
    metrics.writer_queue_depth.add(0.0);
    metrics.queued_depth.set(float(sum.queued));
    metrics.pending_depth.set(float(sum.pending));
    metrics.stuck_depth.set(float(sum.stuck));
    metrics.reservations_outstanding.set(float(sum.reserved));
    metrics.protected_submitters.set(float(sum.protected));
    metrics.pending_oldest_age_seconds.set(sum.oldest_age_seconds);
    let head = metrics.head.get();
    metrics.head_block.set_or_clear(head.map(|(number, _)| float(number)));
    metrics.head_age_seconds.set_or_clear(head.map(|(_, at)| now.since(at).as_secs_f64()));
    let balances = metrics.accounts.balances();
    let lowest = |values: Vec<f64>| values.into_iter().reduce(f64::min);
    let ether = balances.iter().map(|(_, reading)| reading.ether).collect();
    metrics.balance_lowest_ether.set_or_clear(lowest(ether));
    let left = balances.iter().filter_map(|(_, reading)| reading.left_seconds).collect();
    metrics.balance_left_seconds.set_or_clear(lowest(left));
    show_endpoints(metrics, &started.endpoints());
    if per_submitter {
        show_accounts(metrics, &accounts, &balances);
    }
}

fn show_endpoints(metrics: &ChainMetrics, endpoints: &[Endpoint]) {
    let is_up = |endpoint: &Endpoint| endpoint.check == "good" && !endpoint.resting;
    let up = endpoints.iter().map(|it| (vec![it.name.clone()], f64::from(u8::from(is_up(it)))));
    metrics.endpoint_up.replace(up);
    let highest = endpoints.iter().filter_map(|endpoint| endpoint.head).max().unwrap_or_default();
    let lag = endpoints.iter().filter_map(|endpoint| {
        Some((vec![endpoint.name.clone()], float(highest - endpoint.head?)))
    });
    metrics.endpoint_head_lag_blocks.replace(lag);
}

fn show_accounts(
    metrics: &ChainMetrics,
    accounts: &[(Address, AccountTotals)],
    balances: &[(Address, BalanceReading)],
) {
    let name = |account: &Address| vec![account.to_string()];
    let each = |value: fn(&AccountTotals) -> f64| {
        accounts.iter().map(move |(account, load)| (name(account), value(load)))
    };
    metrics.submitter_queued_depth.replace(each(|load| float(load.queued)));
    metrics.submitter_pending_depth.replace(each(|load| float(load.pending)));
    metrics.submitter_pending_oldest_age_seconds.replace(each(|load| load.oldest_age_seconds));
    let ether = balances.iter().map(|(account, reading)| (name(account), reading.ether));
    metrics.submitter_balance_ether.replace(ether);
    let left = balances.iter();
    let left = left.filter_map(|(account, reading)| Some((name(account), reading.left_seconds?)));
    metrics.submitter_balance_left_seconds.replace(left);
}

/// A count as the exposition shows it; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "expositions are floating point")]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_metrics::{Instrument, Observation};

    fn endpoint(name: &str, head: Option<u64>, resting: bool) -> Endpoint {
        let (name, role, check) = (name.to_owned(), "full".into(), "good".to_owned());
        Endpoint { name, role, check, resting, head }
    }

    fn shown(instrument: &dyn Instrument) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        instrument.collect(&mut |labels, shown| {
            if let Observation::Value(value) = shown {
                all.push((labels[0].1.to_owned(), value));
            }
        });
        all
    }

    #[test]
    fn lag_of_an_endpoint_is_its_distance_to_the_highest_head() {
        let metrics = ChainMetrics::default();
        let endpoints = [
            endpoint("a", Some(10), false),
            endpoint("b", Some(7), true),
            endpoint("c", None, false),
        ];
        show_endpoints(&metrics, &endpoints);
        let lag = shown(&metrics.endpoint_head_lag_blocks);
        assert_eq!(lag, [("a".to_owned(), 0.0), ("b".to_owned(), 3.0)]);
        let up = shown(&metrics.endpoint_up);
        assert_eq!(up, [("a".to_owned(), 1.0), ("b".to_owned(), 0.0), ("c".to_owned(), 1.0)]);
    }
}
