//! Errors as callers see them: `application/problem+json` with a code that stays.

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_engine::{ActError, CreateError, ReserveError, Unserved};
use tollgate_model::ids::InvalidId;
use tollgate_model::port::{Owner, StoreError};
use tollgate_model::refusal::{FundsShort, Refusal, RefusalKind, RefusedField};
use tollgate_model::stuck::Forbidden;
use utoipa::ToSchema;

use super::code::Code;
use super::schema;

/// An error with a stable code.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    /// The field, parameter or header that it is about, if it is about one.
    pub(crate) field: Option<String>,
    /// Where the node is that should have been asked.
    pub(crate) owner: Option<String>,
    /// The least that would do.
    pub(crate) minimum: Option<Box<MinimumFees>>,
    /// The cap in the way.
    pub(crate) cap: Option<Box<FeeCapReached>>,
    /// What the account lacks.
    pub(crate) funds: Option<Box<MissingFunds>>,
}

/// The least that replaces a transaction in a pool.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MinimumFees {
    /// In wei per gas.
    #[schema(value_type = schema::Amount)]
    max_fee_per_gas: String,
    /// In wei per gas; null for legacy transactions.
    #[schema(value_type = Option<schema::Amount>, required)]
    max_priority_fee_per_gas: Option<String>,
}

/// A cap that is below what a replacement needs.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeeCapReached {
    /// `maxFeePerGas` of the create, `chain.max_fee_per_gas` or `chain.max_tx_fee`.
    name: &'static str,
    /// The highest price that it allows, in wei per gas.
    #[schema(value_type = schema::Amount)]
    allows: String,
    /// The price that is needed, in wei per gas.
    #[schema(value_type = schema::Amount)]
    needed: String,
}

/// What a transaction may cost, and what the account has for it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MissingFunds {
    /// The value, and all of the gas at the price that is offered, in wei.
    #[schema(value_type = schema::Amount)]
    needed: String,
    /// The balance less what the account's open transactions may cost, in wei.
    #[schema(value_type = schema::Amount)]
    available: String,
}

/// What went wrong, in the form of RFC 9457.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemBody {
    /// The path of the page about the code, on any node.
    r#type: String,
    /// What the code means, in a few words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What to switch on. A code never changes its meaning.
    #[schema(value_type = schema::ErrorCode)]
    pub(super) code: &'static str,
    /// What was wrong this time, for people.
    pub(super) detail: String,
    /// The field, parameter or header that it is about, like `payload.value`. Left out if it is
    /// about none or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The name of this one call, as in the header `x-request-id` and in the node's log.
    trace_id: String,
    /// Whether the same call can succeed later; the answer has `Retry-After` then.
    retryable: bool,
    /// Where the node is that works for the account, if that is known. Only with `not_owner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The least that would replace the transaction. Only with `fee_too_low_to_replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<MinimumFees>,
    /// The cap in the way. Only with `fee_cap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<FeeCapReached>,
    /// What the account lacks. Only with `insufficient_funds`, unless a node says so of an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    funds: Option<MissingFunds>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let (detail, field, owner) = (detail.into(), None, None);
        Self { code, detail, field, owner, minimum: None, cap: None, funds: None }
    }

    /// Names the field, parameter or header that it is about.
    pub(crate) fn about(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// A value of a field that is wrong: the detail names the field, the value and what is allowed.
    pub(crate) fn of_field(code: Code, field: &str, what: impl std::fmt::Display) -> Self {
        Self::new(code, format!("{field}: {what}")).about(field)
    }

    /// A field without which nothing can be done.
    pub(crate) fn missing(field: &str) -> Self {
        Self::new(Code::MissingField, format!("{field} is missing")).about(field)
    }

    /// Another node works for the account.
    fn not_owner(owner: Option<Owner>, detail: String) -> Self {
        let detail = match &owner {
            Some(Owner { node, remaining, .. }) => format!(
                "node {node} works for the account; if it is gone, its lease ends within {} s, and \
                 another node takes over",
                remaining.as_secs() + 1
            ),
            None => detail,
        };
        let owner = owner.and_then(|owner| owner.advertise_url);
        Self { owner, ..Self::new(Code::NotOwner, detail) }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what}"))
    }

    /// There is no node that takes new work.
    pub(crate) fn draining() -> Self {
        Self::new(Code::Draining, "the node is being stopped, and no other one is known")
    }

    /// Another node was asked, and may have done it.
    pub(crate) fn unheard(why: impl std::fmt::Display) -> Self {
        let detail =
            format!("the node that works for the account gave no answer, it may have heard: {why}");
        Self::new(Code::Unavailable, detail)
    }

    /// The node that works for the account was not reached, and this one does not serve the account.
    pub(crate) fn owner_unreached(url: &str) -> Self {
        let detail = format!("the node that works for the account was not reached at {url}");
        Self { owner: Some(url.to_owned()), ..Self::new(Code::NotOwner, detail) }
    }

    /// I13: as much is on its way to another node as may be.
    pub(crate) fn too_many_forwarded() -> Self {
        Self::new(
            Code::Unavailable,
            "too much is on its way to the node that works for the account",
        )
    }

    /// A defect of ours. What it was goes to the log, not to callers.
    pub(crate) fn defect() -> Self {
        Self::new(Code::Internal, "a defect; the log has more")
    }

    /// The body, with the name of the call.
    pub(crate) fn body(&self, trace_id: &str) -> ProblemBody {
        ProblemBody {
            r#type: format!("/docs/errors/{}", self.code.word()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            code: self.code.word(),
            detail: self.detail.clone(),
            field: self.field.clone(),
            trace_id: trace_id.to_owned(),
            retryable: self.code.is_retryable(),
            owner: self.owner.clone(),
            minimum: self.minimum.as_deref().cloned(),
            cap: self.cap.as_deref().cloned(),
            funds: self.funds.as_deref().cloned(),
        }
    }
}

