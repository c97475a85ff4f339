//! Leases: acquiring, renewing, releasing and taking over the right to write for a submitter.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_model::FencingToken;
use tollgate_model::port::{
    Acquisition, Checkpoint, GrantKind, Lease, LeaseTerms, OrphanPage, SectionOutcome, StoreError,
};

use crate::builders::{
    CHAIN, SectionExt, chain_id, intent, long_terms, nonce, on_other_chain, one_slot, other_chain,
    section, submitter,
};
use crate::node::TestNode;
use crate::store_fixture::{NodeOptions, StoreFixture};
use crate::wait::within;

pub async fn first_acquire_is_granted_under_token_one(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register(&[submitter(1)]).await;
    let answer = a.acquire(submitter(1), &a.id, &long_terms()).await.unwrap();
    let Acquisition::Granted { lease, kind, submitter: record } = answer else {
        panic!("a lease that nobody ever had is free: {answer:?}")
    };
    assert_eq!(lease, Lease { submitter: submitter(1), token: FencingToken::MIN });
    assert_eq!(kind, GrantKind::First);
    assert_eq!(record, a.known(submitter(1)).await);
}

pub async fn an_owner_that_asks_again_is_renewed_under_the_same_token(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    fixture.age_lease(submitter(1), Duration::from_secs(300)).await;
    let answer = a.acquire(submitter(1), &a.id, &long_terms()).await.unwrap();
    let Acquisition::Granted { lease: again, kind, .. } = answer else {
        panic!("the owner may go on: {answer:?}")
    };
    assert_eq!((again, kind), (lease, GrantKind::Renewed));
    let owner = a.owners(&[submitter(1)]).await.unwrap().remove(0).unwrap();
    assert!(owner.remaining > Duration::from_secs(400), "extended: {:?}", owner.remaining);
}

pub async fn another_node_is_told_who_holds_the_lease_and_for_how_long(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let answer = b.acquire(submitter(1), &b.id, &long_terms()).await.unwrap();
    let Acquisition::Held(owner) = answer else { panic!("I1: two owners: {answer:?}") };
    assert_eq!((&owner.node, owner.token), (&a.id, lease.token));
    assert!(!owner.remaining.is_zero() && owner.remaining <= long_terms().duration());
    assert_eq!(b.owners(&[submitter(1)]).await.unwrap()[0].as_ref().unwrap().node, a.id);
}

pub async fn a_new_start_of_the_same_node_is_another_owner(fixture: &dyn StoreFixture) {
    let (first, second) = (fixture.node("a").await, fixture.node("a").await);
    first.own(submitter(1)).await;
    let answer = second.acquire(submitter(1), &second.id, &long_terms()).await.unwrap();
    assert!(matches!(answer, Acquisition::Held(_)), "I1: a twin passed for the owner: {answer:?}");
}

pub async fn an_expired_lease_is_taken_over_under_the_next_token(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    a.write_whole(one_slot(lease, 0)).await;
    fixture.expire(submitter(1)).await;
    let answer = b.acquire(submitter(1), &b.id, &long_terms()).await.unwrap();
    let Acquisition::Granted { lease: taken, kind, submitter: record } = answer else {
        panic!("its time was over: {answer:?}")
    };
    assert_eq!((taken.token.get(), kind), (lease.token.get() + 1, GrantKind::TakenOver));
    assert_eq!(record.next_nonce, nonce(1), "the new owner sees what the old one wrote");
}

fn terms_with_an_allowance() -> LeaseTerms {
    let seconds = Duration::from_secs;
    LeaseTerms::new(seconds(600), seconds(60), seconds(500)).unwrap()
}

/// An owner whose lease expired some 100 s ago, which is less than the allowance, and another node.
async fn expired_within_the_allowance(
    fixture: &dyn StoreFixture,
) -> (TestNode, TestNode, Lease, LeaseTerms) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let terms = terms_with_an_allowance();
    a.register(&[submitter(1)]).await;
    let (lease, _) = a.granted(submitter(1), &terms).await;
    fixture.age_lease(submitter(1), Duration::from_secs(700)).await;
    (a, b, lease, terms)
}

