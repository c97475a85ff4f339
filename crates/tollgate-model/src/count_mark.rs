//! High-water marks of an account's transaction counts, agreed between several endpoints (I15, I16).
//!
//! Pure functions. A count that is too high is dangerous (a slot looks used, or the cursor jumps and leaves a
//! hole), so a rise needs two endpoints. A count that is too low only delays, so a fall needs more than that:
//!
//! - **Agreed** is the highest value that two endpoints reach, or the value of the only one that can be
//!   asked. A single endpoint that reports more is outvoted.
//! - A mark that is agreed **rises** at once.
//! - It **falls** only if the agreed value is lower and two endpoints report less that had reached the
//!   head at which the mark was read; with a single endpoint, once its head has moved past that one.
//!   One endpoint that lags or reports too little changes nothing.
//! - A mark that one endpoint alone confirmed (the others were unavailable) falls as soon as two or more
//!   endpoints answer and don't confirm it.

/// The count that one endpoint reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountReading {
    pub value: u64,
    /// The endpoint's head before it was asked.
    pub head: u64,
    /// The endpoint's place in the configuration.
    pub place: usize,
}

/// The highest value so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountMark {
    pub value: u64,
    /// The head when it was read.
    pub head: u64,
    /// Two endpoints confirmed it.
    pub confirmed: bool,
}

/// Returns the highest value that two endpoints reach, or that of the only one.
pub fn agreed(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by_key(|value| std::cmp::Reverse(*value));
    values.get(1).or(values.first()).copied()
}

impl CountMark {
    /// Returns the mark after these readings of `asked` endpoints. `head` is the canonical head after they
    /// were read.
    pub fn next(
        mark: Option<Self>,
        readings: &[CountReading],
        asked: usize,
        head: u64,
    ) -> Option<Self> {
        let Some(value) = agreed(readings.iter().map(|reading| reading.value)) else { return mark };
        let next = Self { value, head, confirmed: readings.len() > 1 };
        let Some(mark) = mark else { return Some(next) };
        if value >= mark.value {
            // The same value with fewer confirmations stays confirmed.
            let confirmed = next.confirmed || (mark.confirmed && value == mark.value);
            return Some(Self { confirmed, ..next });
        }
        let lower = readings.iter().filter(|reading| reading.value < mark.value);
        let up_to_date = lower.clone().filter(|reading| reading.head >= mark.head).count();
        let falls = match (asked, mark.confirmed) {
            (0 | 1, _) => lower.clone().any(|reading| reading.head > mark.head),
            (_, true) => up_to_date >= 2,
            (_, false) => readings.len() >= 2 && up_to_date >= 1,
        };
        Some(if falls { next } else { mark })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each reading is (value, head of the endpoint).
    fn after(
        before: Option<CountMark>,
        readings: &[(u64, u64)],
        asked: usize,
        head: u64,
    ) -> CountMark {
        let readings: Vec<_> =
            readings.iter().map(|&(value, head)| CountReading { value, head, place: 0 }).collect();
        CountMark::next(before, &readings, asked, head).unwrap()
    }

    fn mark(value: u64, head: u64) -> Option<CountMark> {
        Some(CountMark { value, head, confirmed: true })
    }

    #[test]
    fn agreed_is_the_highest_value_that_two_endpoints_reach() {
        assert_eq!(agreed([]), None);
        assert_eq!(agreed([7]), Some(7));
        assert_eq!(agreed([7, 9]), Some(7));
        assert_eq!(agreed([9, 7, 9]), Some(9));
        assert_eq!(agreed([1_000, 9, 9]), Some(9), "one that lies alone is outvoted");
    }

    #[test]
    fn mark_rises_if_two_endpoints_agree_or_there_is_only_one() {
        assert_eq!(after(mark(5, 10), &[(6, 11), (6, 11)], 2, 11).value, 6);
        assert_eq!(after(mark(5, 10), &[(6, 11), (5, 11)], 2, 11).value, 5);
        assert_eq!(after(mark(5, 10), &[(6, 11)], 1, 11).value, 6);
    }

    #[test]
    fn mark_does_not_fall_if_one_of_two_endpoints_reports_less() {
        assert_eq!(after(mark(5, 10), &[(3, 12), (5, 12)], 2, 12).value, 5);
        assert_eq!(after(mark(5, 10), &[(3, 12)], 2, 12).value, 5, "the other one is silent");
    }

    #[test]
    fn mark_does_not_fall_if_lagging_endpoints_report_less() {
        assert_eq!(after(mark(5, 10), &[(3, 9), (3, 9)], 2, 12).value, 5);
        assert_eq!(after(mark(5, 10), &[(3, 9), (3, 12)], 2, 12).value, 5);
        assert_eq!(after(mark(5, 10), &[(3, 10)], 1, 10).value, 5, "no block has passed");
    }

    #[test]
    fn mark_falls_if_two_current_endpoints_report_less() {
        assert_eq!(after(mark(5, 10), &[(3, 10), (3, 11)], 2, 11).value, 3);
        assert_eq!(after(mark(5, 10), &[(3, 10), (4, 11), (5, 11)], 3, 11).value, 4);
        assert_eq!(after(mark(5, 10), &[(3, 11)], 1, 11).value, 3, "the only one, a block later");
    }

    #[test]
    fn mark_of_one_endpoint_falls_once_another_one_contradicts_it() {
        let lie = after(mark(5, 10), &[(1_000, 10)], 1, 10);
        assert_eq!(lie.value, 1_000);
        assert_eq!(after(Some(lie), &[(1_000, 10), (5, 10)], 2, 10).value, 5);
        assert_eq!(after(Some(lie), &[(1_000, 10), (5, 9)], 2, 10).value, 1_000, "it may lag");
    }
}
