//! The nonce ladder: a picture of a submitter's slots, one cell for each nonce, drawn as SVG.
//!
//! Pure: the window of nonces is chosen from the address of the page, cells are made from what was read,
//! and beyond [`CELLS_MAX`] nonces one cell stands for several. Colour comes from classes (the policy
//! forbids inline styles), and each kind of cell has a sign of its own, so that colour is never alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use tollgate_model::port::SlotState;
use tollgate_model::{Allocated, Failed, Tracking, TxState};

/// Cells of a picture (I13).
pub(crate) const CELLS_MAX: u64 = 600;
/// Nonces of a window (I13): each of them is one row that is read.
pub(crate) const NONCES_MAX: u64 = 60_000;
/// No window begins above this nonce, so that nothing overflows.
const NONCE_MAX: u64 = 1 << 60;
const COLUMNS: u64 = 30;
/// Sizes in the units of the picture.
const CELL: u64 = 22;
const STEP: u64 = 25;
const LABEL_WIDTH: u64 = 62;
const MARGIN: u64 = 4;

/// The kind of a cell. The order is that of urgency: of several nonces in a cell, the last kind is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// At or above the next nonce.
    Free,
    /// No transaction of Tollgate has it, and the chain has used it: another program's, or removed by retention.
    Elsewhere,
    Confirmed,
    Cancelled,
    Failed,
    Mined,
    /// A caller holds it.
    Reserved,
    Allocated,
    Sent,
    Stale,
    Unclear,
    Hole,
    Stuck,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Free,
        Self::Elsewhere,
        Self::Confirmed,
        Self::Cancelled,
        Self::Failed,
        Self::Mined,
        Self::Reserved,
        Self::Allocated,
        Self::Sent,
        Self::Stale,
        Self::Unclear,
        Self::Hole,
        Self::Stuck,
    ];

    fn of(state: TxState) -> Self {
        match state {
            TxState::Confirmed => Self::Confirmed,
            TxState::Failed(Failed::Cancelled) => Self::Cancelled,
            TxState::Failed(_) => Self::Failed,
            TxState::Tracking(Tracking::Mined) => Self::Mined,
            TxState::Tracking(Tracking::Pending) => Self::Sent,
            TxState::Tracking(Tracking::Stale) => Self::Stale,
            TxState::Allocated(Allocated::Unsent) | TxState::Queued(_) => Self::Allocated,
            TxState::Allocated(_) => Self::Unclear,
            TxState::Stuck(_) => Self::Stuck,
        }
    }

    /// Class, sign, and words of the legend.
    pub(crate) const fn shown(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Free => ("free", "", "not used yet"),
            Self::Elsewhere => ("elsewhere", "·", "no transaction kept here"),
            Self::Confirmed => ("confirmed", "", "confirmed"),
            Self::Cancelled => ("cancelled", "–", "cancelled"),
            Self::Failed => ("failed", "✕", "failed"),
            Self::Mined => ("mined", "■", "mined, not final"),
            Self::Reserved => ("reserved", "R", "with a caller"),
            Self::Allocated => ("allocated", "○", "signed, not sent"),
            Self::Sent => ("sent", "→", "sent"),
            Self::Stale => ("stale", "↻", "sent again"),
            Self::Unclear => ("unclear", "?", "not taken by a node yet"),
            Self::Hole => ("hole", "∅", "hole: nobody has it"),
            Self::Stuck => ("stuck", "!", "stuck"),
        }
    }
}

/// The facts that a picture is drawn from.
pub(crate) struct LadderInput<'a> {
    pub(crate) window: Window,
    /// The slots of the window, lowest first.
    pub(crate) slots: &'a [SlotState],
    pub(crate) next_nonce: u64,
    /// The chain's count, if it was told.
    pub(crate) chain_nonce: Option<u64>,
    pub(crate) head: Option<u64>,
    pub(crate) holes: &'a [u64],
    pub(crate) reserved: &'a [u64],
    /// The path of the submitter's page.
    pub(crate) path: &'a str,
}