/// Clocks differ: other nodes wait a little longer than the owner writes.
pub async fn takeover_waits_for_the_clock_skew_allowance(fixture: &dyn StoreFixture) {
    let (a, b, lease, terms) = expired_within_the_allowance(fixture).await;
    let answer = b.acquire(submitter(1), &b.id, &terms).await.unwrap();
    let Acquisition::Held(owner) = answer else { panic!("taken over too early: {answer:?}") };
    assert_eq!((owner.node, owner.remaining), (a.id.clone(), Duration::ZERO));
    assert_eq!(
        a.write(one_slot(lease, 0)).await,
        SectionOutcome::Fenced,
        "I2: the allowance is for others to wait, not for the owner to write"
    );
    fixture.age_lease(submitter(1), terms.clock_skew_allowance()).await;
    let answer = b.acquire(submitter(1), &b.id, &terms).await.unwrap();
    assert!(matches!(answer, Acquisition::Granted { .. }), "{answer:?}");
}

/// I2: the node gets a new token, so that what it sent under the old one can't commit.
pub async fn an_owner_takes_its_expired_lease_without_waiting_for_the_clock_skew_allowance(
    fixture: &dyn StoreFixture,
) {
    let (a, b, lease, terms) = expired_within_the_allowance(fixture).await;
    let answer = b.acquire(submitter(1), &b.id, &terms).await.unwrap();
    assert!(matches!(answer, Acquisition::Held(_)), "other nodes wait: {answer:?}");
    let answer = a.acquire(submitter(1), &a.id, &terms).await.unwrap();
    let Acquisition::Granted { lease: again, kind, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((again.token.get(), kind), (lease.token.get() + 1, GrantKind::TakenOver), "I4");
    assert_eq!(a.write(one_slot(lease, 0)).await, SectionOutcome::Fenced, "I2: the old token");
    a.write_whole(one_slot(again, 0)).await;
}

/// I6: the batch can still commit, so the node neither owns the lease nor has lost it to another one.
pub async fn acquire_is_unavailable_while_a_batch_of_the_same_node_outlasts_its_lease(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let hasty = a.again(fixture, NodeOptions::HASTY).await;
    let batch = a.hold_batch(Checkpoint::BatchWritten, one_slot(lease, 0)).await;
    fixture.expire_in_flight(submitter(1)).await;
    let answer = hasty.acquire(submitter(1), &a.id, &long_terms()).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "I6: {answer:?}");
    assert!(batch.lands().await);
    let (again, cursor) = a.take_over(submitter(1)).await;
    assert_eq!((again.token.get(), cursor), (lease.token.get() + 1, 1));
}

pub async fn an_owner_whose_time_was_over_comes_back_under_a_new_token(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    fixture.expire(submitter(1)).await;
    let again = a.lease(submitter(1)).await;
    assert!(again.token > lease.token, "I4: {:?} after {:?}", again.token, lease.token);
}

pub async fn a_renewal_extends_what_is_still_held_and_leaves_out_the_rest(
    fixture: &dyn StoreFixture,
) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let (all, leases) = ([1, 2, 3, 4, 5].map(submitter), a.own_all(1..=5).await);
    for one in all {
        fixture.age_lease(one, Duration::from_secs(300)).await;
    }
    fixture.expire(all[1]).await;
    fixture.expire(all[2]).await;
    b.lease(all[2]).await;
    a.release(&a.id, &leases[3..4]).await.unwrap();

    let mut kept = a.renew(&a.id, &leases, &long_terms()).await.unwrap();
    kept.sort_by_key(|lease| lease.submitter);
    assert_eq!(kept, [leases[0], leases[4]], "expired, taken over and released ones are lost");
    for owner in a.owners(&[all[0], all[4]]).await.unwrap() {
        let remaining = owner.unwrap().remaining;
        assert!(remaining > Duration::from_secs(400), "extended: {remaining:?}");
    }
    assert_eq!(a.renew(&a.id, &[], &long_terms()).await.unwrap(), []);
}

pub async fn a_renewal_under_another_name_or_token_extends_nothing(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let later = Lease { token: lease.token.forward(1).unwrap(), ..lease };
    assert_eq!(b.renew(&b.id, &[lease], &long_terms()).await.unwrap(), []);
    assert_eq!(a.renew(&a.id, &[later], &long_terms()).await.unwrap(), []);
    assert_eq!(a.renew(&a.id, &[lease], &long_terms()).await.unwrap(), [lease]);
}

