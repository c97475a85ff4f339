//! The author of a request, as handlers see it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue};
use tollgate_api::ErrorCode;
use tollgate_model::Text;
use tollgate_model::access::{ApiKey, KeyId, Rights, Role, Tenant};

use crate::http::problem::Problem;

/// Stands before the id of a key in a reason.
const AUTHOR_PREFIX: &str = "key:";

/// Whoever made a request. Each request that reaches a handler has one among its extensions; a request without
/// one is refused as a defect. Cheap to clone.
///
/// Handlers take it as an argument (`caller: Caller`), code with a request at hand as [`Caller::of`].
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    /// `None`: no key was asked for.
    key: Option<CallerKey>,
    rights: Rights,
    remote: Option<IpAddr>,
    /// Another node has checked that the caller may use the account of the request.
    is_vouched: bool,
}

#[derive(Clone, Debug)]
struct CallerKey {
    id: KeyId,
    name: Text<100>,
}

impl Caller {
    /// The caller with this key.
    pub(crate) fn with_key(key: &ApiKey, remote: Option<IpAddr>) -> Self {
        let named = CallerKey { id: key.id.clone(), name: key.name.clone() };
        let rights = key.rights.clone();
        Self(Arc::new(Facts { key: Some(named), rights, remote, is_vouched: false }))
    }

    /// A caller of a node that asks for no keys (`--no-auth`): it may do everything.
    pub(crate) fn without_key(remote: Option<IpAddr>) -> Self {
        Self(Arc::new(Facts { key: None, rights: Rights::all(), remote, is_vouched: false }))
    }

    #[cfg(test)]
    pub(crate) fn with_rights(rights: Rights) -> Self {
        Self(Arc::new(Facts { key: None, rights, remote: None, is_vouched: false }))
    }

    /// The same caller, whose account another node has checked.
    pub(crate) fn vouched(&self) -> Self {
        let Facts { key, rights, remote, .. } = &*self.0;
        let (key, rights) = (key.clone(), rights.clone());
        Self(Arc::new(Facts { key, rights, remote: *remote, is_vouched: true }))
    }

    /// The caller of a request.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, Problem> {
        // Fails closed: a route that was added beside the layer of access control answers nobody.
        extensions.get::<Self>().cloned().ok_or_else(Problem::defect)
    }

    /// The key that the caller has shown; `None` if the node asks for none.
    pub(crate) fn key_id(&self) -> Option<&KeyId> {
        self.0.key.as_ref().map(|key| &key.id)
    }

    /// The name of that key.
    pub(crate) fn key_name(&self) -> Option<&str> {
        self.0.key.as_ref().map(|key| key.name.as_str())
    }

    /// Roles, scope and tenant.
    pub(crate) fn rights(&self) -> &Rights {
        &self.0.rights
    }

    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.0.rights.tenant.as_ref()
    }

    /// The address of the connection: of a proxy, if there is one.
    pub(crate) fn remote(&self) -> Option<IpAddr> {
        self.0.remote
    }

    /// Returns whether another node has checked that the caller may use the account of the request.
    pub(crate) fn is_vouched(&self) -> bool {
        self.0.is_vouched
    }

    /// Nonces, tokens and attempts are shown to this caller.
    pub(crate) fn is_operator(&self) -> bool {
        self.0.rights.are_operators()
    }

    /// Refuses a caller that has none of these roles.
    pub(crate) fn require(&self, any_of: &[Role]) -> Result<(), Problem> {
        if any_of.iter().any(|role| self.0.rights.roles.allow(*role)) {
            return Ok(());
        }
        let names: Vec<&str> = any_of.iter().map(|role| role.name()).collect();
        let detail = format!(
            "the call needs a key with the role {}; this key has {}",
            names.join(" or "),
            self.0.rights.roles
        );
        Err(Problem::new(ErrorCode::Forbidden, detail))
    }

    /// The caller as another node is told of it.
    pub(crate) fn passed_on(&self) -> Option<HeaderValue> {
        let id = self.key_id()?;
        let text = match self.0.remote {
            Some(remote) => format!("{id} {remote}"),
            None => id.to_string(),
        };
        HeaderValue::try_from(text).ok()
    }

    /// The author of a create, for the first entry of the transaction's history; `None` where no key is asked for.
    pub(crate) fn create_author(&self) -> Option<Text<200>> {
        self.key_id().map(|_| Text::lossy(&self.author()))
    }

    /// A reason with its author before it. What does not fit any more is cut off at its end. Without keys nobody
    /// is known, and the reason stays as it is.
    pub(crate) fn audited(&self, reason: &Text<500>) -> Text<500> {
        match self.0.key {
            Some(_) => Text::lossy(&format!("{}: {reason}", self.author())),
            None => reason.clone(),
        }
    }

    /// The author of an action, for the audit trail: `key:ID NAME from ADDRESS`.
    pub(crate) fn author(&self) -> String {
        let mut text = match &self.0.key {
            Some(key) if key.name.as_str().is_empty() => format!("{AUTHOR_PREFIX}{}", key.id),
            Some(key) => format!("{AUTHOR_PREFIX}{} {}", key.id, key.name),
            None => "no key".to_owned(),
        };
        if let Some(remote) = self.0.remote {
            text.push_str(&format!(" from {remote}"));
        }
        text
    }
}

/// The key that [`Caller::audited`] has put before a reason. What stands before it is not written by callers.
pub(super) fn author_in(reason: &str) -> Option<KeyId> {
    let (_, rest) = reason.split_once(AUTHOR_PREFIX)?;
    KeyId::new(rest.split([' ', ':']).next()?).ok()
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.extensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn author_of_a_reason_is_the_first_key_in_it() {
        let of = |reason: &str| author_in(reason).map(|id| id.to_string());
        let id = Some("abcdefghijkm".to_owned());
        assert_eq!(of("key:abcdefghijkm night shift from 10.0.0.7: rotation"), id);
        assert_eq!(of("key:abcdefghijkm: rotation"), id);
        assert_eq!(of("from strict to pipelined: key:abcdefghijkm ops: key:zzzzzzzzzzzz"), id);
        for without in ["rotation", "", "key:", "key:short x", "drift"] {
            assert_eq!(of(without), None, "{without}");
        }
    }
}
