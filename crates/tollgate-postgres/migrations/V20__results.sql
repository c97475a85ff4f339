-- The time of the block that holds a receipt, and the feed's entries about stuck transactions. Nodes of the
-- version before read and write neither: their receipts have no block time, and their changes no entries.
alter table tx_receipt add column block_time timestamptz;
-- tx_record with the block time. A new view: nodes of the version before have statements prepared on the
-- columns of the old one.
create view tx_full_record as
select m.*, a.tx_hash as newest_hash, d.diagnosis,
       r.transaction_index, r.effective_gas_price, r.l1_fee, r.contract_address, r.block_time
  from managed_tx m
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
  left join tx_receipt r on r.tx_id = m.tx_id and r.block_hash = m.block_hash;
-- I10. Numbered from the counter of completions. The state is the one that the change led to: STUCK, or
-- the state after it. Not in tx_completion, whose readers of the version before expect final states.
create table tx_stuck_entry (
  seq bigint primary key,
  tx_id uuid not null,
  chain_id bigint not null,
  submitter bytea not null,
  request_id text,
  state smallint not null check (state not between 40 and 59),
  tx_hash bytea,
  at timestamptz not null default clock_timestamp()
);
create index tx_stuck_entry_chain on tx_stuck_entry (chain_id, seq);