/// The nonces of a picture.
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
            None => next.saturating_add(COLUMNS - next % COLUMNS),
        });
        let from = from.unwrap_or_else(|| {
            let shown = end.saturating_sub(COLUMNS * 8);
            let open = lowest_open.unwrap_or(end).saturating_sub(COLUMNS);
            shown.min(open)
        });
        let from = from - from % COLUMNS;
        let length = end.max(from + COLUMNS) - from;
        let length = length.min(NONCES_MAX);
        let per_cell = round_up(length.div_ceil(CELLS_MAX));
        let row = COLUMNS * per_cell;
        Self { nonces: from..from + length.div_ceil(row) * row, per_cell }
    }

    fn cells(&self) -> u64 {
        (self.nonces.end - self.nonces.start) / self.per_cell
    }

    fn length(&self) -> u64 {
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
        if length > COLUMNS {
            let half = length / 4;
            moves.push(("Zoom in", link(start + half..self.nonces.end - half)));
        }
        if length < NONCES_MAX && length < next.max(COLUMNS * 8) {
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

/// A cell of the picture.
struct Cell {
    nonces: Range<u64>,
    counts: BTreeMap<Kind, u64>,
    /// The transaction of a cell of one nonce.
    only: Option<SlotState>,
}

impl Cell {
    fn kind(&self) -> Kind {
        self.counts.keys().next_back().copied().unwrap_or(Kind::Free)
    }

    fn title(&self) -> String {
        let last = self.nonces.end - 1;
        if self.nonces.start == last {
            let state = self.only.map(|slot| format!("{}\n{}", slot.state, slot.tx_id));
            let words = state.unwrap_or_else(|| self.kind().shown().2.to_owned());
            return format!("nonce {last}: {words}");
        }
        let parts: Vec<String> =
            self.counts.iter().map(|(kind, count)| format!("{count} {}", kind.shown().2)).collect();
        format!("nonces {} to {last}: {}", self.nonces.start, parts.join(", "))
    }

    fn link(&self, path: &str) -> Option<String> {
        match (self.only, self.nonces.end - self.nonces.start) {
            (Some(slot), _) => Some(format!("/tx/{}", slot.tx_id)),
            (None, 1) => None,
            (None, _) => Some(format!("{path}?from={}&to={}", self.nonces.start, self.nonces.end)),
        }
    }
}

fn kind_without_tx(input: &LadderInput<'_>, nonce: u64) -> Kind {
    let has = |list: &[u64]| list.binary_search(&nonce).is_ok();
    match () {
        () if has(input.reserved) => Kind::Reserved,
        () if has(input.holes) => Kind::Hole,
        () if nonce >= input.next_nonce => Kind::Free,
        () => Kind::Elsewhere,
    }
}

fn cells(input: &LadderInput<'_>) -> Vec<Cell> {
    let Window { nonces, per_cell } = &input.window;
    let mut slots = input.slots.iter().copied().peekable();
    let mut cells = Vec::with_capacity(input.window.cells() as usize);
    let mut first = nonces.start;
    while first < nonces.end {
        let range = first..first + per_cell;
        let (mut counts, mut only) = (BTreeMap::new(), None);
        for nonce in range.clone() {
            while slots.next_if(|slot| slot.nonce.get() < nonce).is_some() {}
            let slot = slots.next_if(|slot| slot.nonce.get() == nonce);
            let kind =
                slot.map_or_else(|| kind_without_tx(input, nonce), |slot| Kind::of(slot.state));
            *counts.entry(kind).or_default() += 1;
            only = slot.filter(|_| *per_cell == 1);
        }
        cells.push(Cell { nonces: range.clone(), counts, only });
        first = range.end;
    }
    cells
}

/// A drawn ladder.
pub(crate) struct Ladder {
    /// The picture, as SVG to put in a page.
    pub(crate) svg: String,
    /// The content of the picture, in words.
    pub(crate) summary: String,
    /// The kinds that are in it, for the legend: class, sign, words, number.
    pub(crate) legend: Vec<(&'static str, &'static str, &'static str, u64)>,
    pub(crate) per_cell: u64,
}

/// Draws a ladder.
pub(crate) fn draw(input: &LadderInput<'_>) -> Ladder {
    let cells = cells(input);
    let mut totals: BTreeMap<Kind, u64> = BTreeMap::new();
    for (kind, count) in cells.iter().flat_map(|cell| &cell.counts) {
        *totals.entry(*kind).or_default() += count;
    }
    let rows = (cells.len() as u64).div_ceil(COLUMNS);
    let (width, height) = (LABEL_WIDTH + COLUMNS * STEP + MARGIN, rows * STEP + 2 * MARGIN);
    let mut svg = format!(
        "<svg class=\"ladder\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"ladder-summary\">"
    );
    for (place, cell) in cells.iter().enumerate() {
        let (row, column) = (place as u64 / COLUMNS, place as u64 % COLUMNS);
        let (x, y) = (LABEL_WIDTH + column * STEP, MARGIN + row * STEP);
        if column == 0 {
            let (at, baseline) = (LABEL_WIDTH - 8, y + 15);
            let nonce = cell.nonces.start;
            let _ = write!(svg, "<text class=\"row\" x=\"{at}\" y=\"{baseline}\">{nonce}</text>");
        }
        draw_cell(&mut svg, cell, input, (x, y));
    }
    svg.push_str("</svg>");
    let last = input.window.nonces.end - 1;
    let parts: Vec<String> =
        totals.iter().map(|(kind, count)| format!("{count} {}", kind.shown().2)).collect();
    let summary = format!("Nonces {} to {last}: {}.", input.window.nonces.start, parts.join(", "));
    let legend = Kind::ALL.into_iter().rev().filter_map(|kind| {
        let (class, sign, words) = kind.shown();
        totals.get(&kind).map(|count| (class, sign, words, *count))
    });
    let (legend, per_cell) = (legend.collect(), input.window.per_cell);
    Ladder { svg, summary, legend, per_cell }
}

fn draw_cell(svg: &mut String, cell: &Cell, input: &LadderInput<'_>, (x, y): (u64, u64)) {
    let (class, sign, _) = cell.kind().shown();
    let is_head = input.head.is_some_and(|head| cell.nonces.contains(&head));
    let is_next = cell.nonces.contains(&input.next_nonce);
    let is_counted = input.chain_nonce.is_some_and(|count| cell.nonces.contains(&count));
    let link = cell.link(input.path);
    // Cells are for the mouse: the table under the picture has the same links for the keyboard.
    let _ = match &link {
        Some(link) => write!(svg, "<a href=\"{}\" tabindex=\"-1\">", escaped(link)),
        None => svg.write_str("<g>"),
    };
    let mut title = cell.title();
    for (is, words) in [
        (is_head, "head of line"),
        (is_next, "next nonce to assign"),
        (is_counted, "the chain waits for this nonce"),
    ] {
        if is {
            title += &format!("\n{words}");
        }
    }
    let marks = match (is_head, is_next) {
        (true, _) => " head",
        (false, true) => " next",
        (false, false) => "",
    };
    let _ = write!(
        svg,
        "<title>{}</title><rect class=\"cell {class}{marks}\" x=\"{x}\" y=\"{y}\" width=\"{CELL}\" \
         height=\"{CELL}\" rx=\"4\"/>",
        escaped(&title)
    );
    let (middle, baseline) = (x + CELL / 2, y + 16);
    if is_head && sign.is_empty() {
        let _ = write!(svg, "<text class=\"sign\" x=\"{middle}\" y=\"{baseline}\">▸</text>");
    } else if !sign.is_empty() {
        let _ = write!(
            svg,
            "<text class=\"sign {class}\" x=\"{middle}\" y=\"{baseline}\">{sign}</text>"
        );
    }
    svg.push_str(if link.is_some() { "</a>" } else { "</g>" });
}

/// Text for an attribute or an element.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use tollgate_model::{Nonce, StuckReason, TxId};
    use uuid::Uuid;

    use super::*;

    fn slot(nonce: u64, state: TxState) -> SlotState {
        let tx_id = TxId::from_uuid(Uuid::from_u128(u128::from(nonce)));
        SlotState { nonce: Nonce::new(nonce).unwrap(), tx_id, state }
    }

    fn input<'a>(window: Window, slots: &'a [SlotState], next_nonce: u64) -> LadderInput<'a> {
        LadderInput {
            window,
            slots,
            next_nonce,
            chain_nonce: None,
            head: None,
            holes: &[],
            reserved: &[],
            path: "/submitters/1/0xab",
        }
    }

    #[test]
    fn window_without_an_address_shows_what_is_open_and_some_of_what_is_before_it() {
        let window = |open, next| Window::choose(None, None, open, next).nonces;
        assert_eq!(window(None, 0), 0..30, "an account without a transaction");
        assert_eq!(window(None, 1_000), 780..1_020);
        assert_eq!(window(Some(100), 1_000), 60..1_020, "all that is open");
    }

    #[test]
    fn more_nonces_than_cells_share_them() {
        for (to, per_cell) in [(600, 1), (601, 2), (2_000, 5), (20_000, 50), (60_000, 100)] {
            let window = Window::choose(Some(0), Some(to), None, to);
            assert_eq!(window.per_cell, per_cell, "{to}");
            assert!(window.cells() <= CELLS_MAX + COLUMNS && window.nonces.end >= to, "{window:?}");
            assert_eq!(window.cells() % COLUMNS, 0);
        }
        let last = Window::choose(Some(u64::MAX), Some(u64::MAX), None, u64::MAX);
        assert_eq!(last.cells(), COLUMNS, "{last:?}");
        let widest = Window::choose(Some(0), Some(u64::MAX), None, u64::MAX);
        assert!(widest.length() <= NONCES_MAX + 30 * 100, "{widest:?}");
    }

    #[test]
    fn backward_window_shows_one_row() {
        assert_eq!(Window::choose(Some(90), Some(10), None, 100).nonces, 90..120);
    }

    #[test]
    fn cell_of_several_nonces_shows_the_most_urgent_and_links_to_its_nonces() {
        let stuck = TxState::Stuck(StuckReason::FeeCap);
        let mut slots: Vec<_> = (0..1_200).map(|n| slot(n, TxState::Confirmed)).collect();
        slots[31] = slot(31, stuck);
        let window = Window::choose(Some(0), Some(1_200), None, 1_200);
        let ladder = draw(&input(window, &slots, 1_200));
        assert_eq!(ladder.per_cell, 2);
        assert!(ladder.svg.contains("?from=30&amp;to=32"), "{}", ladder.svg);
        assert!(ladder.svg.contains("1 confirmed, 1 stuck"), "{}", ladder.svg);
        assert_eq!(ladder.svg.matches("class=\"cell stuck\"").count(), 1);
        assert!(ladder.summary.contains("1199 confirmed, 1 stuck"), "{}", ladder.summary);
    }

    #[test]
    fn nonces_without_a_tx_are_told_apart() {
        let slots = [slot(0, TxState::Confirmed), slot(5, TxState::Tracking(Tracking::Pending))];
        let window = Window::choose(Some(0), Some(30), None, 6);
        let of =
            LadderInput { holes: &[3], reserved: &[4], head: Some(5), ..input(window, &slots, 6) };
        let ladder = draw(&of);
        let counted: Vec<_> = ladder.legend.iter().map(|(class, _, _, n)| (*class, *n)).collect();
        let expected = [
            ("hole", 1),
            ("sent", 1),
            ("reserved", 1),
            ("confirmed", 1),
            ("elsewhere", 2),
            ("free", 24),
        ];
        assert_eq!(counted, expected);
        assert!(ladder.svg.contains("class=\"cell sent head\""));
        assert!(ladder.svg.contains("class=\"cell free next\""));
    }

    #[test]
    fn cells_of_twenty_thousand_slots_are_drawn_in_a_small_picture() {
        let slots: Vec<_> = (0..20_000).map(|n| slot(n, TxState::Confirmed)).collect();
        let window = Window::choose(Some(0), Some(20_000), None, 20_000);
        let ladder = draw(&input(window, &slots, 20_000));
        assert!(ladder.svg.len() < 300_000, "{}", ladder.svg.len());
    }
}
