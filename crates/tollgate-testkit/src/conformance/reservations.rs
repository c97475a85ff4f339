//! Nonces that callers hold, and the pool of those that they returned.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{
    Lease, Reservation, ReservationState, Reserve, ReturnedNonces, SectionOutcome, StatusChange,
};
use uuid::Uuid;

use crate::builders::{
    IntentExt, SectionExt, full_page, hash, intent, nonce, one_slot, reserve, section, submitter,
    text,
};
use crate::node::{TestNode, all_pages, is_committed};
use crate::store_fixture::StoreFixture;

async fn reserved(node: &TestNode, lease: Lease) -> Reservation {
    node.reserve(&node.id, &reserve(lease)).await.unwrap().expect("few are out")
}

async fn give_back(node: &TestNode, lease: Lease, reservation: &Reservation) {
    let Reservation { nonce, owner_token, .. } = *reservation;
    let why = text("unused");
    let back = node.reservation_recyclable(&node.id, lease, nonce, owner_token, &why).await;
    assert_eq!(back.unwrap().expect("it was the caller's").state, ReservationState::Recyclable);
}

async fn states(node: &TestNode) -> Vec<(u64, ReservationState)> {
    let all = node.reservations(submitter(1), None, full_page()).await.unwrap();
    all.iter().map(|reservation| (reservation.nonce.get(), reservation.state)).collect()
}

pub async fn a_reservation_takes_the_cursors_nonce(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(one_slot(lease, 0)).await;
    let wanted = reserve(lease);
    let reservation = a.reserve(&a.id, &wanted).await.unwrap().unwrap();
    assert_eq!((reservation.submitter, reservation.nonce), (submitter(1), nonce(1)));
    assert_eq!(reservation.state, ReservationState::Reserved);
    assert_eq!(reservation.owner_token, wanted.owner_token);
    assert_eq!((reservation.tx_hash, &reservation.reason), (None, &None));
    assert_eq!(a.cursor(submitter(1)).await, 2, "I3: the cursor has passed it");
    let outcome = a.write(one_slot(lease, 1)).await;
    assert!(matches!(outcome, SectionOutcome::Stale { .. }), "I3: {outcome:?}");
    a.write_whole(one_slot(lease, 2)).await;
    let listed = a.reservations(submitter(1), None, full_page()).await.unwrap();
    assert_eq!(listed, [reservation]);
}

pub async fn the_lowest_recyclable_nonce_is_handed_out_first(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut out = Vec::new();
    for n in 0..5 {
        out.push(reserved(&a, lease).await);
        assert_eq!(out[n].nonce.get(), u64::try_from(n).unwrap());
    }
    for n in [3, 1, 4] {
        give_back(&a, lease, &out[n]).await;
    }
    let listed = a.reservations(submitter(1), None, full_page()).await.unwrap();
    assert_eq!(listed[1].reason, Some(text("unused")));
    for expected in [1, 3, 4, 5] {
        let again = reserved(&a, lease).await;
        assert_eq!(again.nonce, nonce(expected));
        assert!(out.iter().all(|old| old.owner_token != again.owner_token));
    }
    assert_eq!(a.cursor(submitter(1)).await, 6);
}

pub async fn nothing_below_the_floor_is_handed_out(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let out = [reserved(&a, lease).await, reserved(&a, lease).await, reserved(&a, lease).await];
    for reservation in &out {
        give_back(&a, lease, reservation).await;
    }
    let above = |floor: u64| Reserve { floor: nonce(floor), ..reserve(lease) };
    for (floor, expected, cursor) in [(2, 2, 3), (2, 3, 4), (10, 10, 11), (10, 11, 12)] {
        let reservation = a.reserve(&a.id, &above(floor)).await.unwrap().unwrap();
        assert_eq!(reservation.nonce, nonce(expected), "floor {floor}");
        assert_eq!(a.cursor(submitter(1)).await, cursor, "I4: only forward");
    }
}

pub async fn a_used_nonce_never_comes_back(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mine = reserved(&a, lease).await;
    let (n, token) = (mine.nonce, mine.owner_token);
    let stranger = Uuid::new_v4();
    let (tx_hash, late) = (hash(), text("late"));
    let used = |token| a.reservation_used(&a.id, lease, n, token, tx_hash);
    let back = |token| a.reservation_recyclable(&a.id, lease, n, token, &late);
    assert_eq!(used(stranger).await, Ok(None), "not the stranger's");
    assert_eq!(back(stranger).await, Ok(None), "not the stranger's");
    let spent = used(token).await.unwrap().expect("it is the caller's");
    assert_eq!((spent.state, spent.tx_hash), (ReservationState::Used, Some(tx_hash)));
    assert_eq!(back(token).await, Ok(None), "I3: what was used is not free");
    assert_eq!(used(token).await, Ok(Some(spent)), "told again, the same answer");
    let other = a.reservation_used(&a.id, lease, n, token, hash()).await;
    assert_eq!(other, Ok(None), "I3: it was used for something else");
    assert_eq!(states(&a).await, [], "used ones are not listed");
    let used_for = |at| a.used_for(submitter(1), nonce(at));
    assert_eq!((used_for(0).await, used_for(1).await), (Ok(Some(tx_hash)), Ok(None)));
    let used_from = |from| a.used_from(submitter(1), nonce(from), full_page());
    assert_eq!(used_from(0).await, Ok(vec![nonce(0)]), "but can be found");
    assert_eq!(used_from(1).await, Ok(vec![]));
    assert_eq!(reserved(&a, lease).await.nonce, nonce(1), "I3");
    let absent = a.reservation_used(&a.id, lease, nonce(77), token, hash()).await.unwrap();
    assert_eq!(absent, None, "never reserved");
}

