//! `tollgate keys`: the folder that it makes is the one that a node opens.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use alloy_primitives::hex;
use serde_json::Value;
use tollgate_devchain::dev_accounts;
use tollgate_model::port::signer::Signer;
use tollgate_signer::LocalSigner;

use crate::program::{Ran, command};

/// A folder with a password and room for keystores.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "correct horse\n").unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn keys(&self, args: &[&str]) -> Ran {
        let file = self.path("password");
        Ran::of(command().arg("keys").args(args).env("TOLLGATE_KEYSTORE_PASSWORD_FILE", file))
    }
}

#[test]
fn new_keys_are_encrypted_listed_and_opened_by_a_node() {
    let place = Place::new();
    let folder = place.path("keystore");
    let made = place.keys(&["new", &folder, "--count", "2"]);
    assert_eq!((made.code, made.err.as_str()), (Some(0), ""), "{made:?}");
    let mut accounts: Vec<&str> = made.out.lines().collect();
    assert!(accounts.len() == 2 && accounts[0] != accounts[1], "{made:?}");
    let listed = Ran::of(command().args(["keys", "list", &folder, "--json"]));
    let mut of_list: Vec<String> = Vec::new();
    for line in listed.out.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        of_list.push(line["account"].as_str().unwrap().to_owned());
        let file = Path::new(&folder).join(line["file"].as_str().unwrap());
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "readable by its owner alone");
    }
    accounts.sort_unstable();
    of_list.sort_unstable();
    assert_eq!(of_list, accounts);
    let table = Ran::of(command().args(["keys", "list", &folder]));
    assert!(table.out.contains(accounts[0]), "{table:?}");
    let signer = LocalSigner::from_keystore_dir(Path::new(&folder), "correct horse").unwrap();
    let mut opened: Vec<String> = signer.accounts().iter().map(ToString::to_string).collect();
    opened.sort_unstable();
    assert_eq!(opened, accounts);
}

#[test]
fn imported_key_is_the_same_account_and_is_never_printed() {
    let place = Place::new();
    let (folder, file) = (place.path("keystore"), place.path("keys"));
    let known = dev_accounts()[0];
    let secret = hex::encode(known.private_key);
    std::fs::write(&file, format!("# the old wallet\n0x{secret}\n")).unwrap();
    let imported = place.keys(&["import", &folder, "--key-file", &file]);
    assert_eq!(imported.out, format!("{}\n", known.address), "{imported:?}");
    let again = place.keys(&["import", &folder, "--key-file", &file]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("already") && again.out.is_empty(), "{again:?}");
    std::fs::write(&file, format!("{secret}00\n")).unwrap();
    let bad = place.keys(&["import", &folder, "--key-file", &file]);
    assert!(bad.code == Some(1) && bad.err.contains(":1: must be 64 hex digits"), "{bad:?}");
    for ran in [imported, again, bad] {
        assert!(!format!("{ran:?}").contains(&secret));
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    assert!(
        files.map(|path| std::fs::read_to_string(path).unwrap()).all(|it| !it.contains(&secret))
    );
}

#[test]
fn key_is_added_with_the_password_of_the_folder_only() {
    let place = Place::new();
    let folder = place.path("keystore");
    assert_eq!(place.keys(&["new", &folder]).code, Some(0));
    std::fs::write(place.path("password"), "another\n").unwrap();
    let refused = place.keys(&["new", &folder]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.err.contains("one password"), "{refused:?}");
    let nobody = Ran::of(command().args(["keys", "new", &folder]));
    assert!(nobody.code == Some(1) && nobody.err.contains("--password-file"), "{nobody:?}");
    std::fs::write(place.path("password"), "\n").unwrap();
    let empty = place.keys(&["new", &place.path("other")]);
    assert!(empty.code == Some(1) && empty.err.contains("empty"), "{empty:?}");
}
