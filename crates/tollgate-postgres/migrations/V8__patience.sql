-- How long a transaction has been waited for as the head of its line, so that a new owner goes on where
-- the one before it was. Not columns of managed_tx, as for tx_diagnosis.
create table tx_patience (
  tx_id uuid primary key,
  since timestamptz not null,
  resends integer not null check (resends >= 0)
) with (fillfactor = 50);

-- A change of the transaction that can't be written.
insert into tx_state (code, state, sub_state) values (69, 'STUCK', 'UNWRITABLE');
