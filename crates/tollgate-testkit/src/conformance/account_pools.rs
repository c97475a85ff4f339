//! Account pools, and the member that each request was assigned to.

use futures_util::future::join_all;
use tollgate_model::account_pool::{AccountPool, PoolMember, PoolName};
use tollgate_model::nonce::SubmitterStatus;

use crate::builders::{CHAIN, address, chain_id, full_page, other_chain, page, request, submitter};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;

fn name(text: &str) -> PoolName {
    PoolName::new(text).unwrap()
}

fn pool(text: &str, members: &[u64]) -> AccountPool {
    AccountPool { name: name(text), members: members.iter().copied().map(address).collect() }
}

async fn node(fixture: &dyn StoreFixture) -> TestNode {
    let a = fixture.node("a").await;
    a.register(&[1, 2, 3].map(submitter)).await;
    a
}

async fn members(a: &TestNode, pool: &str) -> Vec<PoolMember> {
    a.pool_members(chain_id(CHAIN), &name(pool)).await.unwrap()
}

pub async fn pool_is_replaced_as_a_whole_and_removed(fixture: &dyn StoreFixture) {
    let a = node(fixture).await;
    let addresses = async || -> Vec<_> {
        members(&a, "payouts").await.into_iter().map(|member| member.address).collect()
    };
    assert!(addresses().await.is_empty());
    for of in [&[3, 1][..], &[2], &[2, 1]] {
        a.put_pool(chain_id(CHAIN), &pool("payouts", of)).await.unwrap();
        let mut wanted: Vec<_> = of.iter().copied().map(address).collect();
        wanted.sort_unstable();
        assert_eq!(addresses().await, wanted);
    }
    assert!(a.remove_pool(chain_id(CHAIN), &name("payouts")).await.unwrap());
    assert!(addresses().await.is_empty());
    assert!(!a.remove_pool(chain_id(CHAIN), &name("payouts")).await.unwrap());
}

pub async fn pools_are_listed_by_name_in_pages_for_one_chain(fixture: &dyn StoreFixture) {
    let a = node(fixture).await;
    let of = chain_id(CHAIN);
    let pools = [pool("A", &[1, 2]), pool("a", &[3]), pool("b_1", &[1])];
    for pool in pools.iter().rev() {
        a.put_pool(of, pool).await.unwrap();
    }
    assert_eq!(a.pools(of, None, full_page()).await.unwrap(), pools);
    assert_eq!(a.pools(of, None, page(2)).await.unwrap(), pools[..2]);
    assert_eq!(a.pools(of, Some(&name("a")), page(2)).await.unwrap(), pools[2..]);
    assert_eq!(a.pools(other_chain().chain_id, None, full_page()).await.unwrap(), []);
}

pub async fn pool_with_an_unregistered_member_is_not_written(fixture: &dyn StoreFixture) {
    let a = node(fixture).await;
    a.put_pool(chain_id(CHAIN), &pool("payouts", &[1])).await.unwrap();
    assert!(a.put_pool(chain_id(CHAIN), &pool("payouts", &[2, 9])).await.is_err());
    let kept: Vec<_> = members(&a, "payouts").await.iter().map(|member| member.address).collect();
    assert_eq!(kept, [address(1)], "all or nothing");
}

pub async fn members_are_read_with_status_and_open_transactions(fixture: &dyn StoreFixture) {
    let a = node(fixture).await;
    a.put_pool(chain_id(CHAIN), &pool("payouts", &[1, 2])).await.unwrap();
    let lease = a.lease(submitter(2)).await;
    let created = a.fill(lease, 3).await;
    a.mine(lease, created[0].tx_id, 7).await;
    a.confirm(lease, created[0].tx_id).await;
    let paused = "update submitter_cursor set status = 2 where next_nonce = 0";
    assert_eq!(fixture.execute(paused).await, Ok(2));
    let (idle, busy) = (SubmitterStatus::Paused, SubmitterStatus::Active);
    let wanted = [
        PoolMember { address: address(1), status: idle, open: 0 },
        PoolMember { address: address(2), status: busy, open: 2 },
    ];
    assert_eq!(members(&a, "payouts").await, wanted, "what has ended is no load");
}

pub async fn request_stays_with_its_first_member_whatever_happens_to_the_pool(
    fixture: &dyn StoreFixture,
) {
    let (a, of) = (node(fixture).await, chain_id(CHAIN));
    let (payouts, order) = (name("payouts"), request("order-1"));
    assert_eq!(a.assigned_member(of, &payouts, &order).await.unwrap(), None);
    a.put_pool(of, &pool("payouts", &[1, 2])).await.unwrap();
    assert_eq!(a.assign_request(of, &payouts, &order, address(1)).await.unwrap(), address(1));
    a.put_pool(of, &pool("payouts", &[2])).await.unwrap();
    assert_eq!(a.assign_request(of, &payouts, &order, address(2)).await.unwrap(), address(1));
    assert!(a.remove_pool(of, &payouts).await.unwrap());
    assert_eq!(a.assigned_member(of, &payouts, &order).await.unwrap(), Some(address(1)), "I7");
    let others = [
        (of, name("other"), order.clone()),
        (of, payouts.clone(), request("order-2")),
        (other_chain().chain_id, payouts, order),
    ];
    for (chain, pool, request) in others {
        let assigned = a.assign_request(chain, &pool, &request, address(2)).await.unwrap();
        assert_eq!(assigned, address(2), "another chain, pool or request is another assignment");
    }
}

pub async fn concurrent_assignments_of_one_request_agree_on_one_member(fixture: &dyn StoreFixture) {
    let a = node(fixture).await;
    let connections = a.connections(fixture, 5).await;
    let callers = (0..50).map(|n: usize| {
        let node = connections[n % connections.len()].clone();
        tokio::spawn(async move {
            let (payouts, order) = (name("payouts"), request("order"));
            let member = address(1 + n as u64 % 3);
            node.assign_request(chain_id(CHAIN), &payouts, &order, member).await.unwrap()
        })
    });
    let answers: Vec<_> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|member| *member == answers[0]), "I7: {answers:?}");
    assert_eq!(fixture.count("pool_request").await, 1);
}
