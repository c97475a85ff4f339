-- Since when searches bring no proof of what is in a transaction's slot, so that a new owner is as patient
-- as the one before it was. A table of its own, as for tx_patience.
create table tx_unproven (
  tx_id uuid primary key,
  since timestamptz not null
);
