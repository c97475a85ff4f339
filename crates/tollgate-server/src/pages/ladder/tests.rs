//! The ladder, drawn from slots of every kind.

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
        hole_count: 0,
        reserved: &[],
        queued: 0,
        path: "/submitters/1/0xab",
    }
}

#[test]
fn cell_of_several_nonces_shows_the_most_urgent_and_links_to_its_nonces() {
    let stuck = TxState::Stuck(StuckReason::FeeCap);
    let mut slots: Vec<_> = (0..1_200).map(|n| slot(n, TxState::Confirmed)).collect();
    slots[31] = slot(31, stuck);
    let window = Window::choose(Some(0), Some(1_200), None, 1_200);
    let ladder = draw(&input(window, &slots, 1_200));
    assert!(ladder.summary.contains("One cell stands for 2 nonces"), "{}", ladder.summary);
    assert!(ladder.html.contains("?from=30&amp;to=32"), "{}", ladder.html);
    assert!(ladder.html.contains("1 confirmed, 1 stuck"), "{}", ladder.html);
    assert_eq!(ladder.html.matches("class=\"cell stuck\"").count(), 1);
    let counted: Vec<_> = ladder.legend.iter().map(|(class, _, _, n)| (*class, *n)).collect();
    assert_eq!(counted, [("stuck", 1), ("confirmed", 1_199)]);
}

#[test]
fn nonces_without_a_tx_are_told_apart() {
    let slots = [slot(0, TxState::Confirmed), slot(5, TxState::Tracking(Tracking::Pending))];
    let window = Window::choose(Some(0), Some(40), None, 6);
    let of = LadderInput {
        holes: &[3],
        hole_count: 1,
        reserved: &[4],
        head: Some(5),
        ..input(window, &slots, 6)
    };
    let ladder = draw(&of);
    let counted: Vec<_> = ladder.legend.iter().map(|(class, _, _, n)| (*class, *n)).collect();
    let expected = [
        ("hole", 1),
        ("sent", 1),
        ("reserved", 1),
        ("confirmed", 1),
        ("elsewhere", 2),
        ("free", 34),
    ];
    assert_eq!(counted, expected);
    assert!(ladder.html.contains("class=\"cell sent head\""));
    assert!(ladder.html.contains("class=\"cell free next\""));
}

#[test]
fn cells_of_twenty_thousand_slots_are_drawn_in_a_small_picture() {
    let slots: Vec<_> = (0..20_000).map(|n| slot(n, TxState::Confirmed)).collect();
    let window = Window::choose(Some(0), Some(20_000), None, 20_000);
    let ladder = draw(&input(window, &slots, 20_000));
    assert!(ladder.html.len() < 300_000, "{}", ladder.html.len());
}

#[test]
fn tab_key_reaches_one_cell_which_is_the_head_of_the_line() {
    let slots: Vec<_> = (0..9).map(|n| slot(n, TxState::Tracking(Tracking::Pending))).collect();
    let window = || Window::choose(Some(0), Some(40), None, 9);
    let ladder = draw(&LadderInput { head: Some(4), ..input(window(), &slots, 9) });
    let stops: Vec<_> =
        ladder.html.split("<a ").filter(|it| it.contains("tabindex=\"0\"")).collect();
    assert_eq!(stops.len(), 1);
    assert!(stops[0].contains("title=\"nonce 4: sent"), "{stops:?}");
    let without = draw(&input(window(), &slots, 9));
    let last = without.html.split("<a ").find(|it| it.contains("tabindex=\"0\"")).unwrap();
    assert!(last.contains("title=\"nonce 8: sent"), "{last}");
    let empty = draw(&input(window(), &[], 0));
    assert!(!empty.html.contains("tabindex"), "a free nonce leads nowhere");
}

#[test]
fn queue_is_told_beside_the_slots() {
    let of = |queued| {
        let window = Window::choose(Some(0), Some(40), None, 0);
        draw(&LadderInput { queued, ..input(window, &[], 0) }).summary
    };
    assert_eq!(of(0), "Nonces 0 to 39.");
    assert!(of(12).ends_with("12 transactions wait for a nonce in the queue."), "{}", of(12));
}

#[test]
fn hole_leads_to_the_form_that_fills_it_and_unmarked_holes_are_told() {
    let window = Window::choose(Some(0), Some(40), None, 9);
    let few = LadderInput { holes: &[3], hole_count: 312, ..input(window, &[], 9) };
    let ladder = draw(&few);
    assert!(ladder.html.contains("/submitters/1/0xab/fill?first=3&amp;last=3"), "{}", ladder.html);
    assert!(
        ladder.summary.ends_with("Only the lowest 1 of the account's 312 holes are marked."),
        "{}",
        ladder.summary
    );
    let all = LadderInput { hole_count: 1, ..few };
    assert!(!draw(&all).summary.contains("marked"));
}

#[test]
fn rows_of_every_width_begin_at_a_nonce_with_a_label() {
    let window = Window::choose(Some(40), Some(80), None, 100);
    let html = draw(&input(window, &[], 100)).html;
    for label in [
        "<span class=\"row wide\" aria-hidden=\"true\">40</span>",
        "<span class=\"row narrow\" aria-hidden=\"true\">50</span>",
        "<span class=\"row middle\" aria-hidden=\"true\">60</span>",
    ] {
        assert!(html.contains(label), "{label}");
    }
}
