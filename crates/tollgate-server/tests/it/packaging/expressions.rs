//! The rules for Prometheus and the dashboard for Grafana ask for metrics and labels that a node exports.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollgate_metrics::{Entry, Kind};
use tollgate_server::metrics_dictionary;

use super::root;

/// The labels that a scrape adds.
const OF_SCRAPE: [&str; 2] = ["instance", "job"];

/// A metric as an expression can name it.
struct Metric {
    labels: BTreeSet<&'static str>,
    /// The values of its label, if they are known beforehand.
    values: Vec<&'static str>,
}

/// Every series name, with those that histograms are made of.
struct Dictionary(BTreeMap<String, Metric>);

impl Dictionary {
    fn new() -> Self {
        let (node, chain) = metrics_dictionary();
        let mut names = BTreeMap::new();
        for (entries, of_chain) in [(node, None), (chain, Some("chain_id"))] {
            for entry in entries {
                for (name, extra) in series_names(&entry) {
                    let own = entry.labels.iter().copied().chain(OF_SCRAPE);
                    let labels = own.chain(of_chain).chain(extra).collect();
                    names.insert(name, Metric { labels, values: entry.values.clone() });
                }
            }
        }
        Self(names)
    }

    /// The mistakes of an expression, and the labels that its result has.
    fn check(&self, expression: &str) -> (Vec<String>, BTreeSet<String>) {
        let mut problems = Vec::new();
        for selector in selectors(expression) {
            match self.0.get(selector.name) {
                None => problems.push(format!("no metric {}", selector.name)),
                Some(metric) => problems.extend(selector.problems(metric)),
            }
        }
        let mut result = BTreeSet::new();
        let groups = groups(expression);
        for Group { labels, of } in &groups {
            for label in labels {
                let metrics = selectors(of).into_iter().filter_map(|it| self.0.get(it.name));
                if metrics.into_iter().any(|metric| !metric.labels.contains(label)) {
                    problems.push(format!("{of} has no label {label}"));
                }
                result.insert((*label).to_owned());
            }
        }
        if groups.is_empty() {
            let metrics = selectors(expression).into_iter().filter_map(|it| self.0.get(it.name));
            let all = metrics.flat_map(|metric| metric.labels.iter().copied()).chain(OF_SCRAPE);
            result.extend(all.map(str::to_owned));
        }
        (problems, result)
    }
}

fn series_names(entry: &Entry) -> Vec<(String, Option<&'static str>)> {
    let with = |end: &str, label| (format!("{}{end}", entry.name), label);
    match entry.kind {
        Kind::Counter | Kind::Gauge => vec![with("", None)],
        Kind::Histogram => {
            vec![with("_bucket", Some("le")), with("_sum", None), with("_count", None)]
        }
    }
}

/// A metric of Tollgate in an expression, with what it is selected by.
struct Selector<'a> {
    name: &'a str,
    /// Label, operator and value.
    matchers: Vec<(&'a str, &'a str, &'a str)>,
}

impl Selector<'_> {
    fn problems(&self, metric: &Metric) -> Vec<String> {
        let mut problems = Vec::new();
        for (label, operator, value) in &self.matchers {
            if !metric.labels.contains(label) {
                problems.push(format!("{} has no label {label}", self.name));
            }
            let is_own = !OF_SCRAPE.contains(label) && !["chain_id", "le"].contains(label);
            // A dashboard's variable stands for any value.
            if !is_own || metric.values.is_empty() || value.starts_with('$') {
                continue;
            }
            let is_pattern = operator.ends_with('~');
            let asked = value.split('|').take(if is_pattern { usize::MAX } else { 1 });
            let unknown = asked.filter(|asked| !metric.values.contains(asked));
            problems.extend(unknown.map(|it| format!("{} has no {label} {it}", self.name)));
        }
        problems
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The metrics that an expression names.
fn selectors(expression: &str) -> Vec<Selector<'_>> {
    let mut found = Vec::new();
    for prefix in ["tollgate_", "process_"] {
        for (at, _) in expression.match_indices(prefix) {
            if expression[..at].ends_with(is_word) {
                continue;
            }
            let rest = &expression[at..];
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (name, rest) = rest.split_at(end);
            let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let matchers = inner.map_or(Vec::new(), |(inner, _)| matchers(inner));
            found.push(Selector { name, matchers });
        }
    }
    found
}

/// `a="b", c=~"d"`. No value has a comma.
fn matchers(inner: &str) -> Vec<(&str, &str, &str)> {
    let read = |part: &'_ str| -> Option<(usize, usize)> {
        let label = part.find(|c| !is_word(c))?;
        Some((label, part.find('"')?))
    };
    let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    let all = parts.map(|part| {
        let (label, value) = read(part).unwrap_or_else(|| panic!("no matcher: {part}"));
        (&part[..label], &part[label..value], part[value..].trim_matches('"'))
    });
    all.collect()
}

/// Labels by which an expression groups or joins, and what they must be labels of.
struct Group<'a> {
    labels: Vec<&'a str>,
    of: &'a str,
}