/// The body is written by [`super::guard::with_trace_id`], which knows the call's name.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<InvalidId> for Problem {
    fn from(invalid: InvalidId) -> Self {
        Self::new(Code::InvalidField, invalid.to_string()).about(invalid.field)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => invalid.into(),
            StoreError::UnknownChain(_)
            | StoreError::UnknownSubmitter(_)
            | StoreError::OtherChain { .. } => Self::new(Code::UnknownSubmitter, error.to_string()),
            StoreError::Unavailable(_)
            | StoreError::CommitUnknown(_)
            | StoreError::Fenced(_)
            | StoreError::Unsafe(_) => Self::new(Code::StoreUnavailable, error.to_string()),
            StoreError::Defect(_) => {
                tracing::error!(%error, "store defect");
                Self::defect()
            }
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        let code = match error {
            CreateError::Invalid(invalid) => return invalid.into(),
            CreateError::Unserved(Unserved::UnknownSubmitter) => Code::UnknownSubmitter,
            CreateError::NonceMismatch { .. } => Code::NonceMismatch,
            CreateError::Expired => Code::Expired,
            CreateError::Refused(refusal) => return refusal.into(),
            CreateError::RequestIdConflict(_) => Code::RequestIdConflict,
            CreateError::Unserved(why) => return why.into(),
        };
        let field = match code {
            Code::UnknownSubmitter => Some("submitter"),
            Code::NonceMismatch => Some("rawTx"),
            Code::Expired => Some("validUntil"),
            Code::RequestIdConflict => Some("requestId"),
            _ => None,
        };
        Self { field: field.map(str::to_owned), ..Self::new(code, detail) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        let funds = refusal.funds.map(|FundsShort { needed, available }| {
            Box::new(MissingFunds { needed: needed.to_string(), available: available.to_string() })
        });
        let field = refusal.field.map(|field| field.path().to_owned());
        Self { field, funds, ..Self::new(code_of(refusal.kind), detail) }
    }
}

const fn code_of(refused: RefusalKind) -> Code {
    match refused {
        RefusalKind::WouldRevert => Code::WouldRevert,
        RefusalKind::InsufficientFunds => Code::InsufficientFunds,
        RefusalKind::GasTooLow => Code::GasTooLow,
        RefusalKind::GasAboveBlockLimit => Code::GasAboveBlockLimit,
        RefusalKind::GasAboveTxLimit => Code::GasAboveTxLimit,
        RefusalKind::TxTooLarge => Code::TxTooLarge,
        RefusalKind::FeeCapTooLow => Code::FeeCapTooLow,
        RefusalKind::InvalidTransaction => Code::InvalidTransaction,
    }
}

impl From<Unserved> for Problem {
    fn from(error: Unserved) -> Self {
        let detail = error.to_string();
        let code = match error {
            Unserved::UnknownSubmitter => Code::UnknownSubmitter,
            Unserved::NotOwner(owner) => return Self::not_owner(owner, detail),
            Unserved::Busy => Code::Busy,
            Unserved::Unavailable(_) => Code::Unavailable,
        };
        Self::new(code, detail)
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ActError::UnknownTx => return Self::not_found("transaction"),
            ActError::WrongChain { .. } => Code::WrongChain,
            ActError::Forbidden(why) => match why {
                Forbidden::NoSlot => Code::TxNotAllocated,
                Forbidden::Mined => Code::TxMined,
                Forbidden::Final => Code::TxFinal,
                Forbidden::NoKey => Code::NoKey,
                Forbidden::SignedByCaller => Code::SignedByCaller,
                Forbidden::PayloadFixed => Code::PayloadFixed,
                Forbidden::Closing => Code::TxClosing,
            },
            ActError::AboveCap(reached) => {
                let cap = Box::new(FeeCapReached {
                    name: reached.cap.name(),
                    allows: reached.allows.to_string(),
                    needed: reached.needed.to_string(),
                });
                return Self { cap: Some(cap), ..Self::new(Code::FeeCap, detail) };
            }
            ActError::FeeTooLow(least) => {
                let minimum = Box::new(MinimumFees {
                    max_fee_per_gas: least.max_fee.to_string(),
                    max_priority_fee_per_gas: least.max_priority_fee.map(|tip| tip.to_string()),
                });
                return Self {
                    minimum: Some(minimum),
                    ..Self::new(Code::FeeTooLowToReplace, detail)
                };
            }
            ActError::NoTip(_) => {
                return Self::new(Code::InvalidFees, detail).about("maxPriorityFeePerGas");
            }
            ActError::Refused(refusal) => {
                // The body of an action names no submitter.
                let field = refusal.field.filter(|field| *field != RefusedField::Submitter);
                return Refusal { field, ..refusal }.into();
            }
            ActError::CannotResume(_) => Code::CannotResume,
            ActError::CannotChangeMode(_) => Code::CannotChangeMode,
            ActError::Nonces(_) => Code::NoncesRefused,
            ActError::Unserved(why) => return why.into(),
        };
        Self::new(code, detail)
    }
}

