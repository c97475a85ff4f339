//! The types of settings that are one text: numbers, durations, amounts, URLs, words, secrets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::uri::Authority;
use tollgate_alert::SinkKind;
use tollgate_evm::endpoint::Role;
use tollgate_hook::{HookOptions, HookSecret};
use tollgate_model::alert::AlertLevel;
use tollgate_model::answer::AnswerClass;
use tollgate_model::event::EventKind;
use tollgate_model::finality::FinalityRule;
use tollgate_model::ids::parse_address;
use tollgate_model::nonce::{Mode, StrictAdvance};
use tollgate_model::port::AlertKind;
use tollgate_model::refusal::TxLimit;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::{Address, ChainId, GasPrice, NodeId, Nonce, Text, Wei};
use tollgate_server::TlsVersion;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::field::{Field, NUMBER_MAX};
use super::parse::{self, duration_text, limit, url_place};
use super::table::Context;
use super::value::SourcedValue;
use super::value_type::{Form, Redaction, SettingType, ValueType, read_scalar};

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    /// For people.
    Pretty,
    /// For machines.
    Json,
}

/// The way in which events leave a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventMode {
    /// Callers fetch them.
    Poll,
    /// They are written to the log.
    Log,
    /// They are posted to a URL.
    Webhook,
    /// They are published to a stream of NATS JetStream.
    Nats,
}

/// The use of finished transactions that are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetentionMode {
    /// They are written to files first.
    Archive,
    /// They are lost.
    Drop,
}

/// An age of stored data: a duration that may be given in days, up to 100 years.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Age(pub(crate) Duration);

/// A cap that may be turned off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cap<T>(pub(crate) Option<T>);

/// A factor in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Permille(pub(crate) u32);

/// `postgres://…` or `sqlite:PATH`.
#[derive(Clone)]
pub(crate) struct DatabaseUrl(pub(crate) String);

impl DatabaseUrl {
    pub(crate) fn sqlite(file: &Path) -> Self {
        Self(format!("sqlite:{}", file.display()))
    }

    /// The file of a SQLite database; `None` for PostgreSQL.
    pub(crate) fn sqlite_file(&self) -> Option<&Path> {
        self.0.strip_prefix("sqlite:").map(Path::new)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let schemes = ["postgres://", "postgresql://", "sqlite:"];
        match schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) {
            Some(rest) if !rest.is_empty() => Ok(Self(text.to_owned())),
            Some(_) | None => Err("must be postgres://… or sqlite:PATH".to_owned()),
        }
    }
}

