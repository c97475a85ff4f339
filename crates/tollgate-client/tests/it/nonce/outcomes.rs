//! The state of a nonce after its closure, however the closure ends.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tollgate_client::nonce::{SlotError, WithNonceError};
use tollgate_client::{Client, ClientError};
use tollgate_model::port::ReservationState::{Recyclable, Reserved};
use tollgate_model::port::signer::Signer;

use super::site::{Site, account, signer, transfer};

#[derive(Debug, thiserror::Error)]
enum TestError {
    #[error("the closure's own")]
    Own,
    #[error(transparent)]
    Slot(#[from] SlotError),
}

#[tokio::test(flavor = "multi_thread")]
async fn closure_that_signs_and_sends_is_mined_among_managed_transactions() {
    let site = Site::new().await;
    assert_eq!(site.managed(100).await, 0);
    let client = site.client();
    let sent = client.with_nonce(account(), signer(), |slot| async {
        let slot = slot;
        let signed = slot.sign(transfer(101)).await?;
        site.send(&signed.raw).await;
        Ok::<_, TestError>((slot.nonce().get(), signed.tx_hash))
    });
    let (nonce, _) = sent.await.unwrap();
    assert_eq!(nonce, 1);
    assert_eq!(site.managed(102).await, 2);
    assert_eq!(site.out().await, [], "used");
    site.mine_until(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closure_failing_before_signing_returns_the_nonce_at_once() {
    let site = Site::new().await;
    let client = site.client();
    let failed = client.with_nonce(account(), signer(), |_slot| async {
        assert_eq!(site.out().await, [(0, Reserved)]);
        Err::<(), _>(TestError::Own)
    });
    let failed = failed.await;
    assert!(
        matches!(failed, Err(WithNonceError::Unused { nonce, .. }) if nonce.get() == 0),
        "{failed:?}"
    );
    assert_eq!(site.out().await, [(0, Recyclable)]);
    assert_eq!(site.managed(100).await, 0, "the lowest nonce is reused first");
}

#[tokio::test(flavor = "multi_thread")]
async fn closure_succeeding_without_signing_returns_the_nonce() {
    let site = Site::new().await;
    let client = site.client();
    let done =
        client.with_nonce(account(), signer(), |slot| async move { Ok::<_, TestError>(slot) });
    let late = done.await.unwrap();
    assert_eq!(site.out().await, [(0, Recyclable)]);
    assert_eq!(
        late.sign(transfer(1)).await,
        Err(SlotError::Stale),
        "the slot has ended with its closure"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn closure_failing_after_signing_keeps_the_nonce_used() {
    let site = Site::new().await;
    let client = site.client();
    let failed = client.with_nonce(account(), signer(), |slot| async move {
        slot.sign(transfer(100)).await?;
        let twice = slot.sign(transfer(101)).await;
        assert_eq!(twice, Err(SlotError::AlreadySigned), "one signature, one transaction");
        Err::<(), _>(TestError::Own)
    });
    let Err(WithNonceError::MaybeSent { nonce, signed, error: TestError::Own }) = failed.await
    else {
        panic!("expected MaybeSent");
    };
    assert_eq!((nonce.get(), site.out().await), (0, vec![]), "I3: nobody else gets it");
    assert_eq!(site.managed(101).await, 1);
    site.send(&signed.raw).await;
    site.mine_until(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_signed_elsewhere_are_adopted_for_their_own_slot_only() {
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
            authorizations: Vec::new(),
            fees: transfer(5).fees,
            kind: transfer(5).kind,
        };
        let mut signed = signer().sign(vec![draft(7), draft(0)]).await;
        let (mine, other) = (signed.remove(1).unwrap(), signed.remove(0).unwrap());
        let refused = slot.adopt(other.raw).await;
        assert!(matches!(refused, Err(SlotError::OtherSlot(_))), "{refused:?}");
        assert_eq!(slot.adopt(mine.raw.clone()).await, Ok(mine.clone()));
        site.send(&mine.raw).await;
        Ok::<_, TestError>(())
    });
    done.await.unwrap();
    site.mine_until(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answer_is_resolved_by_repeating_the_report() {
    let site = Site::new().await;
    site.faults.lost.store(2, Ordering::SeqCst);
    let client = site.client();
    let done = client.with_nonce(account(), signer(), |slot| async move {
        slot.sign(transfer(100)).await?;
        Ok::<_, TestError>(())
    });
    done.await.unwrap();
    assert_eq!(site.out().await, [], "it was used once");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_report_withholds_the_bytes_and_can_be_repeated_later() {
    let site = Site::new().await;
    site.faults.swallowed.store(3, Ordering::SeqCst);
    let client = site.client();
    let failed = client.with_nonce(account(), signer(), |slot| async move {
        slot.sign(transfer(100)).await?;
        Ok::<_, TestError>(())
    });
    let Err(WithNonceError::Unsettled { reservation, signed, error }) = failed.await else {
        panic!("expected Unsettled");
    };
    assert!(matches!(error, TestError::Slot(SlotError::NotReported { .. })), "{error}");
    assert_eq!(site.out().await, [(0, Reserved)]);
    client.used(&reservation, signed.tx_hash).await.unwrap();
    site.send(&signed.raw).await;
    site.mine_until(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn report_after_the_deadline_withholds_the_bytes() {
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
async fn concurrent_callers_never_get_the_same_nonce() {
    let site = Site::new().await;
    let runs = (0..20).map(|wei| {
        let (client, site) = (site.client(), &site);
        async move {
            let sent = client.with_nonce(account(), signer(), |slot| async {
                let slot = slot;
                let signed = slot.sign(transfer(wei)).await?;
                site.send(&signed.raw).await;
                Ok::<_, TestError>(slot.nonce().get())
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
async fn closure_without_reservation_does_not_run() {
    let nobody = Client::new(["http://127.0.0.1:1"]).unwrap().with_retry_policy(super::site::FAST);
    let run = nobody.with_nonce(account(), signer(), |_slot| async {
        panic!("there is no slot");
        #[expect(unreachable_code, reason = "names the types")]
        Ok::<(), TestError>(())
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
    assert!(matches!(Client::new(["ftp://x"]), Err(ClientError::InvalidConfig(_))));
}
