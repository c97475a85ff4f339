//! Style sheet, script and icon. They are part of the binary, and their names carry the hash of their
//! content, so that browsers may keep them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use tollgate_api::ErrorCode;

use crate::http::Problem;

const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Characters of the hash in a name.
const HASH_CHARS: usize = 16;

/// A file of the pages.
pub(crate) struct Asset {
    /// `/assets/` and a name with the hash of the content.
    pub(crate) path: String,
    content_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(name: &str, extension: &str, content_type: &'static str, content: &'static str) -> Self {
        let mut hash = format!("{:x}", HexBytes(&Sha256::digest(content.as_bytes())));
        hash.truncate(HASH_CHARS);
        Self { path: format!("/assets/{name}.{hash}.{extension}"), content_type, content }
    }
}

struct HexBytes<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The assets.
pub(crate) struct Assets {
    pub(crate) style: Asset,
    pub(crate) script: Asset,
    pub(crate) icon: Asset,
    pub(crate) docs_style: Asset,
    pub(crate) docs_script: Asset,
}

pub(crate) static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let (css, js) = ("text/css; charset=utf-8", "text/javascript; charset=utf-8");
    Assets {
        style: Asset::new("pages", "css", css, include_str!("../../assets/pages.css")),
        script: Asset::new("pages", "js", js, include_str!("../../assets/pages.js")),
        icon: Asset::new("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg")),
        docs_style: Asset::new("docs", "css", css, include_str!("../../assets/docs.css")),
        docs_script: Asset::new("docs", "js", js, include_str!("../../assets/docs.js")),
    }
});

impl Assets {
    fn find(&self, path: &str) -> Option<&Asset> {
        let all = [&self.style, &self.script, &self.icon, &self.docs_style, &self.docs_script];
        all.into_iter().find(|asset| asset.path == path)
    }
}

pub(crate) async fn asset(Path(name): Path<String>) -> Result<Response, Problem> {
    let found = ASSETS.find(&format!("/assets/{name}"));
    let asset = found.ok_or_else(|| Problem::new(ErrorCode::NotFound, "there is no such file"))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type)),
        (header::CACHE_CONTROL, FOR_EVER),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, asset.content).into_response())
}
