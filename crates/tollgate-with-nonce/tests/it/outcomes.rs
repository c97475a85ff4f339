//! What becomes of a nonce, however its closure ends.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tollgate_model::port::ReservationState::{Recyclable, Reserved};
use tollgate_model::port::signer::Signer;
use with_nonce::{BadUrl, Client, ClientError, SlotError, WithNonceError};

use crate::site::{Site, account, signer, transfer};

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("my own")]
    Mine,
    #[error(transparent)]
    Slot(#[from] SlotError),
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_signs_and_sends_is_mined_beside_managed_transactions() {
    let site = Site::new().await;
    assert_eq!(site.managed(100).await, 0);
    let client = site.client();
    let sent = client.with_nonce(account(), signer(), |slot| async {
        let slot = slot;
        let signed = slot.sign(transfer(101)).await?;
        site.send(&signed.raw).await;
        Ok::<_, Trouble>((slot.nonce().get(), signed.tx_hash))
    });
    let (nonce, _) = sent.await.unwrap();
    assert_eq!(nonce, 1);
    assert_eq!(site.managed(102).await, 2);
    assert_eq!(site.out().await, [], "used");
    site.mine_until(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_fails_before_signing_gives_the_nonce_back_at_once() {
    let site = Site::new().await;
    let client = site.client();
    let failed = client.with_nonce(account(), signer(), |_slot| async {
        assert_eq!(site.out().await, [(0, Reserved)]);
        Err::<(), _>(Trouble::Mine)
    });
    let failed = failed.await;
    assert!(
        matches!(failed, Err(WithNonceError::Unused { nonce, .. }) if nonce.get() == 0),
        "{failed:?}"
    );
    assert_eq!(site.out().await, [(0, Recyclable)]);
    assert_eq!(site.managed(100).await, 0, "the lowest goes to the next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_ends_well_without_signing_gives_the_nonce_back() {
    let site = Site::new().await;
    let client = site.client();
    let done = client.with_nonce(account(), signer(), |slot| async move { Ok::<_, Trouble>(slot) });
    let late = done.await.unwrap();
    assert_eq!(site.out().await, [(0, Recyclable)]);
    assert_eq!(late.sign(transfer(1)).await, Err(SlotError::Stale), "its time is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_fails_after_signing_keeps_the_nonce_and_says_so() {
    let site = Site::new().await;
    let client = site.client();
    let failed = client.with_nonce(account(), signer(), |slot| async move {
        slot.sign(transfer(100)).await?;
        let twice = slot.sign(transfer(101)).await;
        assert_eq!(twice, Err(SlotError::AlreadySigned), "one signature, one transaction");
        Err::<(), _>(Trouble::Mine)
    });
    let Err(WithNonceError::MaybeSent { nonce, signed, error: Trouble::Mine }) = failed.await
    else {
        panic!("it may be sent");
    };
    assert_eq!((nonce.get(), site.out().await), (0, vec![]), "I3: nobody else gets it");
    assert_eq!(site.managed(101).await, 1);
    site.send(&signed.raw).await;
    site.mine_until(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_signed_elsewhere_is_taken_for_its_own_slot_only() {
    let site = Site::new().await;
    let client = site.client();
    let done = client.with_nonce(account(), signer(), |slot| async {
        let slot = slot;
        let draft = |nonce: u64| tollgate_model::port::signer::TxDraft {
            chain_id: slot.chain_id(),
            from: account(),
            nonce: tollgate_model::Nonce::new(nonce).unwrap(),
            to: Some(account()),
            value: transfer(5).value,
            data: transfer(5).data,
            access_list: Vec::new(),
            fees: transfer(5).fees,
            kind: transfer(5).kind,
        };
        let mut signed = signer().sign(vec![draft(7), draft(0)]).await;
        let (mine, other) = (signed.remove(1).unwrap(), signed.remove(0).unwrap());
        let refused = slot.take(other.raw).await;
        assert!(matches!(refused, Err(SlotError::OtherSlot(_))), "{refused:?}");
        assert_eq!(slot.take(mine.raw.clone()).await, Ok(mine.clone()));
        site.send(&mine.raw).await;
        Ok::<_, Trouble>(())
    });
    done.await.unwrap();
    site.mine_until(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_resolved_by_asking_again() {
    let site = Site::new().await;
    site.weather.lost.store(2, Ordering::SeqCst);
    let client = site.client();
    let done = client.with_nonce(account(), signer(), |slot| async move {
        slot.sign(transfer(100)).await?;
        Ok::<_, Trouble>(())
    });
    done.await.unwrap();
    assert_eq!(site.out().await, [], "it was used once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tollgate_was_not_told_is_not_handed_out_and_can_be_settled_later() {
    let site = Site::new().await;
    site.weather.swallowed.store(3, Ordering::SeqCst);
    let client = site.client();
    let failed = client.with_nonce(account(), signer(), |slot| async move {
        slot.sign(transfer(100)).await?;
        Ok::<_, Trouble>(())
    });
    let Err(WithNonceError::Unsettled { reservation, signed, error }) = failed.await else {
        panic!("nobody knows");
    };
    assert!(matches!(error, Trouble::Slot(SlotError::Untold { .. })), "{error}");
    assert_eq!(site.out().await, [(0, Reserved)]);
    client.used(&reservation, signed.tx_hash).await.unwrap();
    site.send(&signed.raw).await;
    site.mine_until(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passed_stops_the_signature_from_getting_out() {
    let site = Site::new().await;
    let client = site.client().with_hold(std::time::Duration::from_secs(1));
    let failed = client.with_nonce(account(), signer(), |slot| async {
        let slot = slot;
        site.until_out(&[(0, Recyclable)]).await;
        assert_eq!(site.managed(100).await, 0, "somebody else has it");
        let late = slot.sign(transfer(101)).await;
        assert_eq!(late, Err(SlotError::Stale), "I3: a late `used` is refused");
        Err::<(), _>(late.unwrap_err())
    });
    assert!(matches!(failed.await, Err(WithNonceError::Unused { .. })));
    site.mine_until(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_at_once_never_get_the_same_nonce() {
    let site = Site::new().await;
    let runs = (0..20).map(|wei| {
        let (client, site) = (site.client(), &site);
        async move {
            let sent = client.with_nonce(account(), signer(), |slot| async {
                let slot = slot;
                let signed = slot.sign(transfer(wei)).await?;
                site.send(&signed.raw).await;
                Ok::<_, Trouble>(slot.nonce().get())
            });
            sent.await.unwrap()
        }
    });
    let mut nonces = join_all(runs).await;
    nonces.sort_unstable();
    assert!(nonces.into_iter().eq(0..20), "I3");
    site.mine_until(20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_nonce_the_closure_does_not_run() {
    let nobody = Client::new("http://127.0.0.1:1").unwrap().with_patience(crate::site::HASTY);
    let run = nobody.with_nonce(account(), signer(), |_slot| async {
        panic!("there is no slot");
        #[expect(unreachable_code, reason = "names the types")]
        Ok::<(), Trouble>(())
    });
    let failed = run.await;
    assert!(
        matches!(failed, Err(WithNonceError::NotReserved(ClientError::NoAnswer(_)))),
        "{failed:?}"
    );
    let site = Site::new().await;
    let stranger = tollgate_model::Address::repeat_byte(9);
    let refused = site.client().reserve(stranger).await;
    let Err(ClientError::Refused { code, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(code, "unknown_submitter");
    assert!(matches!(Client::new("ftp://x"), Err(BadUrl(_))));
}