pub async fn a_released_lease_is_free_at_once_under_a_higher_token(fixture: &dyn StoreFixture) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let terms = terms_with_an_allowance();
    assert_eq!(b.release(&b.id, &[lease]).await.unwrap(), 0, "not b's to release");
    assert_eq!(a.release(&a.id, &[lease]).await.unwrap(), 1);
    assert!(fixture.stored_token(submitter(1)).await > lease.token.as_i64(), "I2: the token grows");
    assert_eq!(a.owners(&[submitter(1)]).await.unwrap(), [None]);
    assert_eq!(a.release(&a.id, &[lease]).await.unwrap(), 0, "it is gone already");

    let answer = b.acquire(submitter(1), &b.id, &terms).await.unwrap();
    let Acquisition::Granted { lease: taken, kind, .. } = answer else {
        panic!("no allowance for what was let go: {answer:?}")
    };
    assert!(taken.token > lease.token, "I4");
    assert_eq!(kind, GrantKind::TakenOver);
    assert_eq!(
        a.write(one_slot(lease, 0)).await,
        SectionOutcome::Fenced,
        "I2: a write under a lease that was let go"
    );
}

pub async fn the_token_never_goes_back(fixture: &dyn StoreFixture) {
    let nodes = [fixture.node("a").await, fixture.node("b").await];
    nodes[0].register(&[submitter(1)]).await;
    let mut last = 0;
    for round in 0..12 {
        let node = &nodes[round % 2];
        let lease = node.lease(submitter(1)).await;
        assert!(lease.token.get() > last, "I4: token {:?} after {last}", lease.token);
        last = lease.token.get();
        if round % 3 == 0 {
            node.release(&node.id, &[lease]).await.unwrap();
        } else {
            fixture.expire(submitter(1)).await;
        }
    }
}

pub async fn concurrent_acquires_grant_the_lease_to_one_node(fixture: &dyn StoreFixture) {
    let mut nodes = Vec::new();
    for n in 0..6 {
        nodes.push(fixture.node(&format!("node-{n}")).await);
    }
    nodes[0].register(&[submitter(1)]).await;
    for round in 1..=8 {
        let terms = long_terms();
        let asked = nodes.iter().map(|node| node.acquire(submitter(1), &node.id, &terms));
        let answers = join_all(asked).await;
        // A contender may also be told that it came too close: then it has not got it either.
        let granted: Vec<_> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Ok(Acquisition::Granted { lease, .. }) => Some(lease.token.get()),
                Ok(Acquisition::Held(_)) | Err(StoreError::Unavailable(_)) => None,
                Err(error) => panic!("{error}"),
            })
            .collect();
        assert_eq!(granted, [round], "I1: one owner, one token");
        fixture.expire(submitter(1)).await;
    }
}

pub async fn a_takeover_that_was_overtaken_finds_the_new_owner(fixture: &dyn StoreFixture) {
    let (a, b, c) = (fixture.node("a").await, fixture.node("b").await, fixture.node("c").await);
    let old = a.own(submitter(1)).await;
    fixture.expire(submitter(1)).await;
    let mut hold = b.checkpoints.pause_at(Checkpoint::TakeoverStarted);
    let slow = b.clone();
    let overtaken =
        tokio::spawn(
            async move { slow.acquire(submitter(1), &slow.id, &long_terms()).await.unwrap() },
        );
    hold.reached().await;
    let lease = c.lease(submitter(1)).await;
    assert_eq!(lease.token.get(), old.token.get() + 1);
    hold.release();
    let answer = within("the overtaken node", overtaken).await.unwrap();
    let Acquisition::Held(owner) = answer else { panic!("I1: two owners: {answer:?}") };
    assert_eq!((&owner.node, owner.token), (&c.id, lease.token));
    c.write_whole(one_slot(lease, 0)).await;
}

pub async fn a_lease_on_an_unknown_submitter_is_refused_by_name(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register(&[submitter(1)]).await;
    let error = a.acquire(submitter(2), &a.id, &long_terms()).await.unwrap_err();
    assert_eq!(error, StoreError::UnknownSubmitter(submitter(2)));
    assert_eq!(fixture.count("submitter_lease").await, 0, "nothing was written");
}

