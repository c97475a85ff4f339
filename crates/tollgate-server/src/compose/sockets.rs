//! The sockets of a node, bound before anything else is started.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::config::Settings;
use crate::failure::{Failure, io_reason};

/// Binds the address of the API. Done before anything else is started, because it may be in use.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there already".to_owned(),
            std::io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            std::io::ErrorKind::PermissionDenied => "not allowed".to_owned(),
            _ => io_reason(&error),
        };
        format!("can't listen on {address}: {why}").into()
    })
}

/// The sockets of a node.
pub(crate) struct Sockets {
    pub(crate) api: TcpListener,
    /// Operators have a socket of their own.
    pub(crate) operators: Option<TcpListener>,
    /// Metrics have a socket of their own.
    pub(crate) metrics: Option<TcpListener>,
}

impl Sockets {
    /// Binds the addresses of the settings.
    pub(crate) async fn bind(settings: &Settings) -> Result<Self, Failure> {
        let api = bind(settings.node.listen).await?;
        let bind_optional = async |address: Option<SocketAddr>| match address {
            Some(address) => bind(address).await.map(Some),
            None => Ok(None),
        };
        let operators = bind_optional(settings.operators.listen).await?;
        let metrics = bind_optional(settings.metrics.listen).await?;
        Ok(Self { api, operators, metrics })
    }
}