fn groups(expression: &str) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    for word in ["by", "on", "without", "ignoring"] {
        for (at, _) in expression.match_indices(&format!("{word} (")) {
            if expression[..at].ends_with(is_word) {
                continue;
            }
            let rest = &expression[at + word.len() + 2..];
            let (labels, rest) = rest.split_once(')').unwrap();
            let labels = labels.split(',').map(str::trim).collect();
            // A join is about both sides, a grouping about the brackets behind it.
            let of = if word == "by" || word == "without" { in_brackets(rest) } else { expression };
            groups.push(Group { labels, of });
        }
    }
    groups
}

/// The text in the brackets that a text begins with.
fn in_brackets(text: &str) -> &str {
    let text = text.trim_start();
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[1..at];
        }
    }
    panic!("open brackets: {text}")
}

/// The words between a start and an end: labels that a text shows.
fn shown<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).map(move |(at, _)| {
        let rest = text[at + start.len()..].trim_start();
        &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
    })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn after<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).map(str::trim).collect()
}

/// Every expression of the dashboard, with the texts that show labels of its result.
fn dashboard_targets(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if !text("expr").is_empty() {
                found.push((text("expr").to_owned(), text("legendFormat").to_owned()));
            }
            // The variables: `label_values(METRIC, LABEL)`.
            if let Some(inner) = text("query").strip_prefix("label_values(") {
                let (metric, label) = inner.trim_end_matches(')').split_once(", ").unwrap();
                found.push((metric.to_owned(), format!("{{{{{label}}}}}")));
            }
            fields.values().for_each(|value| dashboard_targets(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| dashboard_targets(item, found)),
        _ => {}
    }
}

#[test]
fn rules_name_metrics_labels_and_values_that_exist() {
    let (dictionary, rules) = (Dictionary::new(), read("packaging/prometheus/alerts.yml"));
    let expressions = after(&rules, "expr: ");
    assert_eq!(expressions.len(), after(&rules, "- alert: ").len());
    let summaries = after(&rules, "summary: ");
    let mut problems = Vec::new();
    for (expression, summary) in expressions.into_iter().zip(summaries) {
        let (wrong, labels) = dictionary.check(expression);
        problems.extend(wrong.into_iter().map(|wrong| format!("{expression}: {wrong}")));
        let unknown = shown(summary, "$labels.").filter(|label| !labels.contains(*label));
        problems.extend(unknown.map(|label| format!("{summary}: no label {label}")));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn tests_of_the_rules_use_series_that_exist() {
    let (dictionary, tests) = (Dictionary::new(), read("packaging/prometheus/alerts_test.yml"));
    let series = after(&tests, "- series: ");
    assert!(series.len() > 20, "{} series", series.len());
    let check = |series: &str| {
        let (wrong, _) = dictionary.check(series);
        wrong.into_iter().map(|wrong| format!("{series}: {wrong}")).collect::<Vec<_>>()
    };
    let problems: Vec<String> = series.into_iter().flat_map(check).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn dashboard_names_metrics_labels_and_values_that_exist() {
    let dictionary = Dictionary::new();
    let dashboard: Value = serde_json::from_str(&read("packaging/grafana/tollgate.json")).unwrap();
    let mut targets = Vec::new();
    dashboard_targets(&dashboard, &mut targets);
    assert!(targets.len() > 20, "{} expressions", targets.len());
    let mut problems = Vec::new();
    for (expression, legend) in targets {
        let (wrong, labels) = dictionary.check(&expression);
        problems.extend(wrong.into_iter().map(|wrong| format!("{expression}: {wrong}")));
        let unknown = shown(&legend, "{{").filter(|label| !labels.contains(*label));
        problems.extend(unknown.map(|label| format!("{expression}: {legend}: no label {label}")));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn unknown_metrics_labels_and_values_are_noticed() {
    let dictionary = Dictionary::new();
    for (expression, problem) in [
        ("sum(rate(tollgate_gone_total[5m]))", "no metric tollgate_gone_total"),
        ("tollgate_commit_seconds", "no metric tollgate_commit_seconds"),
        (
            "sum by (class) (rate(tollgate_tx_submit_total{chain_id=~\"$chain\"}[5m]))",
            "rate(tollgate_tx_submit_total{chain_id=~\"$chain\"}[5m]) has no label class",
        ),
        ("tollgate_stuck_depth{kind=\"hole\"}", "tollgate_stuck_depth has no label kind"),
        (
            "tollgate_resubmit_total{result=~\"sent|lost\"}",
            "tollgate_resubmit_total has no result lost",
        ),
        (
            "a and on (endpoint) sum by (chain_id) (tollgate_pending_depth) > 0",
            "a and on (endpoint) sum by (chain_id) (tollgate_pending_depth) > 0 has no label endpoint",
        ),
        (
            "sum by (chain_id) (tollgate_clock_drift_seconds)",
            "tollgate_clock_drift_seconds has no label chain_id",
        ),
    ] {
        assert_eq!(dictionary.check(expression).0, [problem], "{expression}");
    }
    let good = "histogram_quantile(0.99, sum by (le, instance) (rate(tollgate_commit_seconds_bucket[5m])))";
    let (problems, labels) = dictionary.check(good);
    assert!(problems.is_empty() && labels.contains("instance") && !labels.contains("endpoint"));
}