impl From<ReserveError> for Problem {
    fn from(error: ReserveError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ReserveError::Disabled | ReserveError::StrictMode => Code::ReservationsDisabled,
            ReserveError::NotActive(_) => Code::SubmitterNotActive,
            ReserveError::HoldOutOfRange { .. } => Code::InvalidDuration,
            ReserveError::TooMany => Code::TooManyReservations,
            ReserveError::StaleToken => Code::StaleOwnerToken,
            ReserveError::Unserved(why) => return why.into(),
        };
        Self::new(code, detail)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_model::ChainId;
    use tollgate_model::bump::{Cap, CapReached, Minimum, NoTip};
    use tollgate_model::mode::CannotChangeMode;
    use tollgate_model::nonce::Unexplained;
    use tollgate_model::port::signer::TxKind;
    use tollgate_model::reconcile::CannotResume;

    use super::*;

    #[test]
    fn why_nothing_was_done_has_a_code_of_its_own() {
        let nonce = tollgate_model::Nonce::MIN;
        let allows = tollgate_model::GasPrice::MAX;
        let reached = CapReached { cap: Cap::ChainPrice, allows, needed: u128::MAX };
        let least = Minimum { max_fee: 1, max_priority_fee: None };
        let gap = Unexplained { mined: nonce, at_least: nonce, at_most: nonce };
        for (error, word, status) in [
            (ActError::UnknownTx, "not_found", 404),
            (ActError::WrongChain { of: ChainId::MIN, own: ChainId::MAX }, "wrong_chain", 422),
            (ActError::Unserved(Unserved::UnknownSubmitter), "unknown_submitter", 422),
            (Forbidden::NoSlot.into(), "tx_not_allocated", 409),
            (Forbidden::Mined.into(), "tx_mined", 409),
            (Forbidden::Final.into(), "tx_final", 409),
            (Forbidden::NoKey.into(), "no_key", 409),
            (Forbidden::SignedByCaller.into(), "signed_by_caller", 409),
            (Forbidden::PayloadFixed.into(), "payload_fixed", 409),
            (Forbidden::Closing.into(), "tx_closing", 409),
            (ActError::AboveCap(reached), "fee_cap", 409),
            (ActError::FeeTooLow(least), "fee_too_low_to_replace", 422),
            (NoTip { kind: TxKind::Legacy }.into(), "invalid_fees", 422),
            (CannotResume::ChainBehind(gap).into(), "cannot_resume", 409),
            (CannotChangeMode::InUse { open: 1, reserved: 0 }.into(), "cannot_change_mode", 409),
            (ActError::Unserved(Unserved::NotOwner(None)), "not_owner", 409),
            (ActError::Unserved(Unserved::Busy), "busy", 429),
            (
                ActError::Unserved(Unserved::Unavailable(tollgate_engine::Cause::Other(
                    "later".to_owned(),
                ))),
                "unavailable",
                503,
            ),
        ] {
            let code = Problem::from(error).code;
            assert_eq!((code.word(), code.status().as_u16()), (word, status));
        }
        assert_eq!(Problem::from(CreateError::Expired).code, Code::Expired);
        for kind in RefusalKind::ALL {
            let (field, funds) = (Some(RefusedField::Gas), None);
            let refusal = Refusal { kind, field, detail: "no".to_owned(), funds };
            for problem in [
                Problem::from(CreateError::Refused(refusal.clone())),
                Problem::from(ActError::Refused(refusal)),
            ] {
                let shown = (problem.code.word(), problem.code.status().as_u16());
                assert_eq!(shown, (kind.name(), 422));
                assert_eq!(problem.field.as_deref(), Some("payload.gas"));
                assert_eq!(problem.detail, "payload.gas: no");
                assert!(!problem.code.is_retryable());
            }
        }
    }
}
