//! Charts as SVG text, without scripts. Colours follow the reader's light or dark scheme.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const FONT: &str = "font-family=\"system-ui, sans-serif\" font-size=\"12\"";
/// Colours of the ground, of words and lines, and of three series: legible in both schemes.
const STYLE: &str = "<style>\
    .ground{fill:#fbfcfd;stroke:#cbd5df}text{fill:#1f2933}.pale{fill:#5b6b7b}.line{stroke:#dde4ea}\
    .a{fill:#8a98a8;stroke:#8a98a8}.b{fill:#3b7dd8;stroke:#3b7dd8}.c{fill:#2f9e6e;stroke:#2f9e6e}\
    .mark{stroke:#1f2933}\
    @media(prefers-color-scheme:dark){\
    .ground{fill:#14181d;stroke:#363e47}text{fill:#e4e9ee}.pale{fill:#9aa7b4}.line{stroke:#2b333b}\
    .a{fill:#7c8896;stroke:#7c8896}.b{fill:#5b9cf2;stroke:#5b9cf2}.c{fill:#4cbf8c;stroke:#4cbf8c}\
    .mark{stroke:#e4e9ee}}</style>";
/// Of bars: the ceiling is grey.
const BARS: [&str; 3] = ["a", "b", "c"];
/// Of lines.
const LINES: [&str; 2] = ["b", "c"];

/// One bar: the median, and the lowest and the highest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The bars of one scenario, in the order of the series.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) bars: Vec<Option<Bar>>,
}

/// A line of a chart over numbers that grow by factors.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Horizontal bars in groups, each with its range.
pub(crate) fn bars(
    title: &str,
    series: &[&str],
    groups: &[Group],
    text: impl Fn(f64) -> String,
) -> String {
    const LEFT: f64 = 270.0;
    const RIGHT: f64 = 90.0;
    const TOP: f64 = 64.0;
    const BAR: f64 = 18.0;
    const GAP: f64 = 16.0;
    let all = || groups.iter().flat_map(|group| group.bars.iter().flatten());
    let most = all().map(|bar| bar.high.max(bar.value)).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / most;
    let height = TOP + groups.iter().map(|group| group.bars.len() as f64 * BAR + GAP).sum::<f64>();
    let mut out = open(title, series, &BARS, height);
    let mut y = TOP;
    for group in groups {
        let middle = y + group.bars.len() as f64 * BAR / 2.0 + 4.0;
        words(&mut out, LEFT - 12.0, middle, "text-anchor=\"end\"", &group.label);
        for (bar, class) in group.bars.iter().zip(BARS) {
            if let Some(Bar { value, low, high }) = bar {
                let _ = writeln!(
                    out,
                    "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    y + 1.0,
                    x(*value) - LEFT,
                    BAR - 3.0
                );
                let across = y + BAR / 2.0 - 0.5;
                line(&mut out, "mark", (x(*low), across), (x(*high), across));
                words(&mut out, x(*high) + 6.0, y + BAR - 5.0, "class=\"pale\"", &text(*value));
            }
            y += BAR;
        }
        y += GAP;
    }
    out + "</svg>\n"
}

