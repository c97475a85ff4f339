//! Log lines for machines: one flat JSON object each. The fields of the spans around an event (the trace id of the
//! request, the chain of the engine) stand beside the event's own.

use std::fmt::{self, Debug};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes each field as `,"name":value`.
pub(super) struct JsonFields;

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut written = Written { writer, result: Ok(()) };
        fields.record(&mut written);
        written.result
    }
}

/// Writes an event as one object.
pub(super) struct FlatJson;

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        writer.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut writer)?;
        write!(
            writer,
            "\",\"level\":\"{}\",\"target\":\"{}\"",
            metadata.level(),
            metadata.target()
        )?;
        let mut own = String::new();
        context.format_fields(Writer::new(&mut own), event)?;
        writer.write_str(&own)?;
        for span in context.event_scope().into_iter().flatten() {
            // A span has one field; the event's own wins, so that no name stands twice.
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>()
                && !own.contains(name_of(fields))
            {
                writer.write_str(fields)?;
            }
        }
        writer.write_str("}\n")
    }
}

/// The first name of formatted fields, with its quotes and its colon.
fn name_of(fields: &str) -> &str {
    fields.find("\":").map_or(fields, |end| &fields[..end + 2])
}

struct Written<'writer> {
    writer: Writer<'writer>,
    result: fmt::Result,
}

impl Written<'_> {
    fn put(&mut self, field: &Field, value: &Value) {
        let name = field.name();
        self.result = self.result.and_then(|()| write!(self.writer, ",\"{name}\":{value}"));
    }
}

impl Visit for Written<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, &Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, &Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, &Value::from(format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn event_is_one_flat_object_with_the_fields_of_its_spans() {
        let lines = Lines::default();
        let made = lines.clone();
        let log = tracing_subscriber::fmt().fmt_fields(JsonFields).event_format(FlatJson);
        let log = log.with_writer(move || made.clone()).finish();
        tracing::subscriber::with_default(log, || {
            let _engine = tracing::error_span!("engine", chain_id = 7_u64).entered();
            let _request = tracing::error_span!("request", trace_id = "a\"b\n").entered();
            let nonce = Option::<u64>::None;
            tracing::info!(chain_id = 7_u64, tx_id = %"01", nonce, duration_ms = 1.5, "a \"message\" of {}\n", 2);
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(text.matches("chain_id").count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        let mut fields = line.as_object().unwrap().clone();
        assert!(fields.remove("timestamp").unwrap().as_str().unwrap().ends_with('Z'));
        let expected = serde_json::json!({
            "level": "INFO",
            "target": "tollgate::cli::logging::json::tests",
            "message": "a \"message\" of 2\n",
            "chain_id": 7, "trace_id": "a\"b\n", "tx_id": "01", "duration_ms": 1.5,
        });
        assert_eq!(Value::Object(fields), expected);
    }
}
