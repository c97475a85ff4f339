//! Medians of runs, and whether they reach their targets. Pure.

use crate::bed::Side;
use crate::load::Sample;

/// A figure of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Metric {
    Rate,
    P50,
    P99,
    ServiceCpu,
    DatabaseCpu,
    RpcCalls,
}

impl Metric {
    pub(crate) const fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Rate => sample.rate,
            Self::P50 => sample.p50,
            Self::P99 => sample.p99,
            Self::ServiceCpu => sample.service,
            Self::DatabaseCpu => sample.database,
            Self::RpcCalls => sample.rpc_calls,
        }
    }

    /// Stands after the name of a scenario.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Rate => "per second",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::ServiceCpu => "CPU of the service per transaction",
            Self::DatabaseCpu => "CPU of the database per transaction",
            Self::RpcCalls => "RPC calls per transaction",
        }
    }

    /// A value without its unit.
    pub(crate) fn number(self, value: f64) -> String {
        match self {
            Self::Rate => grouped(value),
            Self::P50 | Self::P99 => format!("{value:.1}"),
            Self::ServiceCpu | Self::DatabaseCpu => format!("{value:.0}"),
            Self::RpcCalls => format!("{value:.2}"),
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Rate | Self::RpcCalls => "",
            Self::P50 | Self::P99 => " ms",
            Self::ServiceCpu | Self::DatabaseCpu => " µs",
        }
    }

    pub(crate) fn format(self, value: f64) -> String {
        format!("{}{}", self.number(value), self.unit())
    }
}

/// A target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Bound {
    /// Of Tollgate's figure to the ceiling's.
    RatioAtLeast(f64),
    RatioAtMost(f64),
    /// Of Tollgate's figure alone.
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    pub(crate) fn holds(self, ceiling: Option<f64>, tollgate: f64) -> bool {
        let ratio = ceiling.map_or(f64::NAN, |ceiling| tollgate / ceiling);
        match self {
            Self::RatioAtLeast(least) => ratio >= least,
            Self::RatioAtMost(most) => ratio <= most,
            Self::AtLeast(least) => tollgate >= least,
            Self::AtMost(most) => tollgate <= most,
        }
    }

    pub(crate) fn format(self, metric: Metric) -> String {
        match self {
            Self::RatioAtLeast(least) => format!("≥ {least} ×"),
            Self::RatioAtMost(most) => format!("≤ {most} ×"),
            Self::AtLeast(least) => format!("≥ {}", metric.format(least)),
            Self::AtMost(most) => format!("≤ {}", metric.format(most)),
        }
    }
}

/// The runs of one scenario on one side.
#[derive(Clone, Default, Debug)]
pub(crate) struct Runs(Vec<Sample>);

impl Runs {
    pub(crate) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub(crate) fn median(&self, of: impl Fn(&Sample) -> f64) -> Option<f64> {
        median(self.0.iter().map(of).collect())
    }

    /// The lowest and the highest.
    pub(crate) fn range(&self, of: impl Fn(&Sample) -> f64) -> (f64, f64) {
        let values = self.0.iter().map(of);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

/// One scenario, on both sides.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) targets: &'static [(Metric, Bound)],
    pub(crate) ceiling: Runs,
    pub(crate) tollgate: Runs,
}

impl Row {
    pub(crate) fn new(name: &'static str, targets: &'static [(Metric, Bound)]) -> Self {
        Self { name, targets, ceiling: Runs::default(), tollgate: Runs::default() }
    }

    pub(crate) const fn runs(&mut self, side: Side) -> &mut Runs {
        match side {
            Side::Ceiling => &mut self.ceiling,
            Side::Tollgate => &mut self.tollgate,
        }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

/// A whole number with commas.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_of_what_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, f64::NAN, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![f64::NAN]), None);
    }

    #[test]
    fn bounds_compare_with_the_ceiling_or_with_a_number() {
        assert!(Bound::RatioAtLeast(0.8).holds(Some(10.0), 8.0));
        assert!(!Bound::RatioAtLeast(0.8).holds(Some(10.0), 7.9));
        assert!(!Bound::RatioAtLeast(0.8).holds(None, 8.0), "nothing to compare with");
        assert!(Bound::RatioAtMost(1.5).holds(Some(2.0), 3.0));
        assert!(Bound::AtMost(2.0).holds(Some(1.0), 2.0));
        assert!(!Bound::AtLeast(6_000.0).holds(None, 5_999.0));
        assert_eq!(Bound::AtMost(2.0).format(Metric::P50), "≤ 2.0 ms");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (value, text) in
            [(0.4, "0"), (999.6, "1,000"), (12_345.0, "12,345"), (1e6, "1,000,000")]
        {
            assert_eq!(grouped(value), text);
        }
    }
}