pub async fn owners_are_told_in_the_order_asked(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let all: Vec<_> = (1..=4).map(submitter).collect();
    a.register(&all).await;
    a.lease(all[2]).await;
    b.lease(all[0]).await;
    let expired = a.lease(all[3]).await;
    fixture.expire(all[3]).await;
    let asked = [all[3], all[2], all[1], all[0], all[2], submitter(99)];
    let owners = a.owners(&asked).await.unwrap();
    let names: Vec<_> =
        owners.iter().map(|owner| owner.as_ref().map(|owner| &owner.node)).collect();
    let (a_id, b_id) = (Some(&a.id), Some(&b.id));
    assert_eq!(names, [a_id, a_id, None, b_id, a_id, None]);
    let over = owners[0].as_ref().unwrap();
    assert_eq!((over.token, over.remaining), (expired.token, Duration::ZERO));
    assert_eq!(a.owners(&[]).await.unwrap(), []);
}

pub async fn orphans_are_the_submitters_with_open_work_and_no_owner(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (all, leases) = ([1, 2, 3, 4, 5].map(submitter), a.own_all(1..=5).await);
    let done = intent();
    for (lease, n) in leases.iter().zip(1..) {
        let tx = if n == 4 { done.clone() } else { intent() };
        if n != 5 {
            a.write_whole(section(*lease).create(tx)).await;
        }
    }
    a.step(leases[3], done.tx_id, tollgate_model::TxEvent::Withdrawn).await;
    // 1: owned. 2: let go. 3: its owner died. 4: let go, its work is done. 5: let go, no work.
    let released = [leases[1], leases[3], leases[4]];
    assert_eq!(a.release(&a.id, &released).await.unwrap(), 3);
    fixture.expire(all[2]).await;
    a.register_on(&other_chain(), &[on_other_chain(2)]).await;
    let elsewhere = a.lease(on_other_chain(2)).await;
    a.write_whole(section(elsewhere).create(intent())).await;
    assert_eq!(a.release(&a.id, &[elsewhere]).await.unwrap(), 1);
    let found = a.orphans(chain_id(CHAIN), None, 10).await.unwrap();
    assert_eq!(found, OrphanPage { orphans: vec![all[1], all[2]], next: None });
    let there = a.orphans(other_chain().chain_id, None, 10).await.unwrap().orphans;
    assert_eq!(there, [on_other_chain(2)], "each chain's work is its own nodes'");
}

pub async fn orphan_pages_lead_past_owned_and_orphaned_submitters_to_the_last(
    fixture: &dyn StoreFixture,
) {
    let a = fixture.node("a").await;
    // Their addresses ascend with their numbers.
    let (all, leases) = ([1, 2, 3, 4, 5, 6, 7].map(submitter), a.own_all(1..=7).await);
    for lease in &leases {
        a.write_whole(section(*lease).create(intent())).await;
    }
    let released = [leases[0], leases[1], leases[4], leases[6]];
    assert_eq!(a.release(&a.id, &released).await.unwrap(), 4);
    for limit in 1..=8 {
        let (mut after, mut found, mut looks) = (None, Vec::new(), 0);
        loop {
            let page = a.orphans(chain_id(CHAIN), after, limit).await.unwrap();
            assert!(page.orphans.len() <= limit as usize, "I13: {page:?}");
            found.extend(page.orphans);
            looks += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, [all[0], all[1], all[4], all[6]], "in parts of {limit}");
        assert_eq!(looks, 7 / limit + 1, "in parts of {limit}");
    }
}

/// Nodes of the version before would hand private transactions to public endpoints.
pub async fn submitter_with_private_transactions_is_never_owned_by_a_node_that_knows_no_routes(
    fixture: &dyn StoreFixture,
) {
    let (a, b, lease) = fixture.owner_and_other().await;
    let public = a.own(submitter(2)).await;
    // A takeover as the version before writes it.
    let take_over = async |of: tollgate_model::Submitter| {
        let sql = format!(
            "update submitter_lease set owner_node = 'old', fencing_token = fencing_token + 1 where {}",
            fixture.of(of)
        );
        fixture.execute(&sql).await
    };
    a.mark_private(&a.id, lease).await.unwrap();
    a.mark_private(&a.id, lease).await.unwrap();
    fixture.expire(submitter(1)).await;
    take_over(submitter(1)).await.expect_err("it knows no routes");
    assert_eq!(take_over(public.submitter).await, Ok(1), "it may own what has none");

    let taken = b.lease(submitter(1)).await;
    assert_eq!(taken.token.get(), lease.token.get() + 1, "this version may own it");
    assert_eq!(b.release(&b.id, &[taken]).await, Ok(1));
    take_over(submitter(1)).await.expect_err("the mark stays");
}