pub async fn an_expired_reservation_returns_and_its_late_answer_is_refused(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let (late, kept) = (reserved(&a, lease).await, reserved(&a, lease).await);
    assert_eq!(a.expire_reservations(&a.id, lease).await.unwrap(), [], "in time");
    let long_ago = fixture.earlier("deadline", Duration::from_secs(86_400));
    let of = fixture.of(submitter(1));
    let sql =
        format!("update nonce_reservation set deadline = {long_ago} where {of} and nonce = 0");
    assert_eq!(fixture.execute(&sql).await, Ok(1));
    assert_eq!(a.expire_reservations(&a.id, lease).await.unwrap(), [nonce(0)]);
    let (free, held) = (ReservationState::Recyclable, ReservationState::Reserved);
    assert_eq!(states(&a).await, [(0, free), (1, held)]);
    let answer = a.reservation_used(&a.id, lease, late.nonce, late.owner_token, hash()).await;
    assert_eq!(answer, Ok(None), "I3: it is in the pool");

    let next = reserved(&a, lease).await;
    assert_eq!(next.nonce, nonce(0));
    let answer = a.reservation_used(&a.id, lease, late.nonce, late.owner_token, hash()).await;
    assert_eq!(answer, Ok(None), "I3: another caller has it");
    let reason = text("late");
    let answer =
        a.reservation_recyclable(&a.id, lease, late.nonce, late.owner_token, &reason).await;
    assert_eq!(answer, Ok(None), "I3: another caller has it");
    for mine in [next, kept] {
        let answer = a.reservation_used(&a.id, lease, mine.nonce, mine.owner_token, hash()).await;
        assert!(answer.unwrap().is_some());
    }
}

pub async fn nonces_that_the_chain_has_passed_leave_the_pool(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut out = Vec::new();
    for _ in 0..4 {
        out.push(reserved(&a, lease).await);
    }
    for n in [0, 1, 3] {
        give_back(&a, lease, &out[n]).await;
    }
    let passed = a.retire_passed(&a.id, lease, nonce(3)).await.unwrap();
    assert_eq!(passed, [nonce(0), nonce(1)]);
    let (free, held) = (ReservationState::Recyclable, ReservationState::Reserved);
    assert_eq!(states(&a).await, [(2, held), (3, free)], "the holder may still answer");
    assert_eq!(reserved(&a, lease).await.nonce, nonce(3));
    assert_eq!(reserved(&a, lease).await.nonce, nonce(4), "I3");
    assert_eq!(a.retire_passed(&a.id, lease, nonce(3)).await, Ok(vec![]));
}

pub async fn a_hole_is_adopted_once_and_then_filled(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(section(lease).cursor(0, 4)).await;
    let (holes, why) = ([nonce(3), nonce(1)], text("hole"));
    assert_eq!(a.adopt(&a.id, lease, &holes, &why).await, Ok(vec![nonce(1), nonce(3)]));
    assert_eq!(a.adopt(&a.id, lease, &holes, &why).await, Ok(vec![]), "they are there already");
    let pool = a.reservations(submitter(1), None, full_page()).await.unwrap();
    assert_eq!((pool.len(), &pool[0].reason), (2, &Some(text("hole"))));
    a.write_whole(section(lease).cursor(4, 4).create(intent().recycling(1))).await;
    assert_eq!(reserved(&a, lease).await.nonce, nonce(3));
    assert_eq!(a.adopt(&a.id, lease, &holes, &why).await, Ok(vec![]), "I3: they are taken");
}

pub async fn a_nonce_that_somebody_has_is_not_adopted(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(one_slot(lease, 0)).await;
    let (used, _held) = (reserved(&a, lease).await, reserved(&a, lease).await);
    let told = a.reservation_used(&a.id, lease, used.nonce, used.owner_token, hash()).await;
    assert!(told.unwrap().is_some());
    let all: Vec<_> = (0..10).map(nonce).collect();
    assert_eq!(a.adopt(&a.id, lease, &all, &text("hole")).await, Ok(vec![]), "I3");
    let many = vec![nonce(0); 1_001];
    assert!(a.adopt(&a.id, lease, &many, &text("hole")).await.is_err(), "I13");
}

