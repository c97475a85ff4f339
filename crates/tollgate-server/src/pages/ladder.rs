//! The nonce ladder: a picture of a submitter's slots, one cell for each nonce, drawn as a grid of links.
//!
//! Pure: the window of nonces is chosen from the address of the page, cells are made from what was read,
//! and beyond [`CELLS_MAX`] nonces one cell stands for several. The style sheet lays the same cells out in
//! rows of 10, 20 or 40, by the width of the screen. Colour comes from classes (the policy forbids inline
//! styles), and each kind of cell has a sign of its own, so that colour is never alone. The ladder is one
//! stop of the Tab key; the script moves between its cells by the arrow keys.

mod window;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use tollgate_model::port::SlotState;
use tollgate_model::{Allocated, Failed, Tracking, TxState};

use super::format::Badge;
pub(crate) use window::Window;

/// Cells of a picture (I13).
pub(crate) const CELLS_MAX: u64 = 600;
/// Nonces of a window (I13): each of them is one row that is read.
pub(crate) const NONCES_MAX: u64 = 60_000;
/// Cells of a row on phones, on tablets and on wide screens, as the style sheet has them. Each is a multiple
/// of the one before, so that the rows of all three begin at nonces with a label.
const COLUMNS_NARROW: u64 = 10;
const COLUMNS_MIDDLE: u64 = 20;
const COLUMNS_WIDE: u64 = 40;

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
    Unfunded,
    Hole,
    Stuck,
}

impl Kind {
    const ALL: [Self; 14] = [
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
        Self::Unfunded,
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
            TxState::Allocated(Allocated::InsufficientFunds) => Self::Unfunded,
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
            Self::Unclear => ("unclear", "?", "sent, outcome unknown"),
            Self::Unfunded => ("unfunded", "$", "waiting for funds"),
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
    /// The lowest holes, and the number of all of them.
    pub(crate) holes: &'a [u64],
    pub(crate) hole_count: u64,
    pub(crate) reserved: &'a [u64],
    /// Transactions without a nonce.
    pub(crate) queued: u64,
    /// The path of the submitter's page.
    pub(crate) path: &'a str,
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
            let state = self.only.map(|slot| {
                let words = Badge::of_state(slot.state.name(), slot.state.sub_name()).words;
                format!("{words}\n{}", slot.tx_id)
            });
            let words = state.unwrap_or_else(|| self.kind().shown().2.to_owned());
            return format!("nonce {last}: {words}");
        }
        let parts: Vec<String> =
            self.counts.iter().map(|(kind, count)| format!("{count} {}", kind.shown().2)).collect();
        format!("nonces {} to {last}: {}", self.nonces.start, parts.join(", "))
    }

    fn link(&self, path: &str) -> Option<String> {
        let Range { start, end } = self.nonces;
        match (self.only, end - start) {
            (Some(slot), _) => Some(format!("/tx/{}", slot.tx_id)),
            (None, 1) if self.kind() == Kind::Hole => {
                Some(format!("{path}/fill?first={start}&last={start}"))
            }
            (None, 1) => None,
            (None, _) => Some(format!("{path}?from={start}&to={end}")),
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
    /// The picture, as HTML to put in a page.
    pub(crate) html: String,
    /// The nonces of the picture, and what is not in it, in words.
    pub(crate) summary: String,
    /// The kinds that are in it, for the legend: class, sign, words, number.
    pub(crate) legend: Vec<(&'static str, &'static str, &'static str, u64)>,
}

/// Draws a ladder.
pub(crate) fn draw(input: &LadderInput<'_>) -> Ladder {
    let cells = cells(input);
    let mut totals: BTreeMap<Kind, u64> = BTreeMap::new();
    for (kind, count) in cells.iter().flat_map(|cell| &cell.counts) {
        *totals.entry(*kind).or_default() += count;
    }
    let stop = tab_stop(input, &cells);
    let mut html = String::from(
        "<div class=\"ladder\" role=\"group\" aria-labelledby=\"ladder-title\" \
         aria-describedby=\"ladder-summary ladder-legend ladder-keys\" data-ladder>",
    );
    for (place, cell) in cells.iter().enumerate() {
        draw_label(&mut html, place as u64, cell.nonces.start);
        draw_cell(&mut html, cell, input, stop == Some(place));
    }
    html.push_str("</div>");
    let legend = Kind::ALL.into_iter().rev().filter_map(|kind| {
        let (class, sign, words) = kind.shown();
        totals.get(&kind).map(|count| (class, sign, words, *count))
    });
    Ladder { html, summary: summary(input), legend: legend.collect() }
}

/// Everything that the legend beside the picture does not tell.
fn summary(input: &LadderInput<'_>) -> String {
    let Range { start, end } = input.window.nonces;
    let mut words = format!("Nonces {start} to {}.", end - 1);
    if input.window.per_cell > 1 {
        let _ = write!(
            words,
            " One cell stands for {} nonces, and shows the most urgent of them.",
            input.window.per_cell
        );
    }
    match input.queued {
        0 => {}
        1 => words.push_str(" 1 transaction waits for a nonce in the queue."),
        queued => {
            let _ = write!(words, " {queued} transactions wait for a nonce in the queue.");
        }
    }
    let marked = input.holes.len() as u64;
    if marked < input.hole_count {
        let _ = write!(
            words,
            " Only the lowest {marked} of the account's {} holes are marked.",
            input.hole_count
        );
    }
    words
}

/// The cell that the Tab key reaches: the head of the line, or the last one with a link.
fn tab_stop(input: &LadderInput<'_>, cells: &[Cell]) -> Option<usize> {
    let is_head = |cell: &Cell| input.head.is_some_and(|head| cell.nonces.contains(&head));
    let has_link = |cell: &&Cell| cell.link(input.path).is_some();
    cells
        .iter()
        .position(|cell| is_head(cell) && has_link(&cell))
        .or_else(|| cells.iter().rposition(|cell| has_link(&cell)))
}

/// The nonce before a row: the style sheet hides it where a row begins elsewhere.
fn draw_label(html: &mut String, place: u64, nonce: u64) {
    let class = match () {
        () if place.is_multiple_of(COLUMNS_WIDE) => "wide",
        () if place.is_multiple_of(COLUMNS_MIDDLE) => "middle",
        () if place.is_multiple_of(COLUMNS_NARROW) => "narrow",
        () => return,
    };
    let _ = write!(html, "<span class=\"row {class}\" aria-hidden=\"true\">{nonce}</span>");
}

fn draw_cell(html: &mut String, cell: &Cell, input: &LadderInput<'_>, is_stop: bool) {
    let (class, sign, _) = cell.kind().shown();
    let is_head = input.head.is_some_and(|head| cell.nonces.contains(&head));
    let is_next = cell.nonces.contains(&input.next_nonce);
    let is_counted = input.chain_nonce.is_some_and(|count| cell.nonces.contains(&count));
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
    let sign = if is_head && sign.is_empty() { "▸" } else { sign };
    let sign = match sign {
        "" => String::new(),
        sign => format!("<i aria-hidden=\"true\">{sign}</i>"),
    };
    let title = escaped(&title);
    let _ = match cell.link(input.path) {
        Some(link) => {
            let (link, index) = (escaped(&link), if is_stop { 0 } else { -1 });
            write!(
                html,
                "<a class=\"cell {class}{marks}\" href=\"{link}\" title=\"{title}\" \
                 tabindex=\"{index}\">{sign}</a>"
            )
        }
        None => {
            write!(html, "<span class=\"cell {class}{marks}\" title=\"{title}\">{sign}</span>")
        }
    };
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
mod tests;
