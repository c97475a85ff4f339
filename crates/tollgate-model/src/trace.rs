//! The trace context of a caller: the header `traceparent` of W3C Trace Context.
//!
//! The context is stored beside a transaction and passed on; a node that records spans stores the id of its own span
//! in it. It is no part of the payload: a repeat of a request under another trace is the same request (I7).

use std::fmt;
use std::str::FromStr;

use crate::ids::InvalidValue;

/// The caller asked for the trace to be recorded.
const SAMPLED: u8 = 1;
/// The flags that are passed on: sampled, and that the trace id is random. The others have no meaning yet.
const KNOWN_FLAGS: u8 = SAMPLED | 2;

/// The 16 bytes that all spans of a trace share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The 8 bytes of one span.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// The span of a trace under which something is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace_id: TraceId,
    span_id: SpanId,
    flags: u8,
}

impl TraceId {
    /// `None` if all bytes are zero.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// `None` if all bytes are zero.
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    pub const fn bytes(self) -> [u8; 8] {
        self.0
    }
}

impl TraceParent {
    /// The bytes of the stored form: trace id, span id, flags.
    pub const BYTES: usize = 25;

    pub const fn new(trace_id: TraceId, span_id: SpanId, sampled: bool) -> Self {
        Self { trace_id, span_id, flags: if sampled { SAMPLED } else { 0 } }
    }

    pub const fn trace_id(self) -> TraceId {
        self.trace_id
    }

    pub const fn span_id(self) -> SpanId {
        self.span_id
    }

    /// True if the trace is recorded.
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Another span of the same trace.
    pub const fn with_span(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.trace_id.0);
        bytes[16..24].copy_from_slice(&self.span_id.0);
        bytes[24] = self.flags;
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidValue> {
        let read = || {
            let (trace_id, rest) = bytes.split_first_chunk::<16>()?;
            let (span_id, rest) = rest.split_first_chunk::<8>()?;
            let [flags] = rest else { return None };
            let (trace_id, span_id) = (TraceId::new(*trace_id)?, SpanId::new(*span_id)?);
            Some(Self { trace_id, span_id, flags: flags & KNOWN_FLAGS })
        };
        read().ok_or_else(|| invalid("is no stored trace context"))
    }
}

/// Reads a header of any version but `ff`: later versions only add parts behind the known ones.
impl FromStr for TraceParent {
    type Err = InvalidValue;

    fn from_str(header: &str) -> Result<Self, InvalidValue> {
        let read = || {
            let mut parts = header.splitn(5, '-');
            let [version] = hex::<1>(parts.next()?)?;
            let trace_id = TraceId::new(hex(parts.next()?)?)?;
            let span_id = SpanId::new(hex(parts.next()?)?)?;
            let [flags] = hex::<1>(parts.next()?)?;
            let is_known = version < 0xff && (version > 0 || parts.next().is_none());
            is_known.then_some(Self { trace_id, span_id, flags: flags & KNOWN_FLAGS })
        };
        read()
            .ok_or_else(|| invalid("must be 00-, 32 hex digits, -, 16 hex digits, -, 2 hex digits"))
    }
}

fn invalid(problem: &str) -> InvalidValue {
    InvalidValue::new("traceparent", problem)
}

/// Bytes of lower-case hexadecimal digits, as many as are wanted.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? * 16 + digit(pair[1])?;
    }
    Some(bytes)
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// The header, of version 00.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn header_is_passed_on_as_it_came() {
        for flags in ["00", "01", "02", "03"] {
            let header = format!("00-{TRACE}-{SPAN}-{flags}");
            let read: TraceParent = header.parse().unwrap();
            assert_eq!(read.to_string(), header);
            assert_eq!(read.is_sampled(), ["01", "03"].contains(&flags));
            assert_eq!(
                (read.trace_id().to_string(), read.span_id().to_string()),
                (TRACE.into(), SPAN.into())
            );
        }
    }

    #[test]
    fn later_version_is_read_as_version_00_and_flags_without_a_meaning_are_dropped() {
        let ours = format!("00-{TRACE}-{SPAN}-01");
        for header in [
            format!("cc-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like"),
            format!("00-{TRACE}-{SPAN}-f9"),
        ] {
            assert_eq!(header.parse::<TraceParent>().unwrap().to_string(), ours, "{header}");
        }
    }

    #[test]
    fn header_that_the_standard_calls_invalid_is_refused() {
        let zeros = "0".repeat(32);
        for header in [
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", &SPAN[1..]),
            format!("0-{TRACE}-{SPAN}-01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00-{}é-{SPAN}-01", &TRACE[..30]),
        ] {
            assert!(header.parse::<TraceParent>().is_err(), "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn stored_form_and_header_are_read_as_they_were_written(
            trace in any::<[u8; 16]>(), span in any::<[u8; 8]>(), sampled in any::<bool>(),
        ) {
            let (Some(trace_id), Some(span_id)) = (TraceId::new(trace), SpanId::new(span)) else {
                return Ok(());
            };
            let context = TraceParent::new(trace_id, span_id, sampled);
            prop_assert_eq!(TraceParent::from_bytes(&context.to_bytes()), Ok(context));
            prop_assert_eq!(context.to_string().parse(), Ok(context));
        }

        #[test]
        fn any_text_and_bytes_are_read_or_refused(text in ".{0,70}", bytes in any::<Vec<u8>>()) {
            if let Ok(read) = text.parse::<TraceParent>() {
                prop_assert_eq!(read.to_string().parse(), Ok(read));
            }
            let _ = TraceParent::from_bytes(&bytes);
        }
    }
}
