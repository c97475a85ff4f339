//! A run as an image: what was accepted and became final in each second, and the faults underneath.
//!
//! SVG as text, with a background of its own and no script. Hovering over a fault tells all of it.

use std::fmt::Write;
use std::time::Duration;

use crate::event_log::Done;
use crate::faults::title;
use crate::plan::{Kind, NAMES, Reach, Target};
use crate::report::Report;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 20.0;
/// The top of the bars of accepted creates, and the longest bar above and below the line.
const CHART_TOP: f64 = 78.0;
const BAR_MAX: f64 = 84.0;
/// Below the chart: the times.
const AXIS: f64 = 24.0;
/// A row of faults, and the room between two lanes.
const ROW: f64 = 14.0;
const LANE_GAP: f64 = 7.0;
const FOOT: f64 = 34.0;
/// A fault that is over at once is this wide.
const MARK: f64 = 3.0;
/// The width of a letter of a label.
const LETTER: f64 = 5.1;

const INK: &str = "#1f2933";
const PALE_INK: &str = "#66788a";
const ACCEPTED: &str = "#3b7dd8";
const FINAL: &str = "#2f9e6e";
const OUTAGE: &str = "#f3d9d9";

/// Colours by what is hit: the process, its way to the database, its way to the chain, the database,
/// the chain.
const GROUPS: [(&str, &str); 5] = [
    ("process", "#d64545"),
    ("way to the database", "#e08a1e"),
    ("way to the chain", "#8a63d2"),
    ("database", "#8f1d2c"),
    ("chain", "#127a8a"),
];

/// The image as SVG.
pub(crate) fn draw(report: &Report) -> String {
    Drawing::new(report).draw()
}

struct Drawing<'a> {
    report: &'a Report,
    seconds: f64,
    text: String,
}

/// Rows of each lane: a node has one for its process, its way to the database and its way to the
/// chain; the chain has one for everybody's way to it.
const ROWS: [usize; LANES] = [3, 3, 3, 1, 2];
const LANES: usize = NAMES.len() + 2;
const DATABASE_LANE: usize = NAMES.len();
const CHAIN_LANE: usize = DATABASE_LANE + 1;

impl<'a> Drawing<'a> {
    fn new(report: &'a Report) -> Self {
        let last = report.events.final_at.last().copied().unwrap_or_default();
        let seconds = last.max(report.length).as_secs_f64().ceil().max(1.0);
        Self { report, seconds, text: String::new() }
    }

    fn x(&self, at: Duration) -> f64 {
        self.x_seconds(at.as_secs_f64())
    }

    fn x_seconds(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.seconds
    }

    fn middle() -> f64 {
        CHART_TOP + BAR_MAX
    }

    /// The top of a lane, by its number: the nodes, the database, the chain.
    fn lane_top(lane: usize) -> f64 {
        let rows: usize = ROWS[..lane].iter().sum();
        Self::middle() + BAR_MAX + AXIS + rows as f64 * ROW + lane as f64 * LANE_GAP
    }

