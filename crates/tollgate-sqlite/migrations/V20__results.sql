-- The time of the block that holds a receipt, and the feed's entries about stuck transactions, as in
-- tollgate-postgres.
alter table tx_receipt add column block_time integer;
create view tx_full_record as
select tx_record.*,
       (select r.block_time from tx_receipt r
         where r.tx_id = tx_record.tx_id and r.block_hash = tx_record.block_hash) as block_time
  from tx_record;
create table tx_stuck_entry (
  seq integer primary key,
  tx_id blob not null check (length(tx_id) = 16),
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  request_id text,
  state integer not null check (state not between 40 and 59),
  tx_hash blob check (length(tx_hash) = 32),
  at integer not null
) strict;
create index tx_stuck_entry_chain on tx_stuck_entry (chain_id, seq);
