//! Accounts that are opened and changed while nodes run.

use tollgate_model::account::{Account, AccountSettings, KeyRef};
use tollgate_model::port::StoredAccount;
use tollgate_model::spending::SpendingRules;
use tollgate_model::{GasPrice, Submitter, U256, Wei};

use crate::builders::{CHAIN, chain_id, on_other_chain, one_slot, submitter, text};
use crate::store_fixture::StoreFixture;

fn account(submitter: Submitter) -> Account {
    let settings = AccountSettings {
        label: Some(text("payouts")),
        window: Some(100_000),
        max_fee_per_gas: GasPrice::from_wei(u128::from(u32::MAX)).ok(),
        max_tx_fee: Some(Wei(U256::MAX)),
        spending: SpendingRules {
            max_value: Some(Wei(U256::MAX)),
            allowed_calls: "0x0707070707070707070707070707070707070707:0xa9059cbb,create"
                .parse()
                .ok(),
        },
        is_disabled: true,
    };
    Account { submitter, key: Some(KeyRef::Hd(7)), settings, is_removed: false }
}

pub async fn an_account_is_read_as_it_was_written_and_changed_only_by_its_revision(
    fixture: &dyn StoreFixture,
) {
    let store = fixture.node("a").await;
    let (of, plain) = (account(submitter(1)), AccountSettings::default());
    assert_eq!(store.account(submitter(1)).await.unwrap(), None);
    assert_eq!(store.put_account(&of, Some(1)).await.unwrap(), None, "there is none yet");
    let revision = store.put_account(&of, None).await.unwrap().unwrap();
    assert_eq!(store.put_account(&of, None).await.unwrap(), None, "there is one");
    let stored = store.account(submitter(1)).await.unwrap().unwrap();
    assert_eq!(stored, StoredAccount { account: of.clone(), revision });
    let changed = Account { key: None, settings: plain, is_removed: true, ..of };
    let next = store.put_account(&changed, Some(revision)).await.unwrap().unwrap();
    assert!(next > revision);
    assert_eq!(store.put_account(&changed, Some(revision)).await.unwrap(), None, "it has changed");
    let stored = store.account(submitter(1)).await.unwrap().unwrap();
    assert_eq!(stored, StoredAccount { account: changed, revision: next });
}

pub async fn accounts_are_read_in_the_order_of_their_changes(fixture: &dyn StoreFixture) {
    let store = fixture.node("a").await;
    let mut revisions = Vec::new();
    for of in [submitter(3), submitter(1), on_other_chain(1), submitter(2)] {
        revisions.push(store.put_account(&account(of), None).await.unwrap().unwrap());
    }
    let again = store.put_account(&account(submitter(3)), Some(revisions[0])).await.unwrap();
    let read = async |after: u64, limit: u32| {
        let read = store.accounts_after(chain_id(CHAIN), after, limit).await.unwrap();
        read.into_iter().map(|it| (it.account.submitter, it.revision)).collect::<Vec<_>>()
    };
    let all = [
        (submitter(1), revisions[1]),
        (submitter(2), revisions[3]),
        (submitter(3), again.unwrap()),
    ];
    assert_eq!(read(0, 10).await, all);
    assert_eq!(read(0, 2).await, all[..2]);
    assert_eq!(read(revisions[1], 10).await, all[1..]);
    assert_eq!(read(again.unwrap(), 10).await, []);
}

pub async fn concurrent_changes_of_accounts_have_different_revisions(fixture: &dyn StoreFixture) {
    let (one, two) = (fixture.node("a").await, fixture.node("b").await);
    for round in 1..=10 {
        let (first, second) = (account(submitter(round)), account(submitter(round + 100)));
        let (left, right) =
            tokio::join!(one.put_account(&first, None), two.put_account(&second, None));
        assert_ne!(left.unwrap().unwrap(), right.unwrap().unwrap());
        let same = account(submitter(round + 200));
        let (left, right) =
            tokio::join!(one.put_account(&same, None), two.put_account(&same, None));
        let written = [left.unwrap(), right.unwrap()].iter().flatten().count();
        assert_eq!(written, 1, "one of two that open the same account");
    }
}

pub async fn open_work_of_an_account_is_seen_until_it_is_final(fixture: &dyn StoreFixture) {
    let store = fixture.node("a").await;
    let lease = store.own(submitter(1)).await;
    assert!(!store.has_open_work(submitter(1)).await.unwrap());
    store.write_whole(one_slot(lease, 0)).await;
    assert!(store.has_open_work(submitter(1)).await.unwrap());
    assert!(!store.has_open_work(submitter(2)).await.unwrap());
}