pub async fn an_operator_hands_back_what_nobody_has_and_the_audit_trail_says_so(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    a.write_whole(one_slot(lease, 0)).await;
    let (used, _held) = (reserved(&a, lease).await, reserved(&a, lease).await);
    let told = a.reservation_used(&a.id, lease, used.nonce, used.owner_token, hash()).await;
    assert!(told.unwrap().is_some());
    a.write_whole(section(lease).cursor(3, 6)).await;
    a.adopt(&a.id, lease, &[nonce(4)], &text("hole")).await.unwrap();
    let return_nonces =
        |used, reason| ReturnedNonces { nonces: (0..9).map(nonce).collect(), used, reason };
    let free = a.return_nonces(&a.id, lease, &return_nonces(false, text("drill"))).await.unwrap();
    assert_eq!(free, [nonce(3), nonce(4), nonce(5)], "I3: 0 to 2 have owners, 6 is no slot yet");
    let pool = a.reservations(submitter(1), Some(nonce(2)), full_page()).await.unwrap();
    assert!(pool.iter().all(|one| one.reason == Some(text("drill"))), "{pool:?}");
    let free = a.return_nonces(&a.id, lease, &return_nonces(true, text("vouched"))).await.unwrap();
    assert_eq!(free, [1, 3, 4, 5].map(nonce), "I3: 0 is a transaction's, 2 is held");
    let late = a.reservation_used(&a.id, lease, used.nonce, used.owner_token, hash()).await;
    assert_eq!(late, Ok(None), "its caller is told not to send");
    let entries = a.submitter_history(submitter(1), 0, full_page()).await.unwrap();
    let told: Vec<_> = entries.iter().filter(|one| one.event == "nonces_handed_back").collect();
    assert_eq!(told.len(), 2, "{entries:?}");
    assert_eq!(
        told[1].detail.as_ref().map(|text| text.as_str()),
        Some("4 nonces from 1 to 5: vouched")
    );
    let many = ReturnedNonces { nonces: vec![nonce(0); 1_001], used: false, reason: text("drill") };
    assert!(a.return_nonces(&a.id, lease, &many).await.is_err(), "I13");
}

pub async fn reservations_are_limited_in_number(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let at_most = |outstanding_max| Reserve { outstanding_max, ..reserve(lease) };
    let first = a.reserve(&a.id, &at_most(2)).await.unwrap().unwrap();
    a.reserve(&a.id, &at_most(2)).await.unwrap().unwrap();
    assert_eq!(a.reserve(&a.id, &at_most(2)).await.unwrap(), None, "I13");
    assert_eq!(a.reserve(&a.id, &at_most(0)).await.unwrap(), None, "I13");
    assert_eq!(a.cursor(submitter(1)).await, 2, "a refusal uses no nonce");
    give_back(&a, lease, &first).await;
    assert!(a.reserve(&a.id, &at_most(2)).await.unwrap().is_some(), "the pool is not out");
}

pub async fn a_submitter_that_takes_no_work_hands_out_nothing(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let mut pause = section(lease);
    let (from, to) = (SubmitterStatus::Active, SubmitterStatus::Protect);
    pause.status = Some(StatusChange { from, to, reason: text("drift") });
    a.write_whole(pause).await;
    assert_eq!(a.reserve(&a.id, &reserve(lease)).await.unwrap(), None, "I12");
    assert_eq!(a.cursor(submitter(1)).await, 0);
}

pub async fn concurrent_reservations_and_creates_share_no_nonce(fixture: &dyn StoreFixture) {
    let (owner, lease) = fixture.owner().await;
    let mut tasks = Vec::new();
    for (n, node) in owner.connections(fixture, 6).await.into_iter().enumerate() {
        tasks.push(tokio::spawn(async move {
            let mut got = Vec::new();
            while got.len() < 15 {
                if n % 2 == 0 {
                    got.push(reserved(&node, lease).await.nonce.get());
                } else {
                    let cursor = node.cursor(submitter(1)).await;
                    let outcome = node.write(one_slot(lease, cursor)).await;
                    if is_committed(&outcome) {
                        got.push(cursor);
                    }
                }
            }
            got
        }));
    }
    let mut all: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..90), "I3: every nonce once, none left out");
}

pub async fn reservations_are_listed_in_pages(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    for _ in 0..7 {
        reserved(&a, lease).await;
    }
    let all = all_pages(3, async |last: Option<&Reservation>, page| {
        a.reservations(submitter(1), last.map(|one| one.nonce), page).await
    });
    assert!(all.await.iter().map(|one| one.nonce.get()).eq(0..7));
    let other = a.reservations(submitter(2), None, full_page()).await.unwrap();
    assert_eq!(other, []);
    a.write_whole(section(lease).cursor(7, 8).create(intent().at(7))).await;
}
