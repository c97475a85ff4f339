//! Settings of the HTTP server: whom it answers, and how many connections it keeps.

use super::Preset::{self, Value};
use super::{Key, Kind, key};

pub(super) static KEYS: &[Key] = &[
    key(
        "http.allowed_hosts",
        Kind::Hosts,
        Preset::None,
        "Names under which the API is called, besides loopback and the host of `advertise_url`, \
         without a port. Every other name in a `Host` header is refused; IP addresses are \
         accepted unless the node listens on loopback.",
    )
    .like("[\"tollgate.example.com\"]"),
    key(
        "http.allowed_origins",
        Kind::Origins,
        Preset::None,
        "Origins of web pages that may call the API, besides its own: for example the one under \
         which a TLS proxy serves it. No CORS headers are sent.",
    )
    .like("[\"https://tollgate.example.com\"]"),
    key(
        "http.max_connections",
        Kind::Number(1, 1_000_000),
        Value("4096"),
        "Connections that are served at once, lowered at the start if the limit on open files does \
         not allow as many. Beyond them 32 more are answered about `/livez` and `/readyz` only.",
    ),
    key(
        "http.header_timeout",
        Kind::Duration(10),
        Value("10s"),
        "How long a new connection has to send the head of its first request.",
    ),
    key(
        "http.idle_timeout",
        Kind::Duration(10),
        Value("75s"),
        "How long a connection may be without a request after an answer. Above the 50 s that nodes \
         keep idle connections to each other.",
    ),
];
