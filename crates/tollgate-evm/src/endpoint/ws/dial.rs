//! Opens WebSocket connections, with or without TLS.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::endpoint::config::{EndpointConfig, Target};

/// A stream under a WebSocket, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
pub(super) type Socket = WebSocketStream<Box<dyn Stream>>;

/// The reason why there is no connection.
#[derive(Debug, Error)]
pub(super) enum DialError {
    #[error("connecting timed out")]
    Timeout,
    #[error("no host")]
    NoHost,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    ServerName(#[from] InvalidDnsNameError),
    #[error(transparent)]
    WebSocket(#[from] Box<WsError>),
}

/// Opens connections to one endpoint.
pub(super) struct Dialer {
    target: Target,
    tls: Option<Arc<rustls::ClientConfig>>,
    connect_timeout: Duration,
    message_bytes_max: usize,
}

impl Dialer {
    pub(super) fn new(target: &Target, config: &EndpointConfig) -> Self {
        Self {
            target: target.clone(),
            tls: target.secure.then(tollgate_http::client_config),
            connect_timeout: config.connect_timeout,
            message_bytes_max: config.response_bytes_max,
        }
    }

    pub(super) async fn dial(&self) -> Result<Socket, DialError> {
        timeout(self.connect_timeout, self.connect()).await.unwrap_or(Err(DialError::Timeout))
    }

    async fn connect(&self) -> Result<Socket, DialError> {
        let uri = &self.target.uri;
        let host = uri.host().ok_or(DialError::NoHost)?.trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if self.target.secure { 443 } else { 80 });
        let tcp = TcpStream::connect((host, port)).await?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())?;
                Box::new(TlsConnector::from(tls.clone()).connect(name, tcp).await?)
            }
        };
        let mut request = uri.into_client_request().map_err(Box::new)?;
        if let Some(value) = &self.target.authorization {
            request.headers_mut().insert(hyper::header::AUTHORIZATION, value.clone());
        }
        let limits = WebSocketConfig::default()
            .max_message_size(Some(self.message_bytes_max))
            .max_frame_size(Some(self.message_bytes_max));
        tokio_tungstenite::client_async_with_config(request, stream, Some(limits))
            .await
            .map(|(socket, _)| socket)
            .map_err(|error| DialError::WebSocket(Box::new(error)))
    }
}
