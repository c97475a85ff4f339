//! Signatures match those of other implementations, keystores decrypt, and no key is ever printed.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::time::Instant;

use tollgate_model::authorization::{Authorization, AuthorizationSignature};
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{AccessListEntry, SignError, Signer, TxDraft, TxKind};
use tollgate_model::{Address, B256, ChainId, GasPrice, Nonce, U256, Wei};
use tollgate_signer::{
    BadKey, Key, LocalSigner, RecoverError, authorized_by, keystore, read_key_file, recover,
};

const SECRET: &str = "4646464646464646464646464646464646464646464646464646464646464646";

fn signer() -> LocalSigner {
    LocalSigner::new([Key::from_hex(SECRET).unwrap()])
}

fn gwei(gwei: u128) -> GasPrice {
    GasPrice::from_wei(gwei * 1_000_000_000).unwrap()
}

/// The example of EIP-155.
fn legacy() -> TxDraft {
    TxDraft {
        chain_id: ChainId::new(1).unwrap(),
        from: "0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F".parse().unwrap(),
        nonce: Nonce::new(9).unwrap(),
        to: Some(Address::repeat_byte(0x35)),
        value: Wei(U256::from(10).pow(U256::from(18))),
        data: Default::default(),
        access_list: Vec::new(),
        authorizations: Vec::new(),
        fees: Fees { gas_limit: 21_000, max_fee: gwei(20), max_priority_fee: None },
        kind: TxKind::Legacy,
    }
}

fn access_list() -> Vec<AccessListEntry> {
    let storage_keys = vec![B256::with_last_byte(1), B256::repeat_byte(0xff)];
    vec![AccessListEntry { address: Address::repeat_byte(0x12), storage_keys }]
}

fn with_access_list() -> TxDraft {
    TxDraft {
        chain_id: ChainId::new(137).unwrap(),
        nonce: Nonce::new(7).unwrap(),
        value: Wei(U256::from(5)),
        data: alloy_primitives::bytes!("deadbeef"),
        access_list: access_list(),
        fees: Fees { gas_limit: 60_000, max_fee: gwei(3), max_priority_fee: None },
        kind: TxKind::AccessList,
        ..legacy()
    }
}

fn dynamic() -> TxDraft {
    let mut data = vec![0; 68];
    data[..4].copy_from_slice(&[0xa9, 0x05, 0x9c, 0xbb]);
    TxDraft {
        nonce: Nonce::new(1_234_567).unwrap(),
        data: data.into(),
        access_list: access_list(),
        fees: Fees { gas_limit: 100_000, max_fee: gwei(30), max_priority_fee: Some(gwei(0)) },
        kind: TxKind::DynamicFee,
        ..legacy()
    }
}

/// An authorization without a signature.
fn authorization(nonce: u64) -> Authorization {
    Authorization {
        chain_id: 1,
        address: Address::repeat_byte(0x22),
        nonce,
        authority: legacy().from,
        signature: None,
    }
}

fn authorized(nonce: u64) -> Authorization {
    let item = authorization(nonce);
    let signing = signer();
    let mut signing = std::pin::pin!(signing.authorize(&item));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(signature) = signing.as_mut().poll(&mut context) else {
        panic!("a local signer answers at once");
    };
    Authorization { signature: Some(signature.unwrap()), ..item }
}

fn set_code() -> TxDraft {
    let authorizations = vec![authorized(0), authorized(127), authorized(128)];
    TxDraft { kind: TxKind::SetCode, authorizations, ..dynamic() }
}

#[test]
fn set_code_transaction_is_read_back_with_its_authorizations() {
    let draft = set_code();
    let raw = signer().sign_one(&draft).unwrap().raw;
    assert_eq!(raw[0], 4);
    assert_eq!(recover(&raw, draft.chain_id).unwrap().draft, draft, "authorities are recovered");
}

