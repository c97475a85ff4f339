//! A run in words.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use crate::event_log::{Events, Violation};
use crate::faults::describe_lasting;
use crate::plan::{Kind, Plan};
use crate::verdict::Verdict;
use crate::{Options, svg};

/// Violations that are shown; there may be thousands of one kind.
const SHOWN_MAX: usize = 40;

/// The result of a run. Displayed as a short table and, where something is wrong, all that is.
pub struct Report {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    plan: Plan,
    pub(crate) events: Events,
    /// The judgement on chain, feed and audit.
    pub verdict: Verdict,
    logs: Option<PathBuf>,
}

impl Report {
    pub(crate) fn new(options: &Options, plan: Plan, events: Events, verdict: Verdict) -> Self {
        Self { seed: options.seed, length: options.length, plan, events, verdict, logs: None }
    }

    pub(crate) fn with_logs(self, logs: PathBuf) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// Nothing was lost, doubled, late or out of order.
    pub fn is_good(&self) -> bool {
        self.events.violations.is_empty() && self.verdict.wrong.is_empty()
    }

    /// The violations that were seen while it ran.
    pub fn violations(&self) -> &[Violation] {
        &self.events.violations
    }

    /// The number of faults of each kind that were carried out.
    pub fn faults(&self) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        for done in &self.events.done {
            *counts.entry(done.fault.kind).or_default() += 1;
        }
        counts
    }

    /// The number of requests to the chain that faults of each kind changed or refused. Other kinds are
    /// not listed.
    pub fn strikes(&self) -> BTreeMap<Kind, u64> {
        let mut strikes = BTreeMap::new();
        for done in &self.events.done {
            if let Some(struck) = done.strikes {
                *strikes.entry(done.fault.kind).or_default() += struck;
            }
        }
        strikes
    }

    /// The run as a picture.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// The longest time without an accepted create, less the part of it in which the database was
    /// down: shown, never judged.
    pub(crate) fn longest_silence(&self) -> Duration {
        let outages: Vec<(Duration, Duration)> = self
            .events
            .done
            .iter()
            .filter(|done| done.fault.kind == Kind::DatabaseCrash)
            .map(|done| (done.from, done.to))
            .collect();
        let down = |from: Duration, to: Duration| -> Duration {
            outages.iter().map(|outage| outage.1.min(to).saturating_sub(outage.0.max(from))).sum()
        };
        // Callers note their answers side by side.
        let mut accepted_at = self.events.accepted_at.clone();
        accepted_at.sort_unstable();
        let pairs = accepted_at.windows(2);
        pairs.map(|at| (at[1] - at[0]).saturating_sub(down(at[0], at[1]))).max().unwrap_or_default()
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let verdict = &self.verdict;
        let word = if self.is_good() { "good" } else { "BROKEN" };
        writeln!(to, "seed {}, {} s: {word}", self.seed, self.length.as_secs())?;
        for (name, value) in [
            ("accepted", verdict.accepted.to_string()),
            ("on the chain once", verdict.once.to_string()),
            ("of orphans", verdict.orphans.to_string()),
            ("on the second chain", verdict.second_chain.to_string()),
            ("cancelled", verdict.cancelled.to_string()),
            ("sent by callers", format!("{} (of {} reserved)", verdict.own, self.events.reserved)),
            ("missing", verdict.missing.to_string()),
            ("twice", verdict.twice.to_string()),
            ("not asked for", verdict.foreign.to_string()),
            ("gaps", verdict.gaps.to_string()),
            ("stale writes", verdict.stale_writes.to_string()),
            (
                "tokens granted",
                format!("{} ({} submitters)", verdict.tokens_granted, verdict.submitters),
            ),
            ("tokens reused", verdict.tokens_reused.to_string()),
            ("feed entries", verdict.feed_entries.to_string()),
            ("longest silence", format!("{:.1} s", self.longest_silence().as_secs_f64())),
            ("faults", self.events.done.len().to_string()),
        ] {
            writeln!(to, "  {name:<20} {value:>6}")?;
        }
        let strikes = self.strikes();
        for (kind, count) in self.faults() {
            write!(to, "    {:<20} {count:>4}", kind.name())?;
            match strikes.get(&kind) {
                Some(struck) => writeln!(to, "  hit {struck} requests")?,
                None => writeln!(to)?,
            }
        }
        if let Some(lasting) = &self.plan.lasting {
            writeln!(to, "    to the end: {}", describe_lasting(lasting))?;
        }
        writeln!(to, "  answers to creates")?;
        for (what, count) in &self.events.answers {
            writeln!(to, "    {what:<20} {count:>4}")?;
        }
        if !self.events.own_ends.is_empty() {
            writeln!(to, "  nodes that ended by themselves, and were started again")?;
            for end in &self.events.own_ends {
                writeln!(to, "    {:>6.1} s  {}", end.at.as_secs_f64(), end.what)?;
            }
        }
        if self.is_good() {
            return Ok(());
        }
        writeln!(to, "  what is wrong")?;
        for violation in self.events.violations.iter().take(SHOWN_MAX) {
            writeln!(to, "    {:>6.1} s  {}", violation.at.as_secs_f64(), violation.what)?;
        }
        for what in verdict.wrong.iter().take(SHOWN_MAX) {
            writeln!(to, "    at the end  {what}")?;
        }
        let all = self.events.violations.len() + verdict.wrong.len();
        writeln!(to, "  {all} in all; run it again with --seed {}", self.seed)?;
        match &self.logs {
            Some(logs) => writeln!(to, "  the nodes' logs: {}", logs.display()),
            None => Ok(()),
        }
    }
}
