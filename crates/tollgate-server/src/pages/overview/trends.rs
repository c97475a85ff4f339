//! The charts of the overview: throughput, latency and load over time.

use super::super::chart::{self, Chart, Line};
use super::super::format::{count, latency};
use super::super::samples::{SAMPLE_EVERY, Sample};

/// Points of a chart.
const POINTS_MAX: usize = 180;

/// Throughput, latency and load over time.
pub(super) fn charts(samples: &[Sample]) -> Vec<Chart> {
    // Several samples make a point where there are many, so that single blocks don't make a saw.
    let group = samples.len().div_ceil(POINTS_MAX).max(5);
    let groups: Vec<&[Sample]> = samples.rchunks(group).rev().collect();
    let seconds = |samples: usize| samples as u64 * SAMPLE_EVERY.as_secs();
    let mut ago: Vec<u64> = Vec::with_capacity(groups.len());
    let mut left = samples.len();
    for group in &groups {
        left -= group.len();
        ago.push(seconds(left));
    }
    let line = |name, class, of: &dyn Fn(&[Sample]) -> Option<f64>| {
        let values = groups.iter().map(|group| of(group)).collect();
        Line { name, class, values }
    };
    let rate = |of: fn(&Sample) -> u64| {
        move |group: &[Sample]| {
            let sum: u64 = group.iter().map(of).sum();
            Some(sum as f64 / seconds(group.len()) as f64)
        }
    };
    let worst = |of: fn((u64, u64)) -> u64| {
        move |group: &[Sample]| {
            let values = group.iter().filter_map(|sample| sample.latency_ms.map(of));
            values.max().map(|ms| ms as f64)
        }
    };
    let last = |of: fn(&Sample) -> u64| {
        move |group: &[Sample]| group.last().map(|sample| of(sample) as f64)
    };
    let throughput = [
        line("confirmed", "a", &rate(|sample| sample.confirmed)),
        line("failed", "d", &rate(|sample| sample.failed)),
    ];
    let latencies = [
        line("half within", "a", &worst(|(half, _)| half)),
        line("95 % within", "b", &worst(|(_, most)| most)),
    ];
    let states = [
        line("queued", "c", &last(|sample| sample.open.queued)),
        line("sent", "a", &last(|sample| sample.open.sent)),
        line("mined", "b", &last(|sample| sample.open.mined)),
        line("stuck", "d", &last(|sample| sample.open.stuck)),
    ];
    let written_rate = |value: f64| match value {
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}/s"),
        value => format!("{value:.1}/s"),
    };
    vec![
        chart::draw("Throughput", &ago, &throughput, written_rate),
        chart::draw("Accepted to final", &ago, &latencies, |ms| latency(ms as u64)),
        chart::draw("Open transactions", &ago, &states, |value| match value {
            value if value.fract() == 0.0 => count(value as u64),
            value => format!("{value:.1}"),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::OpenCounts;
    use super::*;

    #[test]
    fn charts_of_a_steady_node_show_its_rate_latency_and_load() {
        let open = OpenCounts { queued: 3, sent: 2, mined: 1, stuck: 0 };
        let sample = Sample { confirmed: 20, failed: 0, latency_ms: Some((900, 2_500)), open };
        let drawn = charts(&[sample; 900]);
        let told = |place: usize| -> Vec<String> {
            drawn[place].legend.iter().map(|(_, _, last)| last.clone()).collect()
        };
        assert_eq!(told(0), ["10/s", "0/s"]);
        assert_eq!(told(1), ["900 ms", "2.5 s"]);
        assert_eq!(told(2), ["3", "2", "1", "0"]);
        assert!(drawn[0].svg.contains("−30 min"), "{}", drawn[0].svg);
    }

    #[test]
    fn charts_of_a_node_that_just_started_are_empty() {
        assert!(
            charts(&[]).iter().all(|chart| chart.legend.iter().all(|(_, _, last)| last == "–"))
        );
    }
}