#[test]
fn hash_of_an_authorization_is_that_of_alloy() {
    for (chain_id, nonce) in [(0, 0), (1, 127), (127, 128), (31_337, 255), (u64::MAX, 1 << 40)] {
        let item = Authorization { chain_id, ..authorization(nonce) };
        let theirs = alloy_eips::eip7702::Authorization {
            chain_id: U256::from(chain_id),
            address: item.address,
            nonce,
        };
        assert_eq!(item.hash(), theirs.signature_hash(), "{chain_id} {nonce}");
    }
}

#[test]
fn authorization_with_a_malleable_signature_or_the_last_nonce_has_no_effect() {
    let item = authorized(7);
    assert_eq!(authorized_by(item.clone()), Some(item.clone()));
    let AuthorizationSignature { y_parity, r, s } = item.signature.unwrap();
    let order: U256 =
        "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141".parse().unwrap();
    let high = AuthorizationSignature { y_parity: !y_parity, r, s: order - s };
    assert_eq!(authorized_by(Authorization { signature: Some(high), ..item }), None);
    assert_eq!(authorized_by(authorized(u64::MAX)), None);
}

fn creation() -> TxDraft {
    TxDraft {
        chain_id: ChainId::new(31_337).unwrap(),
        nonce: Nonce::new(0).unwrap(),
        to: None,
        value: Wei(U256::ZERO),
        data: alloy_primitives::bytes!("6001600055"),
        fees: Fees { gas_limit: 100_000, max_fee: gwei(30), max_priority_fee: Some(gwei(2)) },
        kind: TxKind::DynamicFee,
        ..legacy()
    }
}

/// The first is published in EIP-155; the others were signed by another implementation
/// (eth-account for Python) from the same fields.
fn vectors() -> [(TxDraft, &'static str, &'static str); 4] {
    [
        (
            legacy(),
            "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025\
             a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb7\
             03304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
            "33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788",
        ),
        (
            with_access_list(),
            "01f8c681890784b2d05e0082ea609435353535353535353535353535353535353535350584deadbeeff85bf8\
             59941212121212121212121212121212121212121212f842a000000000000000000000000000000000000000\
             00000000000000000000000001a0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
             ffff01a09c2799b40aa181fafe9b353ebd53a3ff4651cf5bc148f3127b176c9075d37e0da010a3335d96eafd\
             2d98e329e864cbded0a7b0089b0859dc193c4e81c1cc6b0453",
            "d4ab2a11e0f6e2c2125fc0a1f02592bd8f672985b5008efd62a10c316faa27cd",
        ),
        (
            creation(),
            "02f85f827a698084773594008506fc23ac00830186a08080856001600055c001a0d419ad684e41380a3eb14f\
             ff05fe8f2219f26b9762cb82848485a923bbd0a07aa02b43ffa83f05fd8908140e1c508aee1dff47ad9ef1ce\
             f3720e5e9175e2e27ef9",
            "bca47286719154dbdd48502407caf2222e91295078ddac9b2beba6d393e415a9",
        ),
        (
            dynamic(),
            "02f90114018312d687808506fc23ac00830186a0943535353535353535353535353535353535353535880de0\
             b6b3a7640000b844a9059cbb0000000000000000000000000000000000000000000000000000000000000000\
             0000000000000000000000000000000000000000000000000000000000000000f85bf8599412121212121212\
             12121212121212121212121212f842a000000000000000000000000000000000000000000000000000000000\
             00000001a0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff01a0abb6ef62f5\
             09693b63460028ba141cc92c4f2ff6f9c921b9dd8b1aadf0735ec8a00b601b81a9c7c4276a16c898ce7bd1c6\
             23c8d2c9728686c234369f5c0a7f3416",
            "06627d5cfb824ba5e8567de3258256d67eca77563a0d6d4f5a7518c9cb8391e6",
        ),
    ]
}

#[tokio::test]
async fn signed_bytes_match_other_implementations() {
    for (draft, raw, hash) in vectors() {
        let signed = signer().sign(vec![draft]).await.remove(0).unwrap();
        assert_eq!(alloy_primitives::hex::encode(&signed.raw), raw);
        assert_eq!(alloy_primitives::hex::encode(signed.tx_hash), hash);
    }
}

