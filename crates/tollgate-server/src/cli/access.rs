//! `tollgate api-key`: makes, lists, revokes and rotates API keys in a database, with or without a running node.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tollgate_api::{format_time, parse_duration};
use tollgate_model::access::{ApiKey, KeyId, KeyScope, RateLimit, Rights, Roles, Tenant};
use tollgate_model::account_pool::PoolName;
use tollgate_model::ids::parse_address;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{NoCheckpoints, Store};
use tollgate_model::{Address, ChainId, Text, Timestamp};
use tollgate_server::api_keys::{EXPIRY_MAX, GRACE_MAX, KeyAdmin, MadeKey, NewKey};

use super::table::{Table, cell};
use super::units::{age, time_until};
use super::{log, runtime};
use crate::cli::output::{errln, outln};
use crate::clock::SystemClock;
use crate::config::{DatabaseFlags, LogFormat, Purpose, load};
use crate::database::Database;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct ApiKeyArgs {
    #[command(subcommand)]
    command: ApiKeyCommand,
}

#[derive(Subcommand)]
enum ApiKeyCommand {
    /// Make a key and print its secret, which is shown this once.
    New(NewArgs),
    /// List all keys, without secrets.
    List(ListArgs),
    /// End a key at all nodes within 5 seconds.
    Revoke(RevokeArgs),
    /// Make a new key with the same rights; the old one stays valid for a while.
    Rotate(RotateArgs),
}

#[derive(Args)]
struct NewArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// User and purpose of the key.
    #[arg(long)]
    name: String,
    /// Roles, separated by commas: read, submit, operate, admin.
    #[arg(long, value_parser = Roles::parse, value_name = "ROLES")]
    role: Roles,
    /// Request ids and transactions of its own, apart from those of other tenants.
    #[arg(long, value_parser = tenant)]
    tenant: Option<Tenant>,
    /// A chain that the key is for; may be repeated. Without it, every chain.
    #[arg(long, value_name = "ID", value_parser = chain)]
    chain: Vec<ChainId>,
    /// An account that the key is for; may be repeated. Without it and --pool, every account.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    submitter: Vec<Address>,
    /// An account pool that the key is for; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = pool)]
    pool: Vec<PoolName>,
    /// Requests per second at each node, and how many at once: 20 or 20/100. Without it, no limit.
    #[arg(long, value_name = "RATE")]
    rate: Option<RateLimit>,
    /// Validity of the key: 90d, 12h. Without it, until the key is revoked.
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expires: Option<Duration>,
    /// Print the secret alone, for scripts.
    #[arg(long)]
    quiet: bool,
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// Print the table in full, also where it is wider than 80 columns.
    #[arg(long)]
    wide: bool,
}

#[derive(Args)]
struct RevokeArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// The key's id: the twelve characters after tg_live_.
    #[arg(value_parser = KeyId::new)]
    key_id: KeyId,
}

#[derive(Args)]
struct RotateArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// The key's id: the twelve characters after tg_live_.
    #[arg(value_parser = KeyId::new)]
    key_id: KeyId,
    /// Validity of the old key from now on, at most 30d.
    #[arg(long, default_value = "24h", value_name = "DURATION", value_parser = grace)]
    grace: Duration,
    /// Print the secret alone, for scripts.
    #[arg(long)]
    quiet: bool,
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|error| error.problem)
}

fn pool(text: &str) -> Result<PoolName, String> {
    PoolName::new(text).map_err(|error| error.problem)
}

fn chain(text: &str) -> Result<ChainId, String> {
    let id = text.parse().ok().and_then(|id| ChainId::new(id).ok());
    id.ok_or_else(|| "must be the id of a chain, in decimal".to_owned())
}

/// Days, or a duration in smaller units.
fn days(text: &str) -> Option<Duration> {
    match text.strip_suffix('d') {
        Some(days) => days.parse::<u64>().ok()?.checked_mul(24 * 3_600).map(Duration::from_secs),
        None => parse_duration(text),
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let fits = |time: &Duration| !time.is_zero() && *time <= EXPIRY_MAX;
    days(text).filter(fits).ok_or_else(|| "must be like 90d or 12h, at most 3650d".to_owned())
}

fn grace(text: &str) -> Result<Duration, String> {
    let fits = |time: &Duration| *time <= GRACE_MAX;
    days(text).filter(fits).ok_or_else(|| "must be like 24h or 7d, at most 30d".to_owned())
}

pub(super) fn run(args: ApiKeyArgs) -> Result<ExitCode, Failure> {
    match args.command {
        ApiKeyCommand::New(args) => new(args),
        ApiKeyCommand::List(args) => list(args),
        ApiKeyCommand::Revoke(args) => within(args.flags, async |admin| {
            let key = admin.revoke(&args.key_id).await?;
            outln!("{} is revoked; nodes refuse it within 5 seconds", key.id);
            Ok(())
        }),
        ApiKeyCommand::Rotate(args) => within(args.flags, async |admin| {
            let made = admin.rotate(&args.key_id, args.grace).await?;
            print(&made, args.quiet);
            Ok(())
        }),
    }
}

fn new(args: NewArgs) -> Result<ExitCode, Failure> {
    let scope = KeyScope::new(args.chain, args.submitter, args.pool)?;
    let rights = Rights { roles: args.role, scope, tenant: args.tenant };
    let expires_at = args.expires.map(|time| SystemClock.now().after(time));
    let new = NewKey { name: key_name(args.name)?, rights, rate: args.rate, expires_at };
    within(args.flags, async |admin| {
        print(&admin.make(new).await?, args.quiet);
        Ok(())
    })
}

/// A name that can stand in a line of a log.
fn key_name(name: String) -> Result<Text<100>, Failure> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err("--name: must not be blank or hold control characters".into());
    }
    Ok(Text::new("name", name)?)
}