    fn draw(mut self) -> String {
        let height = Self::lane_top(LANES) + FOOT;
        self.add(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" \
             font-size=\"11\" fill=\"{INK}\">"
        ));
        self.add(&format!(
            "<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#fbfcfd\" \
             stroke=\"#cbd5df\"/>",
            WIDTH - 1.0,
            height - 1.0
        ));
        self.heading();
        self.outages();
        self.chart();
        self.lanes();
        self.legend(height - FOOT / 2.0 + 2.0);
        self.add("</svg>");
        self.text
    }

    fn add(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    fn text_at(&mut self, x: f64, y: f64, rest: &str, words: &str) {
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {rest}>{}</text>", escaped(words)));
    }

    fn heading(&mut self) {
        let (report, verdict) = (self.report, &self.report.verdict);
        let minutes = report.length.as_secs_f64() / 60.0;
        let word = if report.is_good() { "nothing lost, nothing doubled" } else { "BROKEN" };
        let first = format!("Chaos, seed {}, {minutes:.0} minutes: {word}", report.seed);
        let second = format!(
            "{} accepted · {} on the chain once · {} missing · {} twice · {} gaps · {} stale writes \
             · {} tokens granted, {} reused · {} faults",
            verdict.accepted,
            verdict.once,
            verdict.missing,
            verdict.twice,
            verdict.gaps,
            verdict.stale_writes,
            verdict.tokens_granted,
            verdict.tokens_reused,
            report.events.done.len()
        );
        self.text_at(16.0, 28.0, "font-size=\"17\" font-weight=\"600\"", &first);
        self.text_at(16.0, 48.0, &format!("font-size=\"12\" fill=\"{PALE_INK}\""), &second);
    }

    /// The database was not there.
    fn outages(&mut self) {
        let bottom = Self::lane_top(LANES);
        for done in of_kind(self.report, Kind::DatabaseCrash) {
            let (from, to) = (self.x(done.from), self.x(done.to));
            self.add(&format!(
                "<rect x=\"{from:.1}\" y=\"{CHART_TOP}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{OUTAGE}\"/>",
                (to - from).max(MARK),
                bottom - CHART_TOP
            ));
        }
    }

    fn chart(&mut self) {
        let events = &self.report.events;
        let accepted = per_second(&events.accepted_at, self.seconds);
        let settled = per_second(&events.final_at, self.seconds);
        let most = |counts: &[u64]| counts.iter().copied().max().unwrap_or_default().max(1);
        let (most_accepted, most_settled) = (most(&accepted), most(&settled));
        let middle = Self::middle();
        self.bars(&accepted, most_accepted, ACCEPTED, |height| (middle - height, height));
        self.bars(&settled, most_settled, FINAL, |height| (middle, height));
        let right = WIDTH - RIGHT;
        self.add(&format!(
            "<path d=\"M{LEFT} {middle}H{right}\" stroke=\"{PALE_INK}\" stroke-width=\"0.8\"/>"
        ));
        for (y, colour, words) in [
            (CHART_TOP + 9.0, ACCEPTED, most_accepted.to_string()),
            (middle - 30.0, ACCEPTED, "accepted".to_owned()),
            (middle - 18.0, ACCEPTED, "per second".to_owned()),
            (middle + 26.0, FINAL, "final".to_owned()),
            (middle + 38.0, FINAL, "per second".to_owned()),
            (middle + BAR_MAX, FINAL, most_settled.to_string()),
        ] {
            let style = format!("text-anchor=\"end\" fill=\"{colour}\"");
            self.text_at(LEFT - 8.0, y, &style, &words);
        }
        let step = tick_seconds(self.seconds);
        let bottom = middle + BAR_MAX;
        let mut at = 0.0;
        while at <= self.seconds {
            let x = self.x_seconds(at);
            self.add(&format!(
                "<path d=\"M{x:.1} {CHART_TOP}V{:.1}\" stroke=\"#dde4ea\" stroke-width=\"0.7\"/>",
                Self::lane_top(LANES)
            ));
            let clock = format!("{}:{:02}", at as u64 / 60, at as u64 % 60);
            let middle = format!("text-anchor=\"middle\" font-size=\"10\" fill=\"{PALE_INK}\"");
            self.text_at(x, bottom + 14.0, &middle, &clock);
            at += step;
        }
    }

    fn bars(&mut self, counts: &[u64], most: u64, fill: &str, place: impl Fn(f64) -> (f64, f64)) {
        let width = (self.x_seconds(1.0) - self.x_seconds(0.0)) * 0.86;
        let mut path = String::new();
        for (second, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (top, height) = place(BAR_MAX * *count as f64 / most as f64);
            let x = self.x_seconds(second as f64);
            let _ = write!(path, "M{x:.1} {top:.1}h{width:.1}v{height:.1}h-{width:.1}z");
        }
        self.add(&format!("<path d=\"{path}\" fill=\"{fill}\"/>"));
    }

    fn lanes(&mut self) {
        let names = NAMES.iter().map(|name| format!("node {name}"));
        let names: Vec<String> = names.chain(["database".to_owned(), "chain".to_owned()]).collect();
        for (lane, name) in names.iter().enumerate() {
            let (top, next) = (Self::lane_top(lane), Self::lane_top(lane + 1) - LANE_GAP);
            self.text_at(
                LEFT - 8.0,
                (top + next) / 2.0 + 4.0,
                "text-anchor=\"end\" font-weight=\"600\"",
                name,
            );
            self.add(&format!(
                "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
                 fill=\"#8296aa\" fill-opacity=\"0.09\"/>",
                WIDTH - LEFT - RIGHT,
                next - top
            ));
        }
        let done = &self.report.events.done;
        let mut faults: Vec<&Done> = done.iter().collect();
        faults.sort_by_key(|done| done.from);
        for (place, done) in faults.iter().enumerate() {
            let row = row_of(done);
            let next = faults[place + 1..].iter().find(|other| row_of(other) == row);
            self.fault(done, next.map_or(WIDTH - RIGHT, |other| self.x(other.from)));
        }
    }

    /// One fault, with its name if that has room before the next one in its row.
    fn fault(&mut self, done: &Done, room_until: f64) {
        let (lane, row, group) = row_of(done);
        let (from, to) = (self.x(done.from), self.x(done.to));
        let width = (to - from).max(MARK);
        let top = Self::lane_top(lane) + row as f64 * ROW + 1.0;
        let height = ROW - 2.0;
        let colour = GROUPS[group].1;
        let seconds = (done.to - done.from).as_secs_f64();
        let whole = format!("{} ({:.1} s)", title(&done.fault), seconds);
        self.add(&format!(
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"2\" \
             fill=\"{colour}\"><title>{}</title></rect>",
            escaped(&whole)
        ));
        let label = label(done);
        let needs = label.chars().count() as f64 * LETTER + 4.0;
        let baseline = top + height - 3.0;
        if needs <= width {
            self.text_at(from + 3.0, baseline, "font-size=\"9.5\" fill=\"#ffffff\"", &label);
        } else if from + width + needs <= room_until {
            let style = format!("font-size=\"9.5\" fill=\"{colour}\"");
            self.text_at(from + width + 2.0, baseline, &style, &label);
        }
    }

    fn legend(&mut self, y: f64) {
        let mut x = LEFT;
        for (name, colour) in GROUPS {
            self.add(&format!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" rx=\"2\" \
                 fill=\"{colour}\"/>",
                y - 9.0
            ));
            self.text_at(x + 15.0, y, &format!("fill=\"{PALE_INK}\""), name);
            x += 40.0 + name.len() as f64 * 6.2;
        }
        self.add(&format!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{OUTAGE}\"/>",
            y - 9.0
        ));
        self.text_at(x + 15.0, y, &format!("fill=\"{PALE_INK}\""), "no database");
    }
}

