//! The values: counters, gauges and histograms of atomics, and families of them.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::dictionary::{Instrument, Kind, Observation, Visit};
use crate::labels::{LabelNames, LabelValue};

/// Series of one family (I13). Beyond that, observations go to one series whose labels are all `other`.
const SERIES_MAX: usize = 1_000;
/// The value of the labels of that series.
const OTHER: &str = "other";

/// A number that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds this many.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Instrument for Counter {
    fn kind(&self) -> Kind {
        Kind::Counter
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        visit(&[], Observation::Value(as_float(self.get())));
    }
}

/// A counter for each value of one label.
pub struct CounterBy<L>(Box<[Counter]>, PhantomData<fn(L)>);

impl<L: LabelValue> Default for CounterBy<L> {
    fn default() -> Self {
        Self(L::names().iter().map(|_| Counter::default()).collect(), PhantomData)
    }
}

impl<L: LabelValue> CounterBy<L> {
    /// Adds one.
    pub fn inc(&self, label: L) {
        self.add(label, 1);
    }

    /// Adds this many.
    pub fn add(&self, label: L, count: u64) {
        if let Some(counter) = self.0.get(label.index()) {
            counter.add(count);
        }
    }

    /// The value of one.
    pub fn get(&self, label: L) -> u64 {
        self.0.get(label.index()).map_or(0, Counter::get)
    }
}

impl<L: LabelValue> Instrument for CounterBy<L> {
    fn kind(&self) -> Kind {
        Kind::Counter
    }

    fn labels(&self) -> Vec<&'static str> {
        vec![L::LABEL]
    }

    fn values(&self) -> Vec<&'static str> {
        L::names()
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        for (counter, name) in self.0.iter().zip(L::names()) {
            visit(&[(L::LABEL, name)], Observation::Value(as_float(counter.get())));
        }
    }
}

/// A number that goes up and down. Without a value until it is set: then it is not exported.
pub struct Gauge(AtomicU64);

impl Default for Gauge {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Sets the value, or takes it away.
    pub fn set_or_clear(&self, value: Option<f64>) {
        self.set(value.unwrap_or(f64::NAN));
    }

    /// Adds to the value; one that has none counts as 0.
    pub fn add(&self, change: f64) {
        let sum = |bits| {
            let value = f64::from_bits(bits);
            Some((if value.is_nan() { change } else { value + change }).to_bits())
        };
        // The closure never gives up.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// The value, if there is one.
    pub fn get(&self) -> Option<f64> {
        let value = f64::from_bits(self.0.load(Ordering::Relaxed));
        (!value.is_nan()).then_some(value)
    }
}

impl Instrument for Gauge {
    fn kind(&self) -> Kind {
        Kind::Gauge
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        if let Some(value) = self.get() {
            visit(&[], Observation::Value(value));
        }
    }
}

/// A counter that the system keeps and that is read when it is shown.
#[derive(Default)]
pub struct Reading(Gauge);

impl Reading {
    /// Sets the value that was read.
    pub fn set_or_clear(&self, value: Option<f64>) {
        self.0.set_or_clear(value);
    }
}

impl Instrument for Reading {
    fn kind(&self) -> Kind {
        Kind::Counter
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        self.0.collect(visit);
    }
}

/// The upper bounds of a histogram.
pub trait Buckets: Send + Sync + 'static {
    /// Ascending, without the infinite one.
    const BOUNDS: &'static [f64];
    /// Sums are kept in whole multiples of this part.
    const PART: f64;
}

/// Calls and commits: half a millisecond to ten seconds.
pub struct Latency;

impl Buckets for Latency {
    const BOUNDS: &'static [f64] =
        &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    const PART: f64 = 1e-9;
}

/// Lives of transactions: five milliseconds to an hour.
pub struct Lifetime;

impl Buckets for Lifetime {
    const BOUNDS: &'static [f64] = &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0,
        300.0, 600.0, 1800.0, 3600.0,
    ];
    const PART: f64 = 1e-9;
}

/// Numbers of things in one database transaction.
pub struct Sizes;

