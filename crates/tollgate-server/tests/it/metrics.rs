//! Metrics: what a real node exports, the page about it, and that every name of the dictionary is seen to change.

mod scenario;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_metrics::{Entry, Kind};
use tollgate_server::metrics_dictionary;

use scenario::Scenario;

/// Metrics that no node can be made to change while it works as it should, each with the test that does.
const NOT_SEEN: [(&str, &str); 7] = [
    ("tollgate_accounts_below_floor", "top_up::account_with_a_floor_alone_*"),
    ("tollgate_clock_drift_seconds", "alerts::tests::clock_drift_is_raised_counted_and_shown_*"),
    ("tollgate_node_alerts_total", "alerts::tests::clock_drift_is_raised_counted_and_shown_*"),
    ("tollgate_actor_panics_total", "supervisor::tests::an_actor_that_dies_*"),
    ("tollgate_log_lines_dropped_total", "logging::writer::tests::lines_beyond_the_limit_*"),
    ("tollgate_trace_spans_total", "spans::otlp::tests::*"),
    ("tollgate_endpoint_head_lag_blocks", "http::metrics::tests::lag_of_an_endpoint_*"),
];

fn all() -> Vec<Entry> {
    let (node, chain) = metrics_dictionary();
    node.into_iter().chain(chain).collect()
}

/// The names whose series have shown something other than 0.
fn changed(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let name = series.split('{').next()?;
        (value.parse::<f64>().is_ok_and(|value| value != 0.0)).then(|| name.to_owned())
    });
    names.collect()
}

/// The name under which an entry's value is exported.
fn sample_name(entry: &Entry) -> String {
    let suffix = if entry.kind == Kind::Histogram { "_count" } else { "" };
    format!("{}{suffix}", entry.name)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_dictionary_changes_while_a_node_works() {
    let seen = Scenario::run_all().await;
    let missing: Vec<_> = all()
        .iter()
        .filter(|entry| !seen.contains(&sample_name(entry)))
        .map(|entry| entry.name)
        .filter(|name| !NOT_SEEN.iter().any(|(known, _)| known == name))
        .collect();
    assert!(missing.is_empty(), "never seen to change: {missing:#?}");
    let needless: Vec<_> =
        NOT_SEEN.iter().filter(|(name, _)| seen.contains(*name)).map(|(name, _)| name).collect();
    assert!(needless.is_empty(), "take these off NOT_SEEN: {needless:?}");
}

/// Checks an exposition with Prometheus' own tool.
fn check_with_promtool(text: &str) {
    use std::io::Write as _;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is there: scripts/setup promtool");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}\n{text}");
}

#[test]
fn names_are_of_one_form_and_every_label_is_documented_with_its_values() {
    let mut names = BTreeMap::new();
    for entry in all() {
        assert!(names.insert(entry.name, ()).is_none(), "{} twice", entry.name);
        assert_eq!(entry.kind == Kind::Counter, entry.name.ends_with("_total"), "{}", entry.name);
        assert!(
            entry.help.ends_with('.') && entry.help.len() > 10,
            "{}: {}",
            entry.name,
            entry.help
        );
        assert!(!entry.labels.contains(&"chain_id"), "{}: it is added to all", entry.name);
    }
    let (_, chain) = metrics_dictionary();
    let per_account = chain.iter().filter(|entry| entry.labels.contains(&"submitter"));
    for entry in per_account {
        assert!(entry.help.starts_with("`metrics.per_submitter`: "), "{}", entry.name);
    }
}

/// The generated part of docs/metrics.md.
fn page() -> String {
    let (node, chain) = metrics_dictionary();
    let mut text = String::new();
    for (title, labels, entries) in [
        ("Of each chain", "All of them have the label `chain_id` too.", chain),
        ("Of the process", "", node),
    ] {
        let _ = write!(text, "## {title}\n\n{labels}\n\n");
        text = text.replace("\n\n\n\n", "\n\n");
        text.push_str("| name | kind | labels | what it shows |\n|---|---|---|---|\n");
        for entry in &entries {
            let _ = writeln!(text, "{}", row(entry));
        }
        text.push('\n');
    }
    text
}

fn row(entry: &Entry) -> String {
    let quoted = |words: &[&str]| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    let mut labels = quoted(&entry.labels);
    if !entry.values.is_empty() {
        let _ = write!(labels, ": {}", entry.values.join(", "));
    }
    let unit = match entry.unit() {
        "" => String::new(),
        unit => format!(", {unit}"),
    };
    let kind = entry.kind.name();
    let mut help = entry.help.clone();
    if let (Some(first), Some(last)) = (entry.buckets.first(), entry.buckets.last()) {
        let _ = write!(help, " {} buckets from {first} to {last}.", entry.buckets.len());
    }
    format!("| `{}` | {kind}{unit} | {labels} | {help} |", entry.name)
}

#[test]
fn page_about_metrics_is_the_dictionarys() {
    const BEGIN: &str = "<!-- generated from the dictionary -->\n";
    const END: &str = "<!-- end of what is generated -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once(BEGIN).expect("the page marks what is generated");
    let (shown, after) = rest.split_once(END).expect("and its end");
    let generated = format!("\n{}", page());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{generated}{END}{after}")).unwrap();
    } else {
        assert!(
            shown == generated,
            "run the test with UPDATE_DOCS=1 to write docs/metrics.md anew"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_a_listener_of_their_own_if_they_are_given_one() {
    let (scenario, other) = Scenario::with_own_listener().await;
    let text = scenario.scrape_at(other).await;
    check_with_promtool(&text);
    assert!(text.contains("tollgate_build_info{version="), "{text}");
    let on_api = scenario.get("/metrics").await;
    assert!(on_api.starts_with("HTTP/1.1 404"), "{on_api}");
    let elsewhere = scenario.get_at(other, "/api/v1/submitters").await;
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exposition_passes_promtool_and_names_no_account_unless_it_is_asked_to() {
    let scenario = Scenario::begin(&[("TOLLGATE_METRICS_PER_SUBMITTER", "false")]).await;
    scenario.confirm_one("r-1").await;
    let text = scenario.scrape().await;
    check_with_promtool(&text);
    let account = scenario.account().to_lowercase();
    assert!(!text.to_lowercase().contains(&account), "{text}");
    assert!(!text.contains("tollgate_submitter_"), "{text}");
    let new = scenario.get_accepting("/metrics", "application/openmetrics-text").await;
    assert!(new.ends_with("# EOF\n") && new.contains("application/openmetrics-text"), "{new}");
}