/// Defines types that hold a checked text.
macro_rules! text_types {
    ($($(#[doc = $doc:literal])+ $name:ident: $inner:ty;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone)]
        pub(crate) struct $name(pub(crate) $inner);

        impl From<$name> for $inner {
            fn from(text: $name) -> Self {
                text.0
            }
        }
    )+};
}

text_types! {
    /// The name of a node.
    NodeName: String;
    /// The URL of an RPC endpoint. Its path may be a key.
    EndpointUrl: String;
    /// The URL of a hook. Its path may be a key.
    HookUrl: String;
    /// The URL of a NATS server. It may hold a password.
    NatsUrl: String;
    /// The name of a stream of NATS JetStream.
    StreamName: String;
    /// The first part of subjects of NATS.
    SubjectPrefix: String;
    /// A name in a `Host` header, without a port.
    HostName: String;
    /// The origin of a web page: scheme, host and port.
    WebOrigin: String;
    /// A secret that is never shown.
    Secret: Zeroizing<String>;
}

/// Implements [`SettingType`] for types that are read from one text: the properties, a function of
/// the text and the row of the table, and the value if the setting is absent.
macro_rules! scalar_types {
    ($($scalar:ty: $value_type:expr, $parse:expr $(, absent $absent:expr)?;)+) => {$(
        impl SettingType for $scalar {
            const TYPE: ValueType = $value_type;

            fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self> {
                let parse: fn(&str, &Field) -> Result<Self, String> = $parse;
                read_scalar(value, field, context, |text| parse(text, field))
            }

            $(fn absent() -> Option<Self> { $absent })?
        }
    )+};
}

/// Implements [`SettingType`] for types that are one of a few words.
macro_rules! choice_types {
    ($($choice:ty { $($word:literal => $meaning:expr,)+ })+) => {
        scalar_types! {$(
            $choice: ValueType::new(Form::Choice(&[$($word),+]), "", "WORD"), |text, _| match text {
                $($word => Ok($meaning),)+
                _ => Err(format!("must be {}", [$($word),+].join(" or "))),
            };
        )+}
    };
}

const SWITCH: ValueType = ValueType::new(Form::Switch, "`true` or `false`", "");
const NUMBER: ValueType = ValueType::new(Form::Number, "number", "N").list_words("list of numbers");
const AMOUNT: ValueType = ValueType::new(Form::Limit, "amount, or `unlimited`", "AMOUNT");
pub(crate) const PATH: ValueType =
    ValueType::new(Form::Text, "path", "PATH").list_words("list of paths");
const HTTP_SCHEMES: [&str; 2] = ["http", "https"];

scalar_types! {
    bool: SWITCH, |text, _| parse::switch(text);
    u16: NUMBER, number;
    u32: NUMBER, number;
    u64: NUMBER, number;
    usize: NUMBER, number;
    Nonce: NUMBER, |text, field| Nonce::new(number(text, field)?).map_err(|bad| bad.to_string());
    ChainId: NUMBER, |text, field| ChainId::new(number(text, field)?).map_err(|bad| bad.to_string());
    Permille: ValueType::new(Form::Decimal, "number above 1, up to 10", "N"),
        |text, _| parse::factor(text).map(Permille);
    Duration: ValueType::new(Form::Duration, "duration", "DURATION"), duration;
    Age: ValueType::new(Form::Duration, "duration, also in days", "DURATION"), |text, field| {
        let (age, min) = (parse::age(text)?, parse::duration(field.min)?);
        match age < min {
            true => Err(format!("must be at least {}", duration_text(min))),
            false => Ok(Self(age)),
        }
    };
    FinalityRule: ValueType::new(Form::Text, "`confirmations:N`, `safe` or `finalized`", "RULE"),
        |text, _| parse::finality(text);
    Cap<GasPrice>: AMOUNT, |text, _| limit(text, parse::price).map(Cap);
    Cap<Wei>: AMOUNT, |text, _| limit(text, parse::amount).map(Cap);
    Wei: ValueType::text("amount"), |text, _| parse::amount(text);
    AlertKind: ValueType::text("alert").list_words("list of alerts"), |text, _| {
        Self::from_name(text).ok_or_else(|| {
            format!("must be one of {}", Self::ALL.map(Self::name).join(", "))
        })
    };
    NodeName: ValueType::text("text"), |text, _| node_name(text), absent host_name();
    TxLimit: ValueType::new(Form::Limit, "number, at least 1, or `unlimited`", "N"), |text, _| {
        let number = limit(text, |text| parse::number(text, 1, NUMBER_MAX))?;
        Ok(number.map_or(Self::Unlimited, Self::At))
    }, absent Some(Self::ByChain);
    String: ValueType::text("text"), |text, _| Ok(text.to_owned());
    SocketAddr: ValueType::new(Form::Text, "`IP:PORT`", "IP:PORT"), |text, _| parse::socket(text);
    PathBuf: PATH, |text, _| match text {
        "" => Err("must be a path".to_owned()),
        text => Ok(PathBuf::from(text)),
    };
    Address: ValueType::text("address").list_words("list of addresses"), |text, _| {
        parse_address(text).map_err(|_| {
            "must be an address: 0x and 40 hex digits; in mixed case with its EIP-55 checksum"
                .to_owned()
        })
    };
    Text<500>: ValueType::new(Form::Text, "`http(s)://…`", "URL"), |text, _| {
        url_place(text, &HTTP_SCHEMES)?;
        Text::new("URL", text.trim_end_matches('/'))
            .map_err(|_| "must be at most 500 bytes".to_owned())
    };
    EndpointUrl: ValueType::new(Form::Text, "`http(s)://…` or `ws(s)://…`", "URL")
        .redacted(Redaction::UrlPath), |text, _| {
        url_place(text, &["http", "https", "ws", "wss"])?;
        Ok(Self(text.trim().to_owned()))
    };
    HookUrl: ValueType::new(Form::Text, "`http(s)://…`", "URL").redacted(Redaction::UrlPath),
        |text, _| match HookOptions::check_url(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(bad) => Err(bad.to_string()),
        };
    NatsUrl: ValueType::new(Form::Text, "`nats://…` or `tls://…`", "URL")
        .redacted(Redaction::DatabaseUrl), |text, _| {
        url_place(text, &["nats", "tls"])?;
        Ok(Self(text.trim().to_owned()))
    };
    StreamName: ValueType::text("name"), |text, _| match is_nats_token(text) {
        true => Ok(Self(text.to_owned())),
        false => Err("must be a name without blanks, ., * and >".to_owned()),
    };
    SubjectPrefix: ValueType::text("subject"), |text, _| match text.split('.').all(is_nats_token) {
        true => Ok(Self(text.to_owned())),
        false => Err("must be names with a . between them, without blanks, * and >".to_owned()),
    };
    HookSecret: ValueType::text("text").redacted(Redaction::HideAll),
        |text, _| Self::parse(text).map_err(|bad| bad.to_string());
    DatabaseUrl: ValueType::new(Form::Text, "`postgres://…` or `sqlite:PATH`", "URL")
        .redacted(Redaction::DatabaseUrl), |text, _| Self::parse(text);
    Secret: ValueType::text("text").redacted(Redaction::HideAll), |text, _| match text {
        "" => Err("must not be empty".to_owned()),
        text => Ok(Self(Zeroizing::new(text.to_owned()))),
    };
    HostName: ValueType::text("host name").list_words("list of host names"), |text, _| {
        match Authority::try_from(text) {
            Ok(authority) if authority.host() == text => Ok(Self(text.to_owned())),
            Ok(_) | Err(_) => Err("must be a host name or an address, without a port".to_owned()),
        }
    };
    WebOrigin: ValueType::text("origin").list_words("list of origins"), |text, _| {
        match url_place(text, &HTTP_SCHEMES) {
            Ok(place) if place == text => Ok(Self(place)),
            Ok(_) | Err(_) => Err(
                "must be an origin like https://tollgate.example.com, without a path".to_owned()
            ),
        }
    };
    EventKind: ValueType::text("kind").list_words("list of kinds"), |text, _| {
        Self::from_name(text)
            .ok_or_else(|| format!("must be one of {}", Self::ALL.map(Self::name).join(", ")))
    };
    AnswerClass: ValueType::text("class"), |text, _| Self::from_name(text).ok_or_else(|| {
        format!("must be one of {}", Self::ALL.map(Self::name).join(", "))
    });
}

choice_types! {
    TlsVersion {
        "1.2" => TlsVersion::V1_2,
        "1.3" => TlsVersion::V1_3,
    }
    Mode { "pipelined" => Mode::Pipelined, "strict" => Mode::Strict, }
    StrictAdvance { "final" => StrictAdvance::Final, "mined" => StrictAdvance::Mined, }
    RejectedSlot {
        "hold" => RejectedSlot::Hold,
        "placeholder" => RejectedSlot::Placeholder,
        "recycle" => RejectedSlot::Recycle,
    }
    Role {
        "full" => Role::Full,
        "send_only" => Role::SendOnly,
        "read_only" => Role::ReadOnly,
        "private" => Role::Private,
    }
    EventMode {
        "poll" => EventMode::Poll,
        "log" => EventMode::Log,
        "webhook" => EventMode::Webhook,
        "nats" => EventMode::Nats,
    }
    SinkKind {
        "webhook" => SinkKind::Webhook,
        "slack" => SinkKind::Slack,
        "dingtalk" => SinkKind::DingTalk,
        "feishu" => SinkKind::Feishu,
        "wecom" => SinkKind::WeCom,
        "pagerduty" => SinkKind::PagerDuty,
    }
    AlertLevel {
        "info" => AlertLevel::Info,
        "warning" => AlertLevel::Warning,
        "critical" => AlertLevel::Critical,
    }
    RetentionMode { "archive" => RetentionMode::Archive, "drop" => RetentionMode::Drop, }
    LogFormat { "pretty" => LogFormat::Pretty, "json" => LogFormat::Json, }
}

fn number<T: TryFrom<u64>>(text: &str, field: &Field) -> Result<T, String> {
    let (from, to) = field.range;
    let number = parse::number(text, from, to)?;
    T::try_from(number).map_err(|_| "is too large".to_owned())
}

fn duration(text: &str, field: &Field) -> Result<Duration, String> {
    let (duration, min) = (parse::duration(text)?, parse::duration(field.min)?);
    match duration < min {
        true => Err(format!("must be at least {}", duration_text(min))),
        false => Ok(duration),
    }
}

/// True for one name of a subject of NATS.
fn is_nats_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b".*>/\\".contains(&byte);
    (1..=200).contains(&text.len()) && text.bytes().all(is_plain)
}

fn node_name(text: &str) -> Result<NodeName, String> {
    match NodeId::new(text, Uuid::nil()) {
        Ok(_) => Ok(NodeName(text.to_owned())),
        Err(_) => Err(format!("must be 1 to {} bytes without blanks or /", NodeId::MAX_NAME_BYTES)),
    }
}

/// The host's name if it can name a node. The id of the start, which is added to the name, tells
/// nodes apart in any case.
fn host_name() -> Option<NodeName> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    node_name(&host).or_else(|_| node_name("tollgate")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::UNLIMITED;

    #[test]
    fn documented_word_for_no_limit_is_the_one_that_is_parsed() {
        for value_type in [AMOUNT, TxLimit::TYPE] {
            assert!(value_type.words.ends_with(&format!("or `{UNLIMITED}`")), "{value_type:?}");
        }
    }
}
