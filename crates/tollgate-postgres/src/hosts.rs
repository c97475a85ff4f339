//! Connects to the first of several servers that accepts: a URL may list the members of a cluster.
//!
//! The driver limits the time for a host's TCP connection only. A host whose process stands still accepts
//! the connection and never answers, and would keep the others from being tried. So each host is tried by
//! itself, with a share of the time that a caller waits.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::Connect;
use tokio::task::{JoinHandle, spawn};
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;
use uuid::Uuid;

/// Tries the hosts of a URL one by one.
pub(crate) struct HostByHost {
    pub(crate) tls: MakeRustlsConnect,
    /// The time that a caller waits for all of them.
    pub(crate) within: Duration,
}

type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for HostByHost {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let hosts = each_host(config);
        let limit = self.within / u32::try_from(hosts.len().max(1)).unwrap_or(u32::MAX);
        Box::pin(async move {
            let mut refused = None;
            for host in &hosts {
                match timeout(limit, host.connect(self.tls.clone())).await {
                    Ok(Ok((client, connection))) => {
                        let task = spawn(async move {
                            if let Err(error) = connection.await {
                                debug!(%error, "connection to the database ended");
                            }
                        });
                        return Ok((client, task));
                    }
                    Ok(Err(error)) => refused = Some(error),
                    Err(_) => debug!(hosts = ?host.get_hosts(), "host of the database is silent"),
                }
            }
            match refused {
                Some(error) => Err(error),
                // The caller's limit is over by now.
                None => pending().await,
            }
        })
    }
}

/// One configuration for each host, in the order in which they are tried.
fn each_host(config: &Config) -> Vec<Config> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let count = hosts.len().max(addresses.len());
    if count < 2 {
        return vec![config.clone()];
    }
    let port = |place: usize| match config.get_ports() {
        [] => 5432,
        [port] => *port,
        ports => ports.get(place).copied().unwrap_or(5432),
    };
    let mut each: Vec<Config> = (0..count)
        .map(|place| {
            let mut one = without_hosts(config);
            match hosts.get(place) {
                Some(Host::Tcp(name)) => {
                    one.host(name);
                }
                #[cfg(unix)]
                Some(Host::Unix(path)) => {
                    one.host_path(path);
                }
                _ => {}
            }
            if let Some(address) = addresses.get(place) {
                one.hostaddr(*address);
            }
            one.port(port(place));
            one
        })
        .collect();
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        each.rotate_left(usize::from(Uuid::new_v4().as_bytes()[0]) % count);
    }
    each
}

/// Everything of a configuration but its hosts and ports.
fn without_hosts(config: &Config) -> Config {
    let mut one = Config::new();
    macro_rules! copied {
        ($($get:ident => $set:ident),+) => {
            $(if let Some(value) = config.$get() {
                one.$set(value.to_owned());
            })+
        };
    }
    copied! {
        get_user => user, get_password => password, get_dbname => dbname, get_options => options,
        get_application_name => application_name, get_connect_timeout => connect_timeout,
        get_tcp_user_timeout => tcp_user_timeout, get_keepalives_interval => keepalives_interval,
        get_keepalives_retries => keepalives_retries
    }
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_url_are_tried_one_by_one_with_all_other_settings() {
        let url = "postgres://me:secret@a:1,b:2/db?target_session_attrs=read-write&options=-cx=1\
                   &connect_timeout=7&application_name=x&keepalives_idle=9";
        let config: Config = url.parse().unwrap();
        let [first, second] = &each_host(&config)[..] else { panic!("two hosts") };
        assert_eq!((first.get_hosts(), first.get_ports()), (&config.get_hosts()[..1], &[1][..]));
        assert_eq!((second.get_hosts(), second.get_ports()), (&config.get_hosts()[1..], &[2][..]));
        assert_eq!(without_hosts(second), without_hosts(&config), "nothing else differs");
        let shared: Config = "postgres://a,b:7/db".parse().unwrap();
        assert_eq!(each_host(&shared).len(), 2);
        let alone: Config = "postgres://a/db".parse().unwrap();
        assert_eq!(each_host(&alone), [alone]);
    }
}
