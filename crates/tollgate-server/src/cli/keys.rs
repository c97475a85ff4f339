//! `tollgate keys`: makes, imports and lists keys in a folder of encrypted keystores. Needs no node and no settings.
//!
//! A key is never printed and never written unencrypted. All keys of a folder have one password, because a node opens
//! the folder with one.

mod password;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_model::Address;
use tollgate_model::port::clock::Clock;
use tollgate_signer::keystore::{self, Freshness};
use tollgate_signer::{Key, accounts_in_keystore_dir, read_key_file};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::table::{Table, cell};
use crate::cli::output::outln;
use crate::clock::SystemClock;
use crate::failure::{Failure, io_reason};
use password::PasswordArgs;

/// Keys that are made at once (I13). Encrypting one takes a second.
const COUNT_MAX: u64 = 1_000;

#[derive(Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Make keys and print their addresses.
    New(NewArgs),
    /// Encrypt keys of a file into the folder.
    Import(ImportArgs),
    /// List the accounts of the folder; needs no password.
    List(ListArgs),
}

#[derive(Args)]
struct NewArgs {
    /// Folder of the keystores, `keys.keystore` of a node; made if it is missing.
    folder: PathBuf,
    /// Number of keys.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Args)]
struct ImportArgs {
    /// Folder of the keystores, `keys.keystore` of a node; made if it is missing.
    folder: PathBuf,
    /// File of private keys in hex, one in a line; lines that begin with # don't count.
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Args)]
struct ListArgs {
    /// Folder of the keystores.
    folder: PathBuf,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: KeysArgs) -> Result<ExitCode, Failure> {
    match args.command {
        KeysCommand::New(args) => {
            let folder = Folder::open(&args.folder, &args.password)?;
            for _ in 0..args.count {
                folder.add(&new_key()?)?;
            }
        }
        KeysCommand::Import(args) => {
            // All keys are read before the first is written.
            let keys = keys_in(&args.key_file)?;
            let folder = Folder::open(&args.folder, &args.password)?;
            folder.check_new(&keys)?;
            for key in &keys {
                folder.add(key)?;
            }
        }
        KeysCommand::List(args) => list(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A folder of keystores, and the password of all its keys.
struct Folder<'a> {
    path: &'a Path,
    password: Zeroizing<String>,
    accounts: Vec<Address>,
}

impl<'a> Folder<'a> {
    /// Opens or makes a folder. Fails if a key in it has another password.
    fn open(path: &'a Path, password: &PasswordArgs) -> Result<Self, Failure> {
        let named = |error: std::io::Error| format!("{}: {}", path.display(), io_reason(&error));
        make_private_folder(path).map_err(named)?;
        let listed = accounts_in_keystore_dir(path)?;
        let first = listed.iter().find(|(_, account)| account.is_some());
        let password = password.read(first.is_none())?;
        if let Some((file, _)) = first {
            let opened = keystore::decrypt(&read_key_file(file)?, &password);
            opened.map_err(|error| {
                format!("{}: {error}; all keys of a folder have one password", file.display())
            })?;
        }
        let accounts = listed.into_iter().filter_map(|(_, account)| account).collect();
        Ok(Self { path, password, accounts })
    }

    fn check_new(&self, keys: &[Key]) -> Result<(), Failure> {
        let known = keys.iter().map(Key::address).find(|account| self.accounts.contains(account));
        match known {
            Some(account) => Err(format!("{account} is in {} already", self.path.display()).into()),
            None => Ok(()),
        }
    }

    /// Writes a key and prints its address. The file appears whole or not at all.
    fn add(&self, key: &Key) -> Result<(), Failure> {
        let mut fresh = Freshness { salt: [0; 32], iv: [0; 16], id: Uuid::new_v4().to_string() };
        fill(&mut fresh.salt)?;
        fill(&mut fresh.iv)?;
        let json = keystore::encrypt(key, &self.password, &fresh)?;
        let path = self.path.join(file_name(key.address()));
        let named = |error: std::io::Error| format!("{}: {}", path.display(), io_reason(&error));
        // Hidden until it is whole, and readable by its owner alone.
        let mut file =
            tempfile::Builder::new().prefix(".new-").tempfile_in(self.path).map_err(named)?;
        file.write_all(json.as_bytes()).map_err(named)?;
        file.as_file().sync_all().map_err(named)?;
        file.persist_noclobber(&path).map_err(|failed| named(failed.error))?;
        outln!("{}", key.address());
        Ok(())
    }
}

/// A name as geth gives it: the time, and the address without `0x`.
fn file_name(account: Address) -> String {
    let time = tollgate_api::format_time(SystemClock.now()).replace(':', "-");
    format!("UTC--{time}--{}", alloy_primitives::hex::encode(account))
}

fn make_private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    let random = rustls::crypto::ring::default_provider().secure_random;
    Ok(random.fill(bytes).map_err(|_| "the system has no random numbers")?)
}

fn new_key() -> Result<Key, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    loop {
        fill(bytes.as_mut_slice())?;
        // One in 2^128 numbers is no key.
        if let Ok(key) = Key::from_bytes(&bytes) {
            return Ok(key);
        }
    }
}

/// The keys of a file. Errors name the line, never its content.
fn keys_in(file: &Path) -> Result<Vec<Key>, Failure> {
    let text = read_key_file(file)?;
    let mut keys: Vec<Key> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).map(|(number, line)| (number, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let named = |why: &dyn std::fmt::Display| format!("{}:{number}: {why}", file.display());
        let key = Key::from_hex(line).map_err(|bad| named(&bad))?;
        if keys.iter().any(|known| known.address() == key.address()) {
            return Err(named(&format!("the key of {} a second time", key.address())).into());
        }
        keys.push(key);
    }
    match keys.is_empty() {
        true => Err(format!("{}: there are no keys in it", file.display()).into()),
        false => Ok(keys),
    }
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let mut table = Table::new(["ACCOUNT", "FILE"]).cuts(&["FILE"]);
    for (path, account) in accounts_in_keystore_dir(&args.folder)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let account = account.map(|account| account.to_string());
        if args.json {
            outln!("{}", serde_json::json!({ "account": account, "file": file }));
        } else {
            table.row([cell(account.as_ref()), file]);
        }
    }
    if !args.json {
        table.lines().iter().for_each(|line| outln!("{line}"));
    }
    Ok(())
}