impl Buckets for Sizes {
    const BOUNDS: &'static [f64] =
        &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];
    const PART: f64 = 1.0;
}

/// Counts of observations by upper bound.
pub struct Histogram<B> {
    /// The last one counts what is above every bound.
    counts: Box<[AtomicU64]>,
    /// In parts of [`Buckets::PART`].
    sum: AtomicU64,
    buckets: PhantomData<fn(B)>,
}

impl<B: Buckets> Default for Histogram<B> {
    fn default() -> Self {
        let counts = (0..=B::BOUNDS.len()).map(|_| AtomicU64::new(0)).collect();
        Self { counts, sum: AtomicU64::new(0), buckets: PhantomData }
    }
}

impl<B: Buckets> Histogram<B> {
    /// Counts a time.
    pub fn observe(&self, time: Duration) {
        let parts = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count(time.as_secs_f64(), parts);
    }

    /// Counts a number of things.
    pub fn observe_count(&self, count: usize) {
        let parts = u64::try_from(count).unwrap_or(u64::MAX);
        self.count(as_float(parts), parts);
    }

    fn count(&self, value: f64, parts: u64) {
        let place = B::BOUNDS.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(parts, Ordering::Relaxed);
    }

    /// The number of observations.
    pub fn observations(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    fn show(&self, labels: &[(&'static str, &str)], visit: &mut Visit<'_>) {
        let bounds = B::BOUNDS.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let sum = as_float(self.sum.load(Ordering::Relaxed)) * B::PART;
        visit(labels, Observation::Histogram { sum, buckets: &buckets });
    }
}

impl<B: Buckets> Instrument for Histogram<B> {
    fn kind(&self) -> Kind {
        Kind::Histogram
    }

    fn bounds(&self) -> &'static [f64] {
        B::BOUNDS
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        self.show(&[], visit);
    }
}

/// A histogram for each value of one label.
pub struct HistogramBy<L, B>(Box<[Histogram<B>]>, PhantomData<fn(L)>);

impl<L: LabelValue, B: Buckets> Default for HistogramBy<L, B> {
    fn default() -> Self {
        Self(L::names().iter().map(|_| Histogram::default()).collect(), PhantomData)
    }
}

impl<L: LabelValue, B: Buckets> HistogramBy<L, B> {
    /// The one of a value.
    pub fn of(&self, label: L) -> Option<&Histogram<B>> {
        self.0.get(label.index())
    }
}

impl<L: LabelValue, B: Buckets> Instrument for HistogramBy<L, B> {
    fn kind(&self) -> Kind {
        Kind::Histogram
    }

    fn labels(&self) -> Vec<&'static str> {
        vec![L::LABEL]
    }

    fn values(&self) -> Vec<&'static str> {
        L::names()
    }

    fn bounds(&self) -> &'static [f64] {
        B::BOUNDS
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        for (histogram, name) in self.0.iter().zip(L::names()) {
            histogram.show(&[(L::LABEL, name)], visit);
        }
    }
}

/// Metrics of one kind by labels whose values are found while the process runs. A caller on a hot path keeps what
/// [`Family::with`] returns.
pub struct Family<N, T> {
    series: Mutex<BTreeMap<Vec<String>, Arc<T>>>,
    names: PhantomData<fn(N)>,
}

impl<N, T> Default for Family<N, T> {
    fn default() -> Self {
        Self { series: Mutex::default(), names: PhantomData }
    }
}

impl<N: LabelNames, T: Default> Family<N, T> {
    /// The metric with these label values, in the order of the names.
    pub fn with(&self, values: &[&str]) -> Arc<T> {
        let mut series = lock(&self.series);
        let key: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        if let Some(known) = series.get(&key) {
            return known.clone();
        }
        let key =
            if series.len() < SERIES_MAX { key } else { vec![OTHER.to_owned(); N::LABELS.len()] };
        series.entry(key).or_default().clone()
    }
}

impl<N: LabelNames, T: Instrument + Default> Instrument for Family<N, T> {
    fn kind(&self) -> Kind {
        T::default().kind()
    }

