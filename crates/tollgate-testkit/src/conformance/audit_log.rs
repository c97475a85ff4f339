//! The audit log: who asked for a change; and the author of a create in its own history.

use std::time::Duration;

use tollgate_model::Text;
use tollgate_model::access::KeyId;
use tollgate_model::audit::{AuditAuthor, AuditEntry, AuditedAction, StoredAuditEntry};
use tollgate_model::port::Page;

use crate::builders::{IntentExt, SectionExt, full_page, intent, section};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;

fn entry(subject: &str) -> AuditEntry {
    AuditEntry {
        author: AuditAuthor {
            key_id: Some(KeyId::from_random([7; 12])),
            name: Text::lossy("night shift"),
            address: "2001:db8::7".parse().ok(),
        },
        action: AuditedAction::CancelTx,
        subject: Text::lossy(subject),
        reason: Some(Text::lossy("order withdrawn")),
    }
}

async fn newest(node: &TestNode, before: Option<u64>, limit: u32) -> Vec<StoredAuditEntry> {
    node.audit_entries(before, Page::new(limit).unwrap()).await.unwrap()
}

pub async fn audit_entries_are_kept_as_given_and_read_newest_first(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    assert_eq!(newest(&a, None, 10).await, []);
    let silent = AuditEntry {
        author: AuditAuthor::command_line(),
        action: AuditedAction::ReplayEvents,
        reason: None,
        ..entry("second")
    };
    a.record_audit(&entry("first")).await.unwrap();
    b.record_audit(&silent).await.unwrap();
    a.record_audit(&entry("third")).await.unwrap();
    let found = newest(&b, None, 2).await;
    let subjects: Vec<_> = found.iter().map(|entry| entry.subject.as_str()).collect();
    assert_eq!(subjects, ["third", "second"]);
    assert!(found[0].number > found[1].number && found[0].at >= found[1].at);
    for (stored, given) in found.iter().zip([entry("third"), silent]) {
        let AuditEntry { author, action, reason, .. } = given;
        let known = (&stored.author, stored.action.as_str(), &stored.reason);
        assert_eq!(known, (&author, action.name(), &reason));
    }
    let rest = newest(&a, Some(found[1].number), 10).await;
    assert_eq!(rest.iter().map(|entry| entry.subject.as_str()).collect::<Vec<_>>(), ["first"]);
}

pub async fn old_audit_entries_are_forgotten_oldest_first(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    for subject in ["first", "second", "third"] {
        a.record_audit(&entry(subject)).await.unwrap();
    }
    let two = Page::new(2).unwrap();
    assert_eq!(a.forget_audit(Duration::from_secs(3_600), two).await.unwrap(), 0);
    assert_eq!(a.forget_audit(Duration::ZERO, two).await.unwrap(), 2);
    let left = newest(&a, None, 10).await;
    assert_eq!(left.iter().map(|entry| entry.subject.as_str()).collect::<Vec<_>>(), ["third"]);
    a.record_audit(&entry("fourth")).await.unwrap();
    let all = newest(&a, None, 10).await;
    assert!(all[0].number > left[0].number, "numbers are not used again");
}

pub async fn author_of_a_create_stands_in_the_first_entry_of_its_history(
    fixture: &dyn StoreFixture,
) {
    let (a, lease) = fixture.owner().await;
    let author = Text::lossy("key:aaaaaaaaaaaa billing from 10.0.0.7");
    let mut by_key = intent().at(0);
    by_key.author = Some(author.clone());
    let by_nobody = intent().at(1);
    let ids = (by_key.tx_id, by_nobody.tx_id);
    a.write_whole(section(lease).cursor(0, 2).create(by_key).create(by_nobody)).await;
    let first = a.history(ids.0, 0, full_page()).await.unwrap().remove(0);
    assert_eq!((first.event.as_str(), first.version), ("created", 1));
    assert_eq!(first.detail.unwrap().as_str(), author.as_str());
    assert_eq!(a.history(ids.1, 0, full_page()).await.unwrap()[0].detail, None);
}
