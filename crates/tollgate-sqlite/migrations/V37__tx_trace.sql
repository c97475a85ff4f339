-- The traces of the requests that had one (the header traceparent): 16 bytes of trace id, 8 of span id, flags. Not a
-- column of managed_tx: nodes of the version before have `select m.*` prepared, and most transactions have none.
create table tx_trace (
  tx_id blob primary key,
  trace blob not null check (length(trace) = 25)
) strict, without rowid;