#[test]
fn recover_returns_the_signed_draft() {
    for (draft, ..) in vectors() {
        let signed = signer().sign_one(&draft).unwrap();
        let read = recover(&signed.raw, draft.chain_id).unwrap();
        assert_eq!((read.tx_hash, read.draft), (signed.tx_hash, draft));
    }
}

#[tokio::test]
async fn inconsistent_draft_is_refused() {
    let tip = |tip| Fees { max_priority_fee: tip, ..dynamic().fees };
    let drafts = vec![
        TxDraft { fees: tip(None), ..dynamic() },
        TxDraft { kind: TxKind::SetCode, ..dynamic() },
        TxDraft { authorizations: vec![authorization(7)], ..dynamic() },
        TxDraft { to: None, ..set_code() },
        TxDraft { authorizations: vec![authorization(7)], ..set_code() },
        TxDraft { fees: tip(Some(gwei(31))), ..dynamic() },
        TxDraft { access_list: access_list(), ..legacy() },
        TxDraft { fees: tip(Some(gwei(1))), ..legacy() },
        TxDraft { fees: tip(Some(gwei(1))), ..with_access_list() },
    ];
    for answer in signer().sign(drafts).await {
        assert!(matches!(answer, Err(SignError::Invalid(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn batch_with_one_bad_draft_signs_the_others() {
    let stranger = Address::repeat_byte(9);
    let drafts = vec![legacy(), TxDraft { from: stranger, ..legacy() }, dynamic()];
    let answers = signer().sign(drafts).await;
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(answers[1], Err(SignError::NoKey(stranger)));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_batch_is_signed_in_order() {
    let others = (1..=5).map(|byte| Key::from_bytes(&[byte; 32]).unwrap());
    let signer = signer().and(LocalSigner::new(others));
    let accounts = signer.accounts();
    let drafts: Vec<_> = (0..10_000)
        .map(|at| TxDraft {
            from: accounts[at % accounts.len()],
            nonce: Nonce::new(at as u64).unwrap(),
            ..creation()
        })
        .collect();
    let begun = Instant::now();
    let answers = signer.sign(drafts.clone()).await;
    let took = begun.elapsed();
    println!("{:.0} signatures/s", drafts.len() as f64 / took.as_secs_f64());
    assert_eq!(answers.len(), drafts.len());
    for (answer, draft) in answers.iter().zip(&drafts).step_by(97) {
        let signed = answer.as_ref().unwrap();
        assert_eq!(recover(&signed.raw, draft.chain_id).unwrap().draft, *draft);
    }
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn large_batch_does_not_block_the_runtime() {
    // One thread runs everything: were it blocked, the timer would not fire before the end.
    let signer = signer();
    let drafts = vec![creation(); 20_000];
    let signing = signer.sign(drafts);
    tokio::pin!(signing);
    let mut ticks = 0;
    loop {
        tokio::select! {
            answers = &mut signing => break assert!(answers.iter().all(Result::is_ok)),
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => ticks += 1,
        }
    }
    assert!(ticks > 5, "{ticks}");
}

#[test]
fn key_given_twice_with_or_without_prefix_is_one_account() {
    let texts = [SECRET, &format!(" 0x{SECRET} "), &format!("0X{}", SECRET.replace('4', "5"))];
    let signer = LocalSigner::new(texts.map(|text| Key::from_hex(text).unwrap()));
    assert_eq!(signer.accounts().len(), 2);
}

#[test]
fn key_file_above_its_size_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, SECRET).unwrap();
    assert_eq!(*read_key_file(&path).unwrap(), SECRET);
    std::fs::write(&path, "#".repeat(4 * 1024 * 1024 + 1)).unwrap();
    let error = read_key_file(&path).unwrap_err().to_string();
    assert!(error.ends_with("keys: longer than 4194304 bytes"), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert!(read_key_file(&path).unwrap_err().to_string().contains("keys: No such file"));
}

#[test]
fn malformed_key_is_refused_with_the_reason() {
    assert_eq!(Key::from_hex("").unwrap_err(), BadKey::NotHex);
    assert_eq!(Key::from_hex(&SECRET[1..]).unwrap_err(), BadKey::NotHex);
    assert_eq!(Key::from_hex(&"0".repeat(64)).unwrap_err(), BadKey::OutOfRange);
    assert_eq!(Key::from_hex(&"f".repeat(64)).unwrap_err(), BadKey::OutOfRange);
}

/// The two examples of the format's definition (Web3 Secret Storage).
const PBKDF2: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2",
"kdfparams":{"c":262144,"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;
const SCRYPT: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"83dbcc02d8ccb40e466191a123791e0e"},
"ciphertext":"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c","kdf":"scrypt",
"kdfparams":{"dklen":32,"n":262144,"p":8,"r":1,"salt":"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"},
"mac":"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;

#[test]
fn keystore_examples_of_the_specification_decrypt() {
    let key =
        Key::from_hex("7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d").unwrap();
    for json in [PBKDF2, SCRYPT] {
        assert_eq!(keystore::decrypt(json, "testpassword").unwrap().address(), key.address());
    }
}

/// The first two accounts of the dev chain, cheap to decrypt.
const LIGHT: &str = include_str!("../fixtures/keystore.json");
const LIGHT_2: &str = include_str!("../fixtures/keystore_2.json");
const LIGHT_PASSWORD: &str = "hunter2hunter2";

#[test]
fn keystore_with_another_password_or_address_is_refused() {
    let wrong = keystore::decrypt(LIGHT, "battery staple").unwrap_err();
    assert_eq!(wrong, keystore::KeystoreError::WrongPassword);
    let other = LIGHT.replace("f39fd6e5", "039fd6e5");
    let other = keystore::decrypt(&other, LIGHT_PASSWORD).unwrap_err();
    assert!(matches!(other, keystore::KeystoreError::OtherAccount { .. }), "{other}");
}

#[test]
fn keystore_folder_decrypts_as_a_whole_or_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("UTC--one"), LIGHT).unwrap();
    std::fs::write(folder.path().join("two.json"), LIGHT_2).unwrap();
    std::fs::write(folder.path().join(".hidden"), "not a keystore").unwrap();
    let open = |password| LocalSigner::from_keystore_dir(folder.path(), password);
    let refused = open("no").unwrap_err().to_string();
    assert!(refused.contains("UTC--one") && refused.contains("wrong password"), "{refused}");
    assert_eq!(open(LIGHT_PASSWORD).unwrap().accounts().len(), 2);
}

#[test]
fn keystore_above_its_cost_limits_is_refused() {
    let dear = [
        SCRYPT.replace("262144", "1073741824"),
        SCRYPT.replace(r#""p":8"#, r#""p":4000"#),
        SCRYPT.replace("262144", "262143"),
        SCRYPT.replace("262144", "0"),
        PBKDF2.replace("262144", "4294967295"),
        PBKDF2.replace("262144", "0"),
    ];
    for json in dear {
        let error = keystore::decrypt(&json, "testpassword").unwrap_err();
        assert_eq!(error, keystore::KeystoreError::TooCostly);
    }
    let odd = [
        (SCRYPT.replace("aes-128-ctr", "rot13"), "rot13"),
        (SCRYPT.replace(r#""version":3"#, r#""version":1"#), "version 1"),
        (SCRYPT.replace(r#""kdf":"scrypt""#, r#""kdf":"argon2""#), "argon2"),
        (SCRYPT.replace("83dbcc02", "83dbcc"), "iv"),
        ("{}".to_owned(), "line 1"),
    ];
    for (json, says) in odd {
        let error = keystore::decrypt(&json, "testpassword").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn key_is_never_printed() {
    let key = Key::from_hex(SECRET).unwrap();
    let signer = signer();
    let wrong_file = SCRYPT.replace("d172bf743a", SECRET);
    let mut printed = vec![
        format!("{key:?} {key:#?}"),
        format!("{signer:?} {signer:#?}"),
        format!("{:?}", keystore::decrypt(&wrong_file, SECRET).unwrap_err()),
        format!("{:?}", keystore::decrypt(&format!("{{\"{SECRET}\""), SECRET).unwrap_err()),
    ];
    for bad in [format!("{SECRET}46"), format!("{}zz", &SECRET[2..]), format!("{SECRET}\u{1}")] {
        let error = Key::from_hex(&bad).unwrap_err();
        printed.push(format!("{error} {error:?} {error:#?}"));
    }
    let bad = TxDraft { access_list: access_list(), ..legacy() };
    let drafts = vec![legacy(), bad, TxDraft { from: Address::ZERO, ..legacy() }];
    printed.extend(signer.sign(drafts).await.iter().map(|answer| format!("{answer:?}")));
    for text in printed {
        let text = text.to_lowercase();
        assert!(!text.contains("46464646"), "{text}");
        assert!(!text.contains("70, 70, 70"), "{text}");
    }
}

#[test]
fn unsupported_signed_bytes_are_refused_with_the_reason() {
    let mainnet = ChainId::new(1).unwrap();
    let raw = |draft: &TxDraft| signer().sign_one(draft).unwrap().raw.to_vec();
    let refused = |raw: &[u8]| recover(raw, mainnet).unwrap_err();

    assert_eq!(refused(&[3, 0xc0]), RecoverError::Blob);
    assert!(matches!(refused(&[4, 0xc0]), RecoverError::Malformed(_)));
    assert_eq!(refused(&[0x7e, 0xc0]), RecoverError::UnknownType(0x7e));
    assert_eq!(refused(&[0, 0xc0]), RecoverError::UnknownType(0));
    assert!(matches!(refused(&[]), RecoverError::Malformed(_)));
    assert!(matches!(refused(b"\xc0garbage"), RecoverError::Malformed(_)));
    assert!(matches!(refused(&[0xff; 40]), RecoverError::Malformed(_)));
    assert!(matches!(refused(&[2; 300_000]), RecoverError::TooLarge(300_000)));
    let wrong = RecoverError::WrongChain { expected: mainnet, found: 137 };
    assert_eq!(refused(&raw(&with_access_list())), wrong);
    let mut longer = raw(&dynamic());
    longer.push(0);
    assert!(matches!(refused(&longer), RecoverError::Malformed(_)));
    for cut in 0..raw(&dynamic()).len() {
        let _ = refused(&raw(&dynamic())[..cut]);
    }

    // The example of EIP-155 with v = 27: signed as before EIP-155.
    let mut old = raw(&legacy());
    let at = old.iter().position(|byte| *byte == 0x25).unwrap();
    old[at] = 27;
    assert_eq!(refused(&old), RecoverError::NoReplayProtection);

    // The malleable form: s' = n - s, and the other parity.
    let order = U256::from_str_radix(
        "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
        16,
    );
    let mut high_s = raw(&legacy());
    let s_at = high_s.len() - 32;
    let s = order.unwrap() - U256::from_be_slice(&high_s[s_at..]);
    high_s[s_at..].copy_from_slice(&s.to_be_bytes::<32>());
    high_s[at] = 0x26;
    assert_eq!(refused(&high_s), RecoverError::BadSignature);
}

#[test]
fn encrypted_key_is_decrypted_with_its_password_only() {
    let key = Key::from_hex(SECRET).unwrap();
    let fresh =
        |byte: u8| keystore::Freshness { salt: [byte; 32], iv: [byte; 16], id: "x".to_owned() };
    let json = keystore::encrypt(&key, "correct horse", &fresh(1)).unwrap();
    assert!(!json.contains(SECRET), "{json}");
    let opened = keystore::decrypt(&json, "correct horse").unwrap();
    assert_eq!(opened.address(), key.address());
    let wrong = keystore::decrypt(&json, "wrong horse").unwrap_err();
    assert_eq!(wrong, keystore::KeystoreError::WrongPassword);
    assert_ne!(json, keystore::encrypt(&key, "correct horse", &fresh(2)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), &json).unwrap();
    std::fs::write(folder.path().join("b"), "no keystore").unwrap();
    let listed = tollgate_signer::accounts_in_keystore_dir(folder.path()).unwrap();
    let accounts: Vec<_> = listed.iter().map(|(_, account)| *account).collect();
    assert_eq!(accounts, [Some(key.address()), None]);
}