/// Lines over a logarithmic axis; 0 has a place of its own before it.
pub(crate) fn curves(
    title: &str,
    x_title: &str,
    series: &[Series],
    text: impl Fn(f64) -> String,
) -> String {
    const HEIGHT: f64 = 300.0;
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 70.0;
    const TOP: f64 = 72.0;
    const BOTTOM: f64 = 48.0;
    let points = || series.iter().flat_map(|series| &series.points);
    let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let places: Vec<f64> = ticks.iter().map(|tick| log_place(*tick)).collect();
    let (first, last) =
        (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(1.0));
    let span = (last - first).max(1.0);
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * (log_place(value) - first) / span;
    let most = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max) * 1.1;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most;
    let names: Vec<&str> = series.iter().map(|series| &*series.name).collect();
    let mut out = open(title, &names, &LINES, HEIGHT);
    for part in 0..=4 {
        let value = most * f64::from(part) / 4.0;
        line(&mut out, "line", (LEFT, y(value)), (WIDTH - RIGHT, y(value)));
        let style = "text-anchor=\"end\" class=\"pale\"";
        words(&mut out, LEFT - 8.0, y(value) + 4.0, style, &text(value));
    }
    for tick in &ticks {
        let style = "text-anchor=\"middle\" class=\"pale\"";
        words(&mut out, x(*tick), HEIGHT - BOTTOM + 18.0, style, &crate::stats::grouped(*tick));
    }
    let style = "text-anchor=\"middle\" class=\"pale\"";
    words(&mut out, WIDTH / 2.0, HEIGHT - 10.0, style, x_title);
    for (series, class) in series.iter().zip(LINES) {
        for pair in series.points.windows(2) {
            let ends = ((x(pair[0].0), y(pair[0].1)), (x(pair[1].0), y(pair[1].1)));
            line(&mut out, &format!("{class}\" stroke-width=\"2"), ends.0, ends.1);
        }
        for (at, value) in &series.points {
            let _ = writeln!(
                out,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                x(*at),
                y(*value)
            );
            words(&mut out, x(*at), y(*value) - 8.0, "text-anchor=\"middle\"", &text(*value));
        }
    }
    out + "</svg>\n"
}

/// The place of a number on a logarithmic axis, with 0 one step before 1.
fn log_place(value: f64) -> f64 {
    if value < 1.0 { -1.0 } else { value.log10() }
}

/// The image with its title and, if there are several series, their names.
fn open(title: &str, series: &[&str], classes: &[&str], height: f64) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" {FONT}>\n{STYLE}\n<rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" \
         height=\"{}\" rx=\"8\"/>\n",
        WIDTH - 1.0,
        height - 1.0
    );
    words(&mut out, 18.0, 26.0, "font-size=\"15\" font-weight=\"600\"", title);
    let mut x = 18.0;
    for (name, class) in series.iter().zip(classes) {
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"38\" width=\"10\" height=\"10\"/>"
        );
        words(&mut out, x + 16.0, 47.0, "class=\"pale\"", name);
        x += 36.0 + name.chars().count() as f64 * 6.6;
    }
    out
}

fn words(out: &mut String, x: f64, y: f64, style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>");
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of an attribute.
    fn all(drawn: &str, attribute: &str) -> Vec<f64> {
        let start = format!(" {attribute}=\"");
        let parts = drawn.split(&start).skip(1);
        parts.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_stay_inside() {
        let bar = |value| Some(Bar { value, low: value, high: value });
        let group = |label: &str, bars| Group { label: label.to_owned(), bars };
        let groups =
            [group("a < b", vec![bar(50.0), bar(100.0)]), group("c", vec![None, bar(0.0)])];
        let drawn = bars("t", &["x", "y"], &groups, |value| format!("{value}"));
        // The ground, two names and three bars.
        let widths = all(&drawn[drawn.find("ground\" x").unwrap()..], "width");
        assert_eq!(widths.len(), 6, "{drawn}");
        assert!((widths[4] / widths[3] - 2.0).abs() < 0.01, "{widths:?}");
        assert_eq!(widths[5], 0.0);
        assert!(drawn.contains("a &lt; b") && drawn.contains(">100<"));
        let height = all(&drawn, "height")[0];
        assert!(all(&drawn, "y").into_iter().all(|y| (0.0..height).contains(&y)));
    }

    #[test]
    fn curves_show_every_point_with_zero_before_one() {
        let series =
            |points: &[(f64, f64)]| Series { name: "n".to_owned(), points: points.to_vec() };
        let points = [(0.0, 1.0), (1.0, 2.0), (100.0, 4.0)];
        let drawn = curves("t", "x", &[series(&points)], |value| format!("{value:.1}"));
        let (across, down) = (all(&drawn, "cx"), all(&drawn, "cy"));
        assert_eq!(across.len(), 3);
        assert!((across[2] - across[1]) / (across[1] - across[0]) > 1.99);
        assert!(down[0] > down[1] && down[1] > down[2], "more is higher: {down:?}");
        for empty in
            [curves("t", "x", &[], |_| String::new()), bars("t", &[], &[], |_| String::new())]
        {
            assert!(
                empty.ends_with("</svg>\n") && !empty.contains("NaN") && !empty.contains("inf")
            );
        }
    }
}
