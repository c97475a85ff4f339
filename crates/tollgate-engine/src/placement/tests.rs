//! Placement of work among nodes that serve all, some or none of the accounts.

use uuid::Uuid;

use tollgate_model::Address;

use super::*;

fn node(name: &str) -> LiveNode {
    LiveNode {
        node: NodeId::new(name, Uuid::nil()).unwrap(),
        chain_id: ChainId::new(1).unwrap(),
        advertise_url: Text::lossy(&format!("http://{name}")),
        draining: false,
        serves: None,
    }
}

fn account(n: u8) -> Submitter {
    Submitter::new(ChainId::new(1).unwrap(), Address::repeat_byte(n))
}

fn served(accounts: impl IntoIterator<Item = u8>) -> ServedSet {
    ServedSet::new(accounts.into_iter().map(|n| account(n).address))
}

/// As seen by `me`, with one other node that does not say whom it serves.
fn placement() -> Placement {
    placement_of(served(0..=255), node("other"))
}

/// As seen by `me`, which serves these, with one other node.
fn placement_of(own: ServedSet, other: LiveNode) -> Placement {
    let LiveNode { node: me, chain_id, .. } = node("me");
    let listed = LiveNode { serves: Some(own.digest()), ..node("me") };
    let (_, own) = watch::channel(Arc::new(own));
    let placement = Placement::new(me, chain_id, &LeaseTerms::default(), own);
    lock(&placement.sets).insert(placement.served());
    *lock(&placement.nodes) = Arc::new(vec![listed, other]);
    placement
}

/// The same with another node that says whom it serves.
fn placement_beside(own: ServedSet, others: ServedSet) -> Placement {
    let other = LiveNode { serves: Some(others.digest()), ..node("other") };
    let placement = placement_of(own, other);
    lock(&placement.sets).insert(Arc::new(others));
    placement
}

fn owner(name: &str) -> Owner {
    let token = tollgate_model::FencingToken::MIN;
    let (advertise_url, remaining) = (Some(format!("http://{name}")), Duration::from_secs(9));
    Owner { node: node(name).node, token, advertise_url, remaining }
}

#[test]
fn node_that_does_not_serve_an_account_is_never_preferred_for_it() {
    let placement = placement_beside(served(0..=255), served(0..50));
    let preferring_other =
        |of: &u8| placement.preferred(account(*of)).is_some_and(|node| node.node != placement.me);
    assert!((0..50).any(|of| preferring_other(&of)), "they share what both serve");
    for of in 50..=255 {
        assert_eq!(placement.preferred(account(of)).unwrap().node, placement.me);
        assert_eq!(placement.better_owner(account(of)), None, "nothing is let go for it");
        assert!(placement.adopts(account(of), Duration::ZERO), "nothing waits for it");
    }
}

#[test]
fn node_that_says_nothing_counts_as_serving_every_account() {
    let placement = placement_of(served([]), node("other"));
    assert!((0..=255).all(|of| placement.preferred(account(of)).is_some()));
    assert!((0..=255).all(|of| !placement.is_unserved(account(of))));
    let (unread, following) = (served([1]), served([]));
    let other = LiveNode { serves: Some(unread.digest()), ..node("other") };
    let placement = placement_of(following, other);
    assert!(!placement.is_unserved(account(2)), "what could not be read is not known");
    assert_eq!(placement.better_owner(account(2)), None, "a follower wants certainty");
}

#[test]
fn work_that_no_node_serves_is_followed_and_released_for_a_node_that_serves_it() {
    let (one, later) = (account(1), Duration::from_secs(600));
    let placement = placement_beside(served([]), served([2]));
    assert!(placement.is_unserved(one) && !placement.is_unserved(account(2)));
    assert!(!placement.follows(one, Duration::ZERO), "its node may be starting again");
    assert!(placement.follows(one, later) && !placement.follows(account(2), later));
    assert_eq!(placement.better_owner(one), None);
    assert_eq!(placement.better_owner(account(2)), Some(node("other").node));
    *lock(&placement.nodes) = Arc::new(vec![node("other")]);
    assert!(!placement.follows(one, later), "off the list itself, it does not know");
}

