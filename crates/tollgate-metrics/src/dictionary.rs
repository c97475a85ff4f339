//! The form of the dictionary: entries, and the macro that declares a struct of metrics.

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows; starts at 0 with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations by upper bound, and their sum.
    Histogram,
}

impl Kind {
    /// The name in docs and expositions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The exported name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// Label names, without `chain_id`.
    pub labels: Vec<&'static str>,
    /// The help text, in one or two sentences.
    pub help: String,
    /// Label values that are known beforehand.
    pub values: Vec<&'static str>,
    /// Upper bounds of a histogram, as text.
    pub buckets: Vec<String>,
}

impl Entry {
    /// The unit, which is the end of the name by convention.
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let units = ["seconds", "bytes", "blocks", "ether"];
        units.into_iter().find(|unit| name.ends_with(unit)).unwrap_or("")
    }
}

/// The value of one series at the moment.
pub enum Observation<'a> {
    /// The value of a counter or gauge.
    Value(f64),
    /// A histogram: the sum, and the counts by upper bound, not cumulated; the last bound is infinite.
    Histogram {
        /// The sum of all observations.
        sum: f64,
        /// Upper bound and count.
        buckets: &'a [(f64, u64)],
    },
}

/// Receives the series of a metric: the values of its labels, and what it shows.
pub type Visit<'a> = dyn FnMut(&[(&'static str, &str)], Observation<'_>) + 'a;

/// A type that a field of the dictionary can have.
pub trait Instrument: Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;
    /// Label names.
    fn labels(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Label values that are known beforehand.
    fn values(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Upper bounds of a histogram, without the infinite one.
    fn bounds(&self) -> &'static [f64] {
        &[]
    }
    /// Shows every series.
    fn collect(&self, visit: &mut Visit<'_>);
}

/// Makes the entry of a field from its name, documentation and type.
pub(crate) fn entry(name: &'static str, help: &[&str], instrument: &dyn Instrument) -> Entry {
    let help: Vec<&str> = help.iter().map(|line| line.trim()).collect();
    Entry {
        name,
        kind: instrument.kind(),
        labels: instrument.labels(),
        help: help.join(" "),
        values: instrument.values(),
        buckets: instrument.bounds().iter().map(ToString::to_string).collect(),
    }
}

/// Declares a struct of metrics. The exported name of a field is the field's with the prefix; its help text is
/// its documentation. What stands under `and` is part of the struct and no metric.
macro_rules! metrics {
    (
        $(#[doc = $about:literal])+
        $struct:ident, prefix = $prefix:literal {
            $( $(#[doc = $help:literal])+ $field:ident: $type:ty, )+
        }
        and { $( $(#[doc = $doc:literal])+ $other:ident: $other_type:ty, )* }
    ) => {
        $(#[doc = $about])+
        #[derive(Default)]
        pub struct $struct {
            $( $(#[doc = $help])+ pub $field: $type, )+
            $( $(#[doc = $doc])+ pub $other: $other_type, )*
        }

        impl $struct {
            /// The dictionary's entries.
            pub fn entries() -> Vec<$crate::dictionary::Entry> {
                let blank = Self::default();
                vec![$($crate::dictionary::entry(
                    concat!($prefix, stringify!($field)),
                    &[$($help),+],
                    &blank.$field,
                )),+]
            }

            /// The metrics, in the order of [`Self::entries`].
            pub fn instruments(&self) -> Vec<&dyn $crate::dictionary::Instrument> {
                vec![$(&self.$field),+]
            }
        }

        impl std::fmt::Debug for $struct {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($struct)).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use metrics;
