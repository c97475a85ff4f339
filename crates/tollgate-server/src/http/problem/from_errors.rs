//! The problem that each error of the model, the store and the engine becomes.

use tollgate_api::{ErrorCode, FeeCapReached, MinimumFees, MissingFunds};
use tollgate_engine::{ActError, CreateError, ReserveError, Unserved};
use tollgate_model::authorization::AuthorizationRefused;
use tollgate_model::fill::NoncesRefused;
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::StoreError;
use tollgate_model::refusal::{FundsShort, Refusal, RefusalKind, RefusedField};
use tollgate_model::stuck::Forbidden;

use super::Problem;

impl Problem {
    /// A request that no worker carried out. `field` names the submitter in the request.
    fn unserved(unserved: Unserved, detail: String, field: Option<&str>) -> Self {
        match unserved {
            Unserved::UnknownSubmitter => {
                Self::new(ErrorCode::UnknownSubmitter, detail).about_one(field)
            }
            Unserved::NotOwner(owner) => Self::not_owner(owner, detail),
            Unserved::Busy => Self::new(ErrorCode::Busy, detail),
            Unserved::Unavailable(_) => Self::new(ErrorCode::Unavailable, detail),
        }
    }

    /// Names the field that it is about, if there is one.
    fn about_one(self, field: Option<&str>) -> Self {
        match field {
            Some(field) => self.about(field),
            None => self,
        }
    }
}

impl From<InvalidValue> for Problem {
    fn from(invalid: InvalidValue) -> Self {
        Self::new(ErrorCode::InvalidField, invalid.to_string()).about(invalid.field)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => invalid.into(),
            StoreError::UnknownChain(_)
            | StoreError::UnknownSubmitter(_)
            | StoreError::OtherChain { .. } => {
                Self::new(ErrorCode::UnknownSubmitter, error.to_string())
            }
            StoreError::Unavailable(_)
            | StoreError::CommitUnknown(_)
            | StoreError::Fenced(_)
            | StoreError::Unsafe(_) => Self::new(ErrorCode::StoreUnavailable, error.to_string()),
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
        let (code, field) = match error {
            CreateError::Invalid(invalid) => return invalid.into(),
            CreateError::Refused(refusal) => return refusal.into(),
            CreateError::Unserved(unserved) => {
                return Self::unserved(unserved, detail, Some("submitter"));
            }
            CreateError::NonceMismatch { .. } => (ErrorCode::NonceMismatch, "rawTx"),
            CreateError::Authorization { place, why } => {
                let code = match why {
                    AuthorizationRefused::Early { .. } => ErrorCode::AuthorizationEarly,
                    _ => ErrorCode::AuthorizationRefused,
                };
                let listed = |place| format!("payload.authorizationList[{place}]");
                let field = place.map_or_else(|| "rawTx".to_owned(), listed);
                return Self::of_field(code, &field, detail);
            }
            CreateError::Disabled => (ErrorCode::SubmitterDisabled, "submitter"),
            CreateError::NoPrivateEndpoint => (ErrorCode::NoPrivateEndpoint, "route"),
            CreateError::BadSchedule(_) => (ErrorCode::InvalidTime, "notBefore"),
            CreateError::Expired => (ErrorCode::Expired, "validUntil"),
            CreateError::RequestIdConflict(_) => (ErrorCode::RequestIdConflict, "requestId"),
        };
        Self::new(code, detail).about(field)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        let mut problem = Self::new(code_of(refusal.kind), detail)
            .about_one(refusal.field.map(RefusedField::path));
        problem.body.funds = refusal.funds.map(|FundsShort { needed, available }| MissingFunds {
            needed: needed.to_string(),
            available: available.to_string(),
        });
        problem
    }
}

