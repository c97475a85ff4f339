//! Bodies about nonces that callers hold.

use std::time::Duration;

use serde::Deserialize;
use tollgate_model::{Text, TxHash};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Number;
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::schema;

/// How long a nonce is wanted for.
#[derive(Deserialize, Default, ToSchema)]
#[schema(as = Reserve)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReserveBody {
    /// After so many seconds it comes back by itself; `reservations.hold` if left out.
    #[schema(value_type = Option<schema::Number>)]
    hold_seconds: Option<Number>,
}

impl ReserveBody {
    pub(crate) fn read(self) -> Result<Option<Duration>, Problem> {
        let seconds = self.hold_seconds.map(|seconds| seconds.read_u64("holdSeconds"));
        Ok(seconds.transpose()?.map(Duration::from_secs))
    }
}

/// What a caller uses its nonce for.
#[derive(Deserialize, ToSchema)]
#[schema(as = UsedNonce)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UsedBody {
    /// The caller's proof, from the reservation.
    #[schema(value_type = schema::OwnerToken)]
    owner_token: String,
    /// The hash of what the caller has signed and is about to send.
    #[schema(value_type = schema::Hash)]
    tx_hash: String,
}

impl UsedBody {
    pub(crate) fn read(self) -> Result<(Uuid, TxHash), Problem> {
        let bad = |_| Problem::new(Code::InvalidHex, "txHash: must be 32 bytes as 0x-hex");
        let digits = self.tx_hash.strip_prefix("0x").unwrap_or_default();
        Ok((token(&self.owner_token)?, digits.parse().map_err(bad)?))
    }
}

/// Why a caller gives its nonce back.
#[derive(Deserialize, ToSchema)]
#[schema(as = ReturnedNonce)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReturnedBody {
    /// The caller's proof, from the reservation.
    #[schema(value_type = schema::OwnerToken)]
    owner_token: String,
    /// Why: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText)]
    reason: String,
}

impl ReturnedBody {
    pub(crate) fn read(self) -> Result<(Uuid, Text<500>), Problem> {
        if self.reason.trim().is_empty() {
            return Err(Problem::new(Code::MissingField, "reason is missing"));
        }
        Ok((token(&self.owner_token)?, Text::new("reason", self.reason)?))
    }
}

fn token(text: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| Problem::new(Code::InvalidField, "ownerToken: not a UUID"))
}
