//! API keys: each write is counted, and readers see every change in order.

use std::time::Duration;

use tollgate_model::access::{
    ApiKey, KeyId, KeyScope, KeySecret, RateLimit, Rights, Roles, Tenant,
};
use tollgate_model::port::StoredApiKey;
use tollgate_model::{Text, Timestamp};

use crate::store_fixture::StoreFixture;

fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(1_700_000_000 + seconds))
}

fn key(seed: u8) -> ApiKey {
    let secret = KeySecret::from_random(KeyId::from_random([seed; 12]), [seed; 32]);
    ApiKey {
        id: secret.id().clone(),
        name: Text::lossy("billing"),
        hash: secret.hash(),
        rights: Rights {
            roles: Roles::parse("submit,operate").unwrap(),
            scope: KeyScope::parse(
                "1,8453",
                "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                "payouts",
            )
            .unwrap(),
            tenant: Some(Tenant::new("acme").unwrap()),
        },
        rate: Some(RateLimit::new(20, 100).unwrap()),
        created_at: at(0),
        created_by: Text::lossy("cli"),
        expires_at: Some(at(60)),
        revoked_at: None,
        last_used_at: None,
    }
}

pub async fn api_key_is_kept_as_given_and_changed_only_at_the_known_revision(
    fixture: &dyn StoreFixture,
) {
    let a = fixture.node("a").await;
    let key = key(1);
    assert_eq!(a.api_key(&key.id).await.unwrap(), None);
    let first = a.put_api_key(&key, None).await.unwrap().unwrap();
    assert_eq!(a.put_api_key(&key, None).await.unwrap(), None, "there is one already");
    let stored = a.api_key(&key.id).await.unwrap();
    assert_eq!(stored, Some(StoredApiKey { key: key.clone(), revision: first }));
    let revoked = ApiKey { revoked_at: Some(at(30)), ..key.clone() };
    let second = a.put_api_key(&revoked, Some(first)).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!(a.put_api_key(&key, Some(first)).await.unwrap(), None, "it has changed meanwhile");
    assert_eq!(a.api_key(&key.id).await.unwrap().unwrap().key, revoked);
}

pub async fn changed_api_keys_are_read_in_order_and_a_use_is_no_change(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let keys = [1, 2, 3].map(key);
    let mut revisions = Vec::new();
    for key in &keys {
        revisions.push(a.put_api_key(key, None).await.unwrap().unwrap());
    }
    let ids = async |after: u64, limit: u32| -> Vec<KeyId> {
        let found = a.api_keys_after(after, limit).await.unwrap();
        found.into_iter().map(|stored| stored.key.id).collect()
    };
    let of = |places: &[usize]| places.iter().map(|it| keys[*it].id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(0, 2).await, of(&[0, 1]));
    assert_eq!(ids(revisions[1], 9).await, of(&[2]));
    a.put_api_key(&keys[0], Some(revisions[0])).await.unwrap().unwrap();
    assert_eq!(ids(revisions[1], 9).await, of(&[2, 0]));
    for (used, kept) in [(5, 5), (9, 9), (7, 9)] {
        a.touch_api_key(&keys[1].id, at(used)).await.unwrap();
        let stored = a.api_key(&keys[1].id).await.unwrap().unwrap();
        assert_eq!((stored.key.last_used_at, stored.revision), (Some(at(kept)), revisions[1]));
    }
}