const fn code_of(refused: RefusalKind) -> ErrorCode {
    match refused {
        RefusalKind::WouldRevert => ErrorCode::WouldRevert,
        RefusalKind::InsufficientFunds => ErrorCode::InsufficientFunds,
        RefusalKind::GasTooLow => ErrorCode::GasTooLow,
        RefusalKind::GasAboveBlockLimit => ErrorCode::GasAboveBlockLimit,
        RefusalKind::GasAboveTxLimit => ErrorCode::GasAboveTxLimit,
        RefusalKind::TxTooLarge => ErrorCode::TxTooLarge,
        RefusalKind::FeeCapTooLow => ErrorCode::FeeCapTooLow,
        RefusalKind::InvalidTransaction => ErrorCode::InvalidTransaction,
        RefusalKind::ValueAboveCap => ErrorCode::ValueAboveCap,
        RefusalKind::CallNotAllowed => ErrorCode::CallNotAllowed,
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        let detail = error.to_string();
        let field = match &error {
            ActError::WrongChain { .. } => Some("txId"),
            ActError::Forbidden(Forbidden::PayloadFixed) => Some("payload"),
            ActError::CannotChangeMode(_) => Some("mode"),
            ActError::Nonces(NoncesRefused::Backward { .. })
            | ActError::Nonces(NoncesRefused::TooLong { .. })
            | ActError::Nonces(NoncesRefused::AboveCursor { .. }) => Some("last"),
            ActError::Nonces(NoncesRefused::NoKey) => Some("with"),
            ActError::Nonces(NoncesRefused::NotForward { .. })
            | ActError::Nonces(NoncesRefused::BeyondCounts { .. }) => Some("nextNonce"),
            _ => None,
        };
        let code = match error {
            ActError::UnknownTx => return Self::not_found("transaction", "txId"),
            ActError::WrongChain { .. } => ErrorCode::WrongChain,
            ActError::Unserved(unserved) => return Self::unserved(unserved, detail, None),
            ActError::Forbidden(why) => match why {
                Forbidden::NoSlot => ErrorCode::TxNotAllocated,
                Forbidden::Mined => ErrorCode::TxMined,
                Forbidden::Final => ErrorCode::TxFinal,
                Forbidden::NoKey => ErrorCode::NoKey,
                Forbidden::SignedByCaller => ErrorCode::SignedByCaller,
                Forbidden::PayloadFixed => ErrorCode::PayloadFixed,
                Forbidden::Closing => ErrorCode::TxClosing,
            },
            ActError::AboveCap(reached) => {
                let mut problem = Self::new(ErrorCode::FeeCap, detail);
                problem.body.cap = Some(FeeCapReached {
                    name: reached.cap.name().into(),
                    allows: reached.allows.to_string(),
                    needed: reached.needed.to_string(),
                });
                return problem;
            }
            ActError::FeeTooLow(least) => {
                let mut problem = Self::new(ErrorCode::FeeTooLowToReplace, detail);
                problem.body.minimum = Some(MinimumFees {
                    max_fee_per_gas: least.max_fee.to_string(),
                    max_priority_fee_per_gas: least.max_priority_fee.map(|tip| tip.to_string()),
                });
                return problem;
            }
            ActError::NoTip(_) => {
                return Self::new(ErrorCode::InvalidFees, detail).about("maxPriorityFeePerGas");
            }
            ActError::Refused(refusal) => {
                // The body of an action names no submitter.
                let field = refusal.field.filter(|field| *field != RefusedField::Submitter);
                return Refusal { field, ..refusal }.into();
            }
            ActError::CannotResume(_) => ErrorCode::CannotResume,
            ActError::CannotChangeMode(_) => ErrorCode::CannotChangeMode,
            ActError::Nonces(_) => ErrorCode::NoncesRefused,
        };
        Self::new(code, detail).about_one(field)
    }
}

impl From<ReserveError> for Problem {
    fn from(error: ReserveError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ReserveError::Disabled | ReserveError::StrictMode => ErrorCode::ReservationsDisabled,
            ReserveError::NotActive(_) => ErrorCode::SubmitterNotActive,
            ReserveError::HoldOutOfRange { .. } => ErrorCode::InvalidDuration,
            ReserveError::TooMany => ErrorCode::TooManyReservations,
            ReserveError::StaleToken => ErrorCode::StaleOwnerToken,
            ReserveError::Unserved(unserved) => {
                return Self::unserved(unserved, detail, Some("address"));
            }
        };
        let field = match code {
            ErrorCode::InvalidDuration => Some("holdSeconds"),
            ErrorCode::StaleOwnerToken => Some("ownerToken"),
            _ => None,
        };
        Self::new(code, detail).about_one(field)
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
    use tollgate_engine::Cause;

    #[test]
    fn every_refusal_of_an_action_has_its_own_code() {
        let nonce = tollgate_model::Nonce::MIN;
        let allows = tollgate_model::GasPrice::MAX;
        let reached = CapReached { cap: Cap::ChainPrice, allows, needed: u128::MAX };
        let least = Minimum { max_fee: 1, max_priority_fee: None };
        let gap = Unexplained { mined: nonce, at_least: nonce, at_most: nonce };
        for (error, name, status) in [
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
                ActError::Unserved(Unserved::Unavailable(Cause::Other("later".to_owned()))),
                "unavailable",
                503,
            ),
        ] {
            let code = Problem::from(error).code;
            assert_eq!((code.name(), code.status()), (name, status));
        }
        assert_eq!(Problem::from(CreateError::Expired).code, ErrorCode::Expired);
        for kind in RefusalKind::ALL {
            let (field, funds) = (Some(RefusedField::Gas), None);
            let refusal = Refusal { kind, field, detail: "no".to_owned(), funds };
            for problem in [
                Problem::from(CreateError::Refused(refusal.clone())),
                Problem::from(ActError::Refused(refusal)),
            ] {
                let shown = (problem.code.name(), problem.code.status());
                assert_eq!(shown, (kind.name(), 422));
                assert_eq!(problem.body.field.as_deref(), Some("payload.gas"));
                assert_eq!(problem.body.detail, "payload.gas: no");
                assert!(!problem.code.is_retryable());
            }
        }
    }
}
