//! The nonces of a ladder: chosen from the address of the page, or around what is open.

use std::ops::Range;

use super::{CELLS_MAX, COLUMNS_WIDE, NONCES_MAX};

/// No window begins above this nonce, so that nothing overflows.
const NONCE_MAX: u64 = 1 << 60;
/// Wide rows that are shown without an address.
const ROWS_SHOWN: u64 = 6;

/// The nonces of a ladder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) nonces: Range<u64>,
    /// Nonces of one cell.
    pub(crate) per_cell: u64,
}

impl Window {
    /// The window that the address asks for; without one, what is open with some of what is before it.
    pub(crate) fn choose(
        from: Option<u64>,
        to: Option<u64>,
        lowest_open: Option<u64>,
        next: u64,
    ) -> Self {
        let bounded = |nonce: u64| nonce.min(NONCE_MAX);
        let (from, to, next) = (from.map(bounded), to.map(bounded), bounded(next));
        let end = to.unwrap_or_else(|| match from {
            Some(from) => from.saturating_add(CELLS_MAX),
            None => next.saturating_add(COLUMNS_WIDE - next % COLUMNS_WIDE),
        });
        let from = from.unwrap_or_else(|| {
            let shown = end.saturating_sub(COLUMNS_WIDE * ROWS_SHOWN);
            let open = lowest_open.unwrap_or(end).saturating_sub(COLUMNS_WIDE);
            shown.min(open)
        });
        let from = from - from % COLUMNS_WIDE;
        let length = end.max(from + COLUMNS_WIDE) - from;
        let length = length.min(NONCES_MAX);
        let per_cell = round_up(length.div_ceil(CELLS_MAX));
        let row = COLUMNS_WIDE * per_cell;
        Self { nonces: from..from + length.div_ceil(row) * row, per_cell }
    }

    pub(super) fn cells(&self) -> u64 {
        self.length() / self.per_cell
    }

    pub(super) fn length(&self) -> u64 {
        self.nonces.end - self.nonces.start
    }

    /// The windows to move to: what it is called, and its address.
    pub(crate) fn moves(&self, path: &str, next: u64) -> Vec<(&'static str, String)> {
        let link = |range: Range<u64>| format!("{path}?from={}&to={}", range.start, range.end);
        let (start, length) = (self.nonces.start, self.length());
        let mut moves = Vec::new();
        if start > 0 {
            let first = start.saturating_sub(length);
            moves.push(("Earlier", link(first..first + length)));
        }
        if self.nonces.end <= next {
            moves.push(("Later", link(self.nonces.end..self.nonces.end + length)));
        }
        if length > COLUMNS_WIDE {
            let half = length / 4;
            moves.push(("Zoom in", link(start + half..self.nonces.end - half)));
        }
        let has_more = start > 0 || self.nonces.end <= next;
        if length < NONCES_MAX && has_more {
            let first = start.saturating_sub(length / 2);
            moves.push(("Zoom out", link(first..first + length * 2)));
        }
        moves.push(("Open slots", path.to_owned()));
        moves
    }
}

/// The next of 1, 2, 5, 10, 20, 50, …
fn round_up(number: u64) -> u64 {
    let mut ten = 1;
    loop {
        for factor in [1, 2, 5] {
            if ten * factor >= number {
                return ten * factor;
            }
        }
        ten *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_without_an_address_shows_what_is_open_and_some_of_what_is_before_it() {
        let window = |open, next| Window::choose(None, None, open, next).nonces;
        assert_eq!(window(None, 0), 0..40, "an account without a transaction");
        assert_eq!(window(None, 1_000), 800..1_040);
        assert_eq!(window(Some(100), 1_000), 40..1_080, "all that is open, in whole rows");
    }

    #[test]
    fn more_nonces_than_cells_share_them() {
        for (to, per_cell) in [(600, 1), (601, 2), (2_000, 5), (20_000, 50), (60_000, 100)] {
            let window = Window::choose(Some(0), Some(to), None, to);
            assert_eq!(window.per_cell, per_cell, "{to}");
            let most = CELLS_MAX + COLUMNS_WIDE;
            assert!(window.cells() <= most && window.nonces.end >= to, "{window:?}");
            assert_eq!(window.cells() % COLUMNS_WIDE, 0);
        }
        let last = Window::choose(Some(u64::MAX), Some(u64::MAX), None, u64::MAX);
        assert_eq!(last.cells(), COLUMNS_WIDE, "{last:?}");
        let widest = Window::choose(Some(0), Some(u64::MAX), None, u64::MAX);
        assert!(widest.length() <= NONCES_MAX + COLUMNS_WIDE * 100, "{widest:?}");
    }

    #[test]
    fn window_with_all_nonces_leads_neither_further_nor_out() {
        let names = |from, to, next| -> Vec<&str> {
            let window = Window::choose(Some(from), Some(to), None, next);
            window.moves("/it", next).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(0, 80, 52), ["Zoom in", "Open slots"]);
        assert_eq!(names(0, 40, 52), ["Later", "Zoom out", "Open slots"]);
        assert_eq!(names(40, 80, 52), ["Earlier", "Zoom out", "Open slots"]);
    }

    #[test]
    fn backward_window_shows_one_row() {
        assert_eq!(Window::choose(Some(80), Some(10), None, 100).nonces, 80..120);
    }
}