#[test]
fn request_goes_past_an_owner_that_merely_follows_to_a_node_that_serves_it() {
    let of = account(1);
    let placement = placement_beside(served([1]), served([]));
    assert!(matches!(placement.judge(of, Some(owner("other"))), OwnerLookup::Mine));
    let placement = placement_beside(served([]), served([]));
    let judged = placement.judge(of, Some(owner("other")));
    assert!(matches!(judged, OwnerLookup::Anothers(there) if there.owns), "nobody serves it");
}

#[tokio::test(start_paused = true)]
async fn account_of_a_node_that_has_just_gone_is_unavailable_and_later_unknown() {
    let (of, stranger) = (account(1), account(3));
    let placement = placement_beside(served([2]), served([1]));
    placement.remember(&placement.nodes());
    assert_eq!(placement.refusal(of, false), Unserved::UnknownSubmitter, "the other one is asked");
    *lock(&placement.nodes) = Arc::new(vec![node("me")]);
    let may_return = placement.timings.unserved_for;
    tokio::time::advance(may_return - Duration::from_millis(1)).await;
    assert!(matches!(placement.refusal(of, false), Unserved::Unavailable(_)));
    assert_eq!(placement.refusal(stranger, false), Unserved::UnknownSubmitter);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(placement.refusal(of, false), Unserved::UnknownSubmitter);
    placement.remember(&placement.nodes());
    assert!(lock(&placement.recent).is_empty());
}

#[test]
fn account_that_a_live_node_serves_no_longer_is_unknown_at_once() {
    let placement = placement_beside(served([2]), served([1]));
    placement.remember(&placement.nodes());
    let without = served([4]);
    let other = LiveNode { serves: Some(without.digest()), ..node("other") };
    lock(&placement.sets).insert(Arc::new(without));
    *lock(&placement.nodes) = Arc::new(vec![node("me"), other]);
    placement.remember(&placement.nodes());
    assert_eq!(placement.refusal(account(1), false), Unserved::UnknownSubmitter);
}

#[test]
fn account_that_is_followed_here_and_served_elsewhere_is_not_unknown() {
    let placement = placement_beside(served([2]), served([1]));
    assert_eq!(placement.refusal(account(1), true), Unserved::NotOwner(None));
    assert_eq!(placement.refusal(account(3), true), Unserved::UnknownSubmitter, "nobody serves it");
}

#[tokio::test(start_paused = true)]
async fn a_few_submitters_are_let_go_in_a_second_and_no_more() {
    let (placement, begun) = (placement(), Instant::now());
    let mut moved = 0;
    while begun.elapsed() < Duration::from_secs(10) {
        let to = node("other").node;
        moved += u32::from(placement.may_hand_over(account(moved as u8), to));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!((35..=40).contains(&moved), "{moved} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn released_submitter_is_left_to_the_other_node_while_it_lives_and_for_the_grace() {
    let placement = placement();
    assert!(!placement.is_left_to_another(account(1)));
    assert!(placement.may_hand_over(account(1), node("other").node));
    assert!(placement.is_left_to_another(account(1)));
    assert!(!placement.is_left_to_another(account(2)));
    let both = placement.nodes();
    *lock(&placement.nodes) = Arc::new(vec![node("me")]);
    assert!(!placement.is_left_to_another(account(1)), "nobody is there to take it");
    *lock(&placement.nodes) = both;
    tokio::time::sleep(placement.timings.grace).await;
    assert!(!placement.is_left_to_another(account(1)), "it had its chance");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_let_its_chance_pass_is_passed_over_for_a_while() {
    let placement = placement();
    let of_other = |of: &Submitter| placement.preferred(*of).unwrap().node == node("other").node;
    let of = (0..100).map(account).find(of_other).unwrap();
    assert!(!placement.adopts(of, Duration::ZERO));
    assert_eq!(placement.better_owner(of), Some(node("other").node));
    assert!(placement.adopts(of, placement.timings.grace));
    assert!(placement.adopts(of, Duration::ZERO), "at once from now on");
    assert_eq!(placement.better_owner(of), None);
    tokio::time::sleep(placement.timings.unwilling_for + Duration::from_secs(1)).await;
    assert_eq!(placement.better_owner(of), Some(node("other").node));
}

#[test]
fn a_node_that_is_not_on_the_list_itself_hands_nothing_over() {
    let placement = placement();
    *lock(&placement.nodes) = Arc::new(vec![node("other")]);
    assert!((0..100).all(|n| placement.better_owner(account(n)).is_none()));
}
