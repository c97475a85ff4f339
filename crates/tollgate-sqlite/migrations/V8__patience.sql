-- How long a transaction has been waited for as the head of its line, so that a new owner goes on where
-- the one before it was. A table of its own, as for tx_diagnosis.
create table tx_patience (
  tx_id blob not null primary key check (length(tx_id) = 16),
  since integer not null,
  resends integer not null check (resends >= 0)
) strict, without rowid;

-- A change of the transaction that can't be written.
insert into tx_state (code, state, sub_state) values (69, 'STUCK', 'UNWRITABLE');
