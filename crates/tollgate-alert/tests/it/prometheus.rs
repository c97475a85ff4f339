//! The rules for Prometheus: their own unit tests pass, each has one for both directions, and each leads to a
//! procedure.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn file(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn after<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).map(str::trim).collect()
}

/// Installed by `scripts/setup promtool`.
fn promtool(arguments: &[&str]) {
    let ran = Command::new("promtool")
        .args(arguments)
        .current_dir(folder().join("packaging/prometheus"))
        .output()
        .expect("promtool is installed by scripts/setup promtool");
    let text = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn prometheus_accepts_the_rules_and_they_fire_as_their_tests_say() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
}

#[test]
fn every_rule_is_tested_with_and_without_its_condition() {
    let (rules, tests) =
        (file("packaging/prometheus/alerts.yml"), file("packaging/prometheus/alerts_test.yml"));
    let names: BTreeSet<&str> = after(&rules, "- alert: ").into_iter().collect();
    let tested = |end: &str| -> BTreeSet<&str> {
        after(&tests, "- name: ").into_iter().filter_map(|name| name.strip_suffix(end)).collect()
    };
    assert_eq!(tested(" is raised"), names);
    assert_eq!(tested(" is not raised without its condition"), names);
}

#[test]
fn every_rule_leads_to_a_heading_of_the_page_on_alerts() {
    let (rules, page) =
        (file("packaging/prometheus/alerts.yml"), file("docs/operations/alerts.md"));
    let slug = |heading: &str| heading.trim().to_lowercase().replace(' ', "-");
    let headings: BTreeSet<String> = page
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| slug(line.trim_start_matches('#')))
        .collect();
    let runbooks = after(&rules, "runbook: ");
    assert_eq!(runbooks.len(), after(&rules, "- alert: ").len());
    for runbook in runbooks {
        let anchor = runbook.strip_prefix("docs/operations/alerts.md#").unwrap();
        assert!(headings.contains(anchor), "no heading for {anchor}");
    }
}

/// Metrics of a node, whatever chains it serves.
const OF_NODES: [&str; 1] = ["tollgate_clock_drift_seconds"];

#[test]
fn dashboard_asks_for_metrics_of_the_chains_that_are_chosen() {
    let text = file("packaging/grafana/tollgate.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains("tollgate_"), "{expression}");
            let is_of_node = OF_NODES.iter().any(|name| expression.contains(name));
            assert!(is_of_node || expression.contains(r#"chain_id=~"$chain""#), "{expression}");
        }
    }
}
