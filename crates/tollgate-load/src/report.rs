//! The figures of a run, as a table or as JSON.

use std::collections::BTreeMap;
use std::thread::available_parallelism;

use serde_json::{Value, json};

use crate::chain::ChainReader;
use crate::ledger::Verdict;
use crate::plan::Plan;
use crate::record::{Entry, IntentOutcome, Records};
use crate::{Options, Wait};

/// The conditions of a measurement.
pub(crate) struct Environment {
    cores: usize,
    processor: Option<String>,
    nodes: usize,
    submitters: usize,
    concurrency: u32,
    rate: Option<u32>,
    batch: u64,
    gas: Option<u64>,
    run: u64,
    chain: Option<String>,
}

impl Environment {
    pub(crate) fn new(options: &Options, plan: &Plan, chain: Option<&ChainReader>) -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let processor = model.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()));
        Self {
            cores: available_parallelism().map_or(0, usize::from),
            processor,
            nodes: options.url.len(),
            submitters: plan.submitters.len(),
            concurrency: options.callers(),
            rate: options.rate,
            batch: plan.batch,
            gas: plan.gas,
            run: plan.run,
            chain: chain.map(|chain| chain.client().to_owned()).filter(|name| !name.is_empty()),
        }
    }

    fn json(&self) -> Value {
        json!({
            "tollgate": env!("CARGO_PKG_VERSION"),
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "optimised": !cfg!(debug_assertions),
            "cores": self.cores,
            "processor": self.processor,
            "chain": self.chain,
            "nodes": self.nodes,
            "submitters": self.submitters,
            "concurrency": self.concurrency,
            "ratePerSecond": self.rate,
            "batch": self.batch,
            "gas": self.gas,
            "seed": self.run,
        })
    }
}

/// The report of a finished run.
pub struct Report {
    pub(crate) environment: Environment,
    pub(crate) wait: Wait,
    pub(crate) records: Records,
    pub(crate) verdict: Option<Verdict>,
}

/// Percentiles in milliseconds, exact: every time was recorded.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Percentiles {
    fn of(mut times_us: Vec<u64>) -> Option<Self> {
        times_us.sort_unstable();
        let last = times_us.len().checked_sub(1)?;
        // The smallest time that this share of all times does not exceed.
        let at = |per_mille: usize| {
            let place = (times_us.len() * per_mille).div_ceil(1_000).saturating_sub(1);
            times_us[place.min(last)] as f64 / 1_000.0
        };
        Some(Self { p50: at(500), p90: at(900), p99: at(990), p999: at(999), max: at(1_000) })
    }

    fn json(&self) -> Value {
        let Self { p50, p90, p99, p999, max } = self;
        json!({ "p50": p50, "p90": p90, "p99": p99, "p99.9": p999, "max": max })
    }

    fn text(&self) -> String {
        let Self { p50, p90, p99, p999, max } = self;
        format!(
            "p50 {p50:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms, p99.9 {p999:.1} ms, max {max:.1} ms"
        )
    }
}

/// The figures computed from the records.
struct Figures {
    accepted: u64,
    known: u64,
    unclear: u64,
    accept_seconds: f64,
    accept: Option<Percentiles>,
    done: u64,
    done_seconds: f64,
    to_done: Option<Percentiles>,
}