    fn labels(&self) -> Vec<&'static str> {
        N::LABELS.to_vec()
    }

    fn bounds(&self) -> &'static [f64] {
        T::default().bounds()
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        for (values, metric) in lock(&self.series).iter() {
            let labels: Vec<(&'static str, &str)> =
                N::LABELS.iter().copied().zip(values.iter().map(String::as_str)).collect();
            metric.collect(&mut |_, shown| visit(&labels, shown));
        }
    }
}

/// Gauges by labels, all of which are replaced when they are shown.
pub struct Samples<N> {
    values: Mutex<Vec<(Vec<String>, f64)>>,
    names: PhantomData<fn(N)>,
}

impl<N> Default for Samples<N> {
    fn default() -> Self {
        Self { values: Mutex::default(), names: PhantomData }
    }
}

impl<N: LabelNames> Samples<N> {
    /// Replaces all series; what is beyond 1,000 is left out (I13).
    pub fn replace(&self, values: impl IntoIterator<Item = (Vec<String>, f64)>) {
        *lock(&self.values) = values.into_iter().take(SERIES_MAX).collect();
    }
}

impl<N: LabelNames> Instrument for Samples<N> {
    fn kind(&self) -> Kind {
        Kind::Gauge
    }

    fn labels(&self) -> Vec<&'static str> {
        N::LABELS.to_vec()
    }

    fn collect(&self, visit: &mut Visit<'_>) {
        for (values, value) in lock(&self.values).iter() {
            let labels: Vec<(&'static str, &str)> =
                N::LABELS.iter().copied().zip(values.iter().map(String::as_str)).collect();
            visit(&labels, Observation::Value(*value));
        }
    }
}

/// A count as the exposition shows it; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "expositions are floating point")]
fn as_float(count: u64) -> f64 {
    count as f64
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps of whole values, so that a panic elsewhere can't have left them half-written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Who;

    impl LabelNames for Who {
        const LABELS: &'static [&'static str] = &["who"];
    }

    fn shown(instrument: &dyn Instrument) -> Vec<String> {
        let mut all = Vec::new();
        instrument.collect(&mut |labels, shown| {
            all.push(match shown {
                Observation::Value(value) => format!("{labels:?} {value}"),
                Observation::Histogram { sum, buckets } => {
                    let counts: Vec<u64> = buckets.iter().map(|(_, count)| *count).collect();
                    format!("{labels:?} {sum} {counts:?}")
                }
            });
        });
        all
    }

    #[test]
    fn observation_at_a_bound_counts_below_it_and_one_above_all_counts_in_the_last() {
        let sizes = Histogram::<Sizes>::default();
        for count in [1, 2, 3, 100_000] {
            sizes.observe_count(count);
        }
        assert_eq!(shown(&sizes), ["[] 100006 [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]"]);
        assert_eq!(sizes.observations(), 4);
    }

    #[test]
    fn times_are_summed_in_seconds() {
        let times = Histogram::<Latency>::default();
        times.observe(Duration::from_millis(1_500));
        times.observe(Duration::from_millis(250));
        assert!(shown(&times)[0].starts_with("[] 1.75 "), "{:?}", shown(&times));
    }

    #[test]
    fn gauge_without_a_value_is_not_shown() {
        let gauge = Gauge::default();
        assert!(shown(&gauge).is_empty());
        gauge.add(2.0);
        gauge.add(-0.5);
        assert_eq!(shown(&gauge), ["[] 1.5"]);
        gauge.set_or_clear(None);
        assert!(shown(&gauge).is_empty());
    }

    #[test]
    fn series_of_a_family_are_bounded() {
        let family = Family::<Who, Counter>::default();
        for n in 0..SERIES_MAX + 50 {
            family.with(&[&n.to_string()]).inc();
        }
        let all = shown(&family);
        assert_eq!(all.len(), SERIES_MAX + 1, "I13");
        assert!(all.contains(&r#"[("who", "other")] 50"#.to_owned()));
        family.with(&["7"]).inc();
        assert!(shown(&family).contains(&r#"[("who", "7")] 2"#.to_owned()));
    }
}
