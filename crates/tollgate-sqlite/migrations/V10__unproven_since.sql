-- Since when searches bring no proof of what is in a transaction's slot, so that a new owner is as patient
-- as the one before it was. A table of its own, as for tx_patience.
create table tx_unproven (
  tx_id blob not null primary key check (length(tx_id) = 16),
  since integer not null
) strict, without rowid;