/// The secret goes to the standard output; it is written nowhere else.
fn print(made: &MadeKey, is_quiet: bool) {
    outln!("{}", *made.secret);
    if is_quiet {
        return;
    }
    let key = &made.key;
    let end = key
        .expires_at
        .map_or("until it is revoked".to_owned(), |at| format!("until {}", format_time(at)));
    errln!("Key {} ({}), {}, {end}.", key.id, key.name, key.rights.roles);
    errln!("This is the only time that the secret is shown: only its hash is stored.");
}

fn list(args: ListArgs) -> Result<ExitCode, Failure> {
    let is_wide = args.wide;
    within(args.flags, async |admin| {
        let table = table(&admin.all().await?, SystemClock.now()).wide(is_wide);
        table.lines().iter().for_each(|line| outln!("{line}"));
        Ok(())
    })
}

fn table(keys: &[ApiKey], now: Timestamp) -> Table {
    let head = ["ID", "NAME", "ROLES", "TENANT", "SCOPE", "RATE", "STATE", "LAST USED"];
    let mut table = Table::new(head).cuts(&["SCOPE", "NAME", "TENANT", "ROLES"]);
    let ago = |at| format!("{} ago", age(&format_time(at)));
    for key in keys {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(_), _) => "revoked".to_owned(),
            (None, Some(end)) if end <= now => "expired".to_owned(),
            (None, Some(end)) => format!("for {}", time_until(&format_time(end))),
            (None, None) => "valid".to_owned(),
        };
        table.row([
            key.id.to_string(),
            key.name.to_string(),
            key.rights.roles.to_string(),
            cell(key.rights.tenant.as_ref()),
            scope(key),
            cell(key.rate.as_ref()),
            state,
            cell(key.last_used_at.map(ago).as_ref()),
        ]);
    }
    table
}

fn scope(key: &ApiKey) -> String {
    let scope = &key.rights.scope;
    if scope.is_everything() {
        return "all".to_owned();
    }
    let parts = [
        ("chains", scope.stored_chains()),
        ("submitters", scope.stored_submitters()),
        ("pools", scope.stored_pools()),
    ];
    let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
    parts.map(|(name, list)| format!("{name} {list}")).collect::<Vec<_>>().join("; ")
}

/// Runs a command on the database of the settings.
fn within<F>(flags: DatabaseFlags, command: F) -> Result<ExitCode, Failure>
where
    F: AsyncFnOnce(&KeyAdmin<'_>) -> Result<(), Failure>,
{
    let settings = load(flags.into_flags(), Purpose::Database)?.settings;
    log(LogFormat::Pretty, "warn");
    runtime()?.block_on(async {
        let (database, wait) = (Database::new(&settings.database), settings.startup.wait);
        database.must_exist()?;
        let open = || database.try_open(Arc::new(NoCheckpoints));
        let store: Arc<dyn Store> = database.retry(wait, open).await?;
        command(&KeyAdmin::of_database(&*store, SystemClock.now())).await?;
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use tollgate_model::access::SecretHash;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::cli::table::WIDTH;

    #[test]
    fn keys_with_long_names_and_scopes_fit() {
        let now = SystemClock.now();
        let address = Address::repeat_byte(0xaa);
        let pool = PoolName::new("payouts").unwrap();
        let key = ApiKey {
            id: KeyId::new("abcdefghijkl").unwrap(),
            name: Text::lossy("提币服务（生产环境）"),
            hash: SecretHash::from_stored([7; 32]),
            created_by: Text::lossy("cli"),
            rights: Rights {
                roles: Roles::parse("read,submit,operate").unwrap(),
                scope: KeyScope::new(vec![], vec![address; 3], vec![pool]).unwrap(),
                tenant: Some(Tenant::new("exchange-eu").unwrap()),
            },
            rate: Some(RateLimit::new(20, 100).unwrap()),
            created_at: now,
            expires_at: Some(now.after(Duration::from_secs(90 * 86_400 + 60))),
            revoked_at: None,
            last_used_at: Some(now),
        };
        let lines = table(std::slice::from_ref(&key), now).lines();
        assert!(lines.iter().all(|line| line.width() <= WIDTH), "{lines:#?}");
        assert!(lines[1].contains("for 90d") && lines[1].starts_with("abcdefghijkl  提币"));
        let wide = table(&[key], now).wide(true).lines().pop().unwrap();
        assert!(wide.contains(&address.to_string()), "{wide}");
    }
}
