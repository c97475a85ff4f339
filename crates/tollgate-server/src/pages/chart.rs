//! Small line charts, drawn as SVG on the server.
//!
//! Lines differ by class and by dash pattern, and each has its name and last value beside the picture, so
//! that colour is never alone.

use std::fmt::Write as _;

use super::ladder::escaped;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;

/// A line of a chart.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// `a`, `b`, `c` or `d`: colour and dash pattern.
    pub(crate) class: &'static str,
    /// The value of each sample; `None` leaves a gap.
    pub(crate) values: Vec<Option<f64>>,
}

/// A chart.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) svg: String,
    /// Class, name and last value of each line.
    pub(crate) legend: Vec<(&'static str, &'static str, String)>,
}

/// Draws lines over samples that are `seconds_ago` old, oldest first.
pub(crate) fn draw(
    title: &'static str,
    seconds_ago: &[u64],
    lines: &[Line],
    written: fn(f64) -> String,
) -> Chart {
    let span = span(seconds_ago.first().copied().unwrap_or_default()) as f64;
    let highest = lines.iter().flat_map(|line| &line.values).flatten().copied().fold(0.0, f64::max);
    let top = ceiling(highest);
    let x = |ago: u64| WIDTH - RIGHT - ago as f64 / span * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    let legend: Vec<_> = lines
        .iter()
        .map(|line| {
            let last = line.values.iter().rev().find_map(|value| *value);
            (line.class, line.name, last.map_or_else(|| "–".to_owned(), written))
        })
        .collect();
    let told: Vec<String> = legend.iter().map(|(_, name, last)| format!("{name} {last}")).collect();
    let label = escaped(&format!("{title}: {}", told.join(", ")));
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">"
    );
    for share in [0.0, 0.5, 1.0] {
        let (at, value) = (y(top * share), written(top * share));
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{value}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 5.0,
        );
    }
    for (share, class) in [(1.0, "start"), (0.5, "middle"), (0.0, "end")] {
        let ago = (span * share) as u64;
        let words = if ago == 0 { "now".to_owned() } else { format!("−{}", short_age(ago)) };
        let _ = write!(
            svg,
            "<text class=\"tick {class}\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
            x(ago),
            HEIGHT - 6.0
        );
    }
    for line in lines {
        for points in runs(&line.values) {
            draw_run(&mut svg, line.class, &points, |place, value| {
                (x(seconds_ago.get(place).copied().unwrap_or_default()), y(value))
            });
        }
    }
    svg.push_str("</svg>");
    Chart { title, svg, legend }
}

fn draw_run(
    svg: &mut String,
    class: &str,
    points: &[(usize, f64)],
    at: impl Fn(usize, f64) -> (f64, f64),
) {
    if let [(place, value)] = points {
        let (x, y) = at(*place, *value);
        let _ = write!(svg, "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
        return;
    }
    let _ = write!(svg, "<polyline class=\"line {class}\" points=\"");
    for (place, value) in points {
        let (x, y) = at(*place, *value);
        let _ = write!(svg, "{x:.1},{y:.1} ");
    }
    svg.push_str("\"/>");
}

/// The stretches of values without a gap.
fn runs(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut runs = vec![Vec::new()];
    for (place, value) in values.iter().enumerate() {
        match (value, runs.last_mut()) {
            (Some(value), Some(run)) => run.push((place, *value)),
            (None, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
            (_, _) => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// The next of 1, 2, 5, 10, 20, … at or above a value.
fn ceiling(value: f64) -> f64 {
    let mut ten = 1.0;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if ten * factor >= value {
                return ten * factor;
            }
        }
        ten *= 10.0;
    }
}

/// The seconds that an axis covers: a round number of minutes that the oldest sample fits in.
fn span(oldest: u64) -> u64 {
    let minutes = [1, 2, 5, 10, 15, 20, 30].into_iter();
    minutes.map(|minutes| minutes * 60).find(|seconds| *seconds >= oldest).unwrap_or(oldest)
}

fn short_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_in_a_line_is_not_drawn_over() {
        let values = vec![Some(1.0), Some(2.0), None, Some(3.0)];
        let line = Line { name: "p50", class: "a", values };
        let chart = draw("Latency", &[30, 20, 10, 0], &[line], |value| format!("{value} ms"));
        assert_eq!(chart.svg.matches("<polyline").count(), 1);
        assert_eq!(chart.svg.matches("<circle").count(), 1, "a single sample is a dot");
        assert_eq!(chart.legend, [("a", "p50", "3 ms".to_owned())]);
        assert!(chart.svg.contains("aria-label=\"Latency: p50 3 ms\""));
    }

    #[test]
    fn chart_without_samples_has_its_axes() {
        let line = Line { name: "p50", class: "a", values: Vec::new() };
        let chart = draw("Latency", &[], &[line], |value| format!("{value}"));
        assert!(chart.svg.contains("now") && !chart.svg.contains("NaN"), "{}", chart.svg);
        assert_eq!(chart.legend[0].2, "–");
    }
}
