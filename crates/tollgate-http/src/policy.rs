//! Rules on the addresses and URLs that may be called.
//!
//! Callers of the API give no URL. These rules are for URLs that come from files and from the rows of
//! other nodes: someone who may write there must not be able to reach the cloud's metadata service, or
//! to make a node repeat a password.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use hyper::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use thiserror::Error;
use tower_service::Service;

/// The reason why a URL is refused. Holds none of it: it may carry a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadUrl {
    /// Not a URL with a host, or with another scheme.
    #[error("must be a URL that starts with http:// or https://")]
    Form,
    /// Holds a user or a password.
    #[error("must not hold a user or a password")]
    User,
}

/// Parses the URL of a service that is called without a password: `http` or `https`, with a host, and
/// without a user.
///
/// # Errors
/// [`BadUrl`].
pub fn http_url(url: &str) -> Result<Uri, BadUrl> {
    let uri: Uri = url.trim().parse().map_err(|_| BadUrl::Form)?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().filter(|_| is_http).ok_or(BadUrl::Form)?;
    match (authority.as_str().contains('@'), authority.host()) {
        (true, _) => Err(BadUrl::User),
        (false, "" | "[]") => Err(BadUrl::Form),
        (false, _) => Ok(uri),
    }
}

/// Returns whether an address is link-local (169.254.0.0/16, fe80::/10), where clouds serve the
/// credentials of the machine.
pub fn is_link_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local(),
        // The second is AWS's metadata service over IPv6.
        IpAddr::V6(ip) => {
            ip.is_unicast_link_local() || ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        }
    }
}

/// Returns whether an address is not of the public internet: link-local, loopback, private, shared (RFC 6598)
/// or unspecified.
pub fn is_private(ip: IpAddr) -> bool {
    let is_reserved = match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            ip.is_private() || ip.is_loopback() || ip.is_broadcast() || is_shared || first == 0
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local(),
    };
    is_reserved || is_link_local(ip)
}

/// Addresses that a client does not call, by whatever name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedAddresses {
    /// Every address may be called.
    None,
    /// Those of [`is_link_local`].
    LinkLocal,
    /// Those of [`is_private`].
    Private,
}

impl RefusedAddresses {
    fn contain(self, ip: IpAddr) -> bool {
        match self {
            Self::None => false,
            Self::LinkLocal => is_link_local(ip),
            Self::Private => is_private(ip),
        }
    }

    /// Returns whether the host of a URL is written as one of these.
    pub fn named_by(self, uri: &Uri) -> bool {
        named_ip(uri).is_some_and(|ip| self.contain(ip))
    }

    const fn words(self) -> &'static str {
        match self {
            Self::None => "no",
            Self::LinkLocal => "a link-local",
            Self::Private => "a private",
        }
    }

    /// The reason why a URL is not called.
    pub(crate) fn reason(self) -> String {
        format!("the URL names {} address", self.words())
    }
}

/// The address that a URL is written with, if it is no name.
fn named_ip(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    // A zone (fe80::1%eth0) is part of no other address.
    host.split('%').next().and_then(|host| host.parse().ok())
}

/// Returns whether the host of a URL is written as a link-local address.
pub fn names_link_local(uri: &Uri) -> bool {
    RefusedAddresses::LinkLocal.named_by(uri)
}

/// The resolver of host names. One that refuses addresses does so for what a name stands for at the time
/// of the connection, whatever it stood for when the settings were read.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) system: GaiResolver,
    pub(crate) refused: RefusedAddresses,
}

impl Service<Name> for Resolver {
    type Response = IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<IntoIter<SocketAddr>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (found, refused) = (self.system.call(name), self.refused);
        Box::pin(async move {
            let all = found.await?;
            allowed(all, refused)
        })
    }
}

fn allowed(
    found: impl Iterator<Item = SocketAddr>,
    addresses: RefusedAddresses,
) -> io::Result<IntoIter<SocketAddr>> {
    let (refused, kept): (Vec<_>, Vec<_>) =
        found.partition(|address| addresses.contain(address.ip()));
    match kept.is_empty() && !refused.is_empty() {
        true => {
            let what = addresses.words();
            Err(io::Error::other(format!("the name stands for {what} address")))
        }
        false => Ok(kept.into_iter()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_address_is_told_in_every_form() {
        for (url, expected) in [
            ("http://169.254.169.254/latest/meta-data/", true),
            ("https://169.254.0.1:8443", true),
            ("http://[fe80::1]/", true),
            ("http://[::ffff:169.254.169.254]/", true),
            ("http://[fd00:ec2::254]/", true),
            ("http://169.253.0.1/", false),
            ("http://127.0.0.1:9/", false),
            ("http://[::1]/", false),
            ("https://hooks.example.com/169.254.169.254", false),
        ] {
            assert_eq!(names_link_local(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn private_address_is_told_in_every_form() {
        for (ip, expected) in [
            ("10.0.0.1", true),
            ("172.16.0.1", true),
            ("192.168.1.1", true),
            ("127.0.0.1", true),
            ("100.64.0.1", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("::1", true),
            ("::", true),
            ("fc00::1", true),
            ("fe80::1", true),
            ("::ffff:10.0.0.1", true),
            ("100.128.0.1", false),
            ("172.32.0.1", false),
            ("203.0.113.9", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(ip.parse().unwrap()), expected, "{ip}");
        }
        let named = |url: &str| RefusedAddresses::Private.named_by(&url.parse().unwrap());
        assert!(named("http://[::1]:80/") && named("http://10.0.0.1/"));
        assert!(!named("https://hooks.example.com/10.0.0.1"));
    }

    #[test]
    fn name_that_stands_for_a_link_local_address_is_refused_where_it_must_be() {
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 80);
        let (metadata, other) = (at("169.254.169.254"), at("192.0.2.1"));
        let link_local = RefusedAddresses::LinkLocal;
        assert!(allowed([metadata].into_iter(), link_local).is_err());
        assert!(allowed([metadata, other].into_iter(), link_local).unwrap().eq([other]));
        let all = allowed([metadata].into_iter(), RefusedAddresses::None);
        assert!(all.unwrap().eq([metadata]));
        let inside = at("10.1.2.3");
        assert!(allowed([inside].into_iter(), link_local).unwrap().eq([inside]));
        assert!(allowed([inside, metadata].into_iter(), RefusedAddresses::Private).is_err());
    }

    #[test]
    fn url_of_a_service_is_http_with_a_host_and_without_a_user() {
        for url in ["http://10.0.0.2:8550", "https://node-1.internal/", " http://[::1]:1 "] {
            assert!(http_url(url).is_ok(), "{url}");
        }
        for url in ["", "node-1:8550", "/a", "ftp://a", "file:///etc/passwd", "ws://a", "http://"] {
            assert_eq!(http_url(url), Err(BadUrl::Form), "{url}");
        }
        let refused = http_url("http://me:hunter2@node-1/").unwrap_err();
        assert_eq!(refused, BadUrl::User);
        assert!(!refused.to_string().contains("hunter2"));
    }
}