/// Lane, row in it, and group of colours.
fn row_of(done: &Done) -> (usize, usize, usize) {
    let group = match done.fault.kind.reach() {
        Reach::Process => 0,
        Reach::DatabaseLink => 1,
        Reach::ChainLink | Reach::OneEndpoint | Reach::EveryChainLink => 2,
        Reach::Database => 3,
        Reach::Chain => 4,
    };
    match done.fault.target {
        Target::Node(node) => (node, group, group),
        Target::Database => (DATABASE_LANE, 0, group),
        Target::Chain => (CHAIN_LANE, usize::from(done.fault.kind == Kind::ChainCutForAll), group),
    }
}

/// The name without what its lane says already.
fn label(done: &Done) -> String {
    let name = done.fault.kind.name();
    match done.fault.kind {
        Kind::Reorg => format!("{name} {}", done.fault.severity),
        _ => name.trim_start_matches("database ").trim_start_matches("chain ").to_owned(),
    }
}

fn of_kind(report: &Report, kind: Kind) -> impl Iterator<Item = &Done> {
    report.events.done.iter().filter(move |done| done.fault.kind == kind)
}

fn per_second(times: &[Duration], seconds: f64) -> Vec<u64> {
    let mut counts = vec![0; seconds as usize + 1];
    for at in times {
        if let Some(count) = counts.get_mut(usize::try_from(at.as_secs()).unwrap_or(usize::MAX)) {
            *count += 1;
        }
    }
    counts
}

/// About a dozen ticks.
fn tick_seconds(seconds: f64) -> f64 {
    let steps = [5.0, 10.0, 30.0, 60.0, 300.0, 600.0];
    steps.into_iter().find(|step| seconds / step <= 16.0).unwrap_or(1800.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_log::Events;
    use crate::plan::Plan;
    use crate::verdict::Verdict;

    #[test]
    fn every_fault_is_drawn_inside_the_image() {
        let length = Duration::from_secs(120);
        let plan = Plan::draw(5, length);
        let mut events = Events::default();
        for fault in &plan.faults {
            let (from, to) = (fault.at, fault.at + fault.length);
            events.done.push(Done { fault: *fault, from, to, strikes: None });
        }
        let options = crate::Options::new("tollgate".into(), 5, length);
        let report = Report::new(&options, plan.clone(), events, Verdict::default());
        let drawn = draw(&report);
        assert_eq!(drawn.matches("<title>").count(), plan.faults.len());
        for fault in &plan.faults {
            let words = format!("<title>{} (", title(fault));
            assert!(drawn.contains(&words), "{words}");
        }
        let places = drawn.split(" x=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert!(places.map(|x| x.parse::<f64>().unwrap()).all(|x| (0.0..WIDTH).contains(&x)));
    }
}