impl Figures {
    fn new(entries: &[Entry]) -> Self {
        let with =
            |outcome: IntentOutcome| entries.iter().filter(move |entry| entry.outcome == outcome);
        let accepted = || with(IntentOutcome::Accepted);
        let done = || accepted().filter(|entry| entry.done_us > 0);
        let seconds = |last: Option<u64>| last.unwrap_or(0) as f64 / 1e6;
        let to_done = |entry: &Entry| entry.done_us.saturating_sub(entry.accepted_us);
        Self {
            accepted: accepted().count() as u64,
            known: with(IntentOutcome::Known).count() as u64,
            unclear: with(IntentOutcome::Unclear).count() as u64,
            accept_seconds: seconds(accepted().map(|entry| entry.accepted_us).max()),
            accept: Percentiles::of(accepted().map(|e| u64::from(e.latency_us)).collect()),
            done: done().count() as u64,
            done_seconds: seconds(done().map(|entry| entry.done_us).max()),
            to_done: Percentiles::of(done().map(to_done).collect()),
        }
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

impl Report {
    /// All intents were accepted and done, and the chain agrees.
    pub fn is_good(&self) -> bool {
        self.faults(&Figures::new(&self.records.entries)).is_empty()
    }

    fn faults(&self, figures: &Figures) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |count: u64, what: &str| {
            if count > 0 {
                faults.push(format!("{count} {what}"));
            }
        };
        fault(u64::from(figures.accepted + figures.known == 0), "run without an accepted intent");
        fault(self.records.refused.values().sum(), "intents were refused or given up");
        fault(self.records.failed.values().sum(), "intents failed");
        fault(self.records.shown_twice, "intents were shown twice");
        if self.wait != Wait::Accepted {
            let missing = figures.accepted - figures.done;
            fault(missing, &format!("accepted intents were never seen {}", self.wait.name()));
        }
        if let Some(verdict) = &self.verdict {
            fault(verdict.gaps, "nonces were left out on the chain");
            fault(verdict.nonces_twice, "nonces were used twice on the chain");
            fault(verdict.intents_twice, "intents were mined twice");
            fault(verdict.missing, "accepted intents are not on the chain");
            fault(verdict.foreign, "transactions on the chain were not asked for");
        }
        faults
    }

    /// The figures, as the lines of a table or as one JSON object.
    pub fn lines(&self, json: bool) -> Vec<String> {
        let figures = Figures::new(&self.records.entries);
        if json {
            return vec![self.to_json(&figures).to_string()];
        }
        self.rows(&figures).iter().map(|(name, text)| format!("{name:<18}{text}")).collect()
    }

    fn to_json(&self, figures: &Figures) -> Value {
        let Records { retried, refused, failed, cpu, elapsed, .. } = &self.records;
        let faults = self.faults(figures);
        let mut shape = json!({
            "environment": self.environment.json(),
            "wait": self.wait.name(),
            "elapsedSeconds": elapsed.as_secs_f64(),
            "accepted": figures.accepted,
            "acceptedPerSecond": rate(figures.accepted, figures.accept_seconds),
            "acceptSeconds": figures.accept_seconds,
            "acceptLatencyMs": figures.accept.map(|times| times.json()),
            "routing": {
                "calls": self.records.calls,
                "forwarded": self.records.forwarded,
                "directShare": self.direct_share(),
            },
            "late": self.records.late,
            "known": figures.known,
            "unclear": figures.unclear,
            "retried": retried,
            "refused": refused,
            "generator": {
                "cpuSeconds": cpu.as_secs_f64(),
                "cores": cpu.as_secs_f64() / elapsed.as_secs_f64(),
                "cpuMicrosPerTx": self.cpu_micros(figures),
            },
            "verification": self.verdict.map(|verdict| json!({
                "good": verdict.is_good(),
                "blocks": verdict.blocks,
                "mined": verdict.mined,
                "gaps": verdict.gaps,
                "noncesTwice": verdict.nonces_twice,
                "intentsTwice": verdict.intents_twice,
                "missing": verdict.missing,
                "foreign": verdict.foreign,
            })),
            "good": faults.is_empty(),
            "faults": faults,
        });
        if self.wait != Wait::Accepted {
            shape["done"] = json!({
                "count": figures.done,
                "missing": figures.accepted - figures.done,
                "shownTwice": self.records.shown_twice,
                "failed": failed,
                "perSecond": rate(figures.done, figures.done_seconds),
                "seconds": figures.done_seconds,
                "sinceAcceptedMs": figures.to_done.map(|times| times.json()),
            });
        }
        shape
    }

    fn rows(&self, figures: &Figures) -> Vec<(&'static str, String)> {
        let Records { retried, refused, failed, cpu, elapsed, late, .. } = &self.records;
        let Environment { cores, submitters, concurrency, batch, rate: offered, .. } =
            &self.environment;
        let offered = offered.map(|rate| format!("{rate}/s offered, at most "));
        let offered = offered.unwrap_or_default();
        let mut rows = vec![(
            "load",
            format!(
                "{offered}{concurrency} callers, {batch} a call, {submitters} submitters, {cores} cores"
            ),
        )];
        let per_second = rate(figures.accepted, figures.accept_seconds);
        let seconds = figures.accept_seconds;
        rows.push((
            "accepted",
            format!("{per_second:.0}/s ({} in {seconds:.2} s)", figures.accepted),
        ));
        rows.extend(figures.accept.map(|times| ("  latency", times.text())));
        if *late > 0 {
            let text = format!("{late} calls began late: all callers were busy; --concurrency");
            rows.push(("  late", text));
        }
        if figures.known > 0 {
            rows.push(("  known before", figures.known.to_string()));
        }
        if self.wait != Wait::Accepted {
            let (per_second, seconds) =
                (rate(figures.done, figures.done_seconds), figures.done_seconds);
            let text = format!("{per_second:.0}/s ({} in {seconds:.2} s)", figures.done);
            rows.push((self.wait.name(), text));
            rows.extend(figures.to_done.map(|times| ("  since accepted", times.text())));
        }
        if self.environment.nodes > 1 {
            let (calls, percent) = (self.records.calls, self.direct_share() * 100.0);
            rows.push(("routing", format!("{percent:.1} % of {calls} calls went to the owner")));
        }
        for (name, counts) in [("retried", retried), ("refused", refused), ("failed", failed)] {
            if !counts.is_empty() {
                rows.push((name, listed(counts)));
            }
        }
        let share = cpu.as_secs_f64() / elapsed.as_secs_f64();
        let micros = self.cpu_micros(figures);
        rows.push(("generator", format!("{share:.2} of a core, {micros:.0} µs of CPU per tx")));
        if let Some(verdict) = &self.verdict {
            let Verdict { blocks, mined, gaps, nonces_twice, intents_twice, missing, foreign } =
                verdict;
            rows.push((
                "chain",
                format!(
                    "{mined} mined in {blocks} blocks; {gaps} gaps, {nonces_twice} nonces twice, \
                 {intents_twice} intents twice, {missing} missing, {foreign} foreign"
                ),
            ));
        }
        let faults = self.faults(figures);
        rows.push((
            "verdict",
            match (faults.is_empty(), &self.verdict) {
                (false, _) => format!("BAD: {}", faults.join("; ")),
                (true, Some(_)) => "good: the chain holds each exactly once".to_owned(),
                (true, None) => "good, not compared with the chain".to_owned(),
            },
        ));
        rows
    }

    /// The share of calls that were not forwarded.
    fn direct_share(&self) -> f64 {
        let Records { calls, forwarded, .. } = self.records;
        if calls == 0 { 1.0 } else { (calls - forwarded) as f64 / calls as f64 }
    }

    fn cpu_micros(&self, figures: &Figures) -> f64 {
        self.records.cpu.as_micros() as f64 / figures.accepted.max(1) as f64
    }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    let listed: Vec<String> = counts.iter().map(|(code, n)| format!("{code} {n}")).collect();
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_times() {
        let times = Percentiles::of((1..=1_000).rev().map(|n| n * 1_000).collect()).unwrap();
        let Percentiles { p50, p90, p99, p999, max } = times;
        assert_eq!((p50, p90, p99, p999, max), (500.0, 900.0, 990.0, 999.0, 1_000.0));
        let one = Percentiles::of(vec![7_000]).unwrap();
        assert_eq!((one.p50, one.max), (7.0, 7.0));
        assert_eq!(Percentiles::of(Vec::new()), None);
    }

    #[test]
    fn figures_count_accepted_intents_only() {
        let entry =
            |outcome, accepted_us, done_us| Entry { outcome, latency_us: 1, accepted_us, done_us };
        let figures = Figures::new(&[
            entry(IntentOutcome::Accepted, 1_000_000, 3_000_000),
            entry(IntentOutcome::Accepted, 2_000_000, 0),
            entry(IntentOutcome::Refused, 9_000_000, 0),
            entry(IntentOutcome::Known, 0, 9_000_000),
        ]);
        assert_eq!((figures.accepted, figures.done, figures.known), (2, 1, 1));
        assert_eq!((figures.accept_seconds, figures.done_seconds), (2.0, 3.0));
        assert_eq!(figures.to_done.unwrap().max, 2_000.0);
    }
}
