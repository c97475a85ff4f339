//! The settings of the HTTP server.

use std::net::SocketAddr;

use axum::http::uri::Authority;
use tollgate_server::ConnectionLimits;

use super::given::Problem;
use super::kind::url_place;
use super::reader::Reader;

/// Whom the HTTP server answers, and how many connections it keeps.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) connections: ConnectionLimits,
}

pub(super) fn http(reader: &mut Reader<'_>) -> Option<HttpSettings> {
    let allowed_hosts = checked(reader, "http.allowed_hosts", host);
    let allowed_origins = checked(reader, "http.allowed_origins", origin);
    let max = reader.size("http.max_connections");
    let header_timeout = reader.duration("http.header_timeout");
    let idle_timeout = reader.duration("http.idle_timeout");
    let connections = ConnectionLimits {
        max: max?,
        header_timeout: header_timeout?,
        idle_timeout: idle_timeout?,
    };
    Some(HttpSettings { allowed_hosts, allowed_origins, connections })
}

fn checked(
    reader: &mut Reader<'_>,
    name: &'static str,
    check: fn(&str) -> Result<(), &'static str>,
) -> Vec<String> {
    let mut sound = Vec::new();
    for (text, place) in reader.texts(name) {
        match check(&text) {
            Ok(()) => sound.push(text),
            Err(reason) => {
                let reason = format!("{text:?} {reason}");
                reader.problems.push(Problem::new(place, name, reason));
            }
        }
    }
    sound
}

fn host(text: &str) -> Result<(), &'static str> {
    match Authority::try_from(text) {
        Ok(authority) if authority.host() == text => Ok(()),
        Ok(_) | Err(_) => Err("must be a host name or an address, without a port"),
    }
}

fn origin(text: &str) -> Result<(), &'static str> {
    match url_place(text, &["http", "https"]) {
        Ok(place) if place == text => Ok(()),
        Ok(_) | Err(_) => {
            Err("must be an origin like https://tollgate.example.com, without a path")
        }
    }
}

/// Nobody is asked for a key on this address, and it is not only this machine's.
pub(super) fn check_network(
    reader: &mut Reader<'_>,
    listen: Option<SocketAddr>,
    no_auth: Option<bool>,
    allowed: Option<bool>,
) {
    let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback()) else { return };
    if no_auth != Some(true) {
        return;
    }
    if allowed == Some(false) {
        let reason = format!(
            "everybody who can reach {listen} could spend from the accounts, without any key: \
             listen on loopback, or add --allow-unauthenticated-network if that network is trusted"
        );
        reader.wrong("no_auth", reason);
    }
}
