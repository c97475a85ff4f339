-- What a receipt says beyond its place and status, for the block that it is in: it counts only while
-- managed_tx has that block, so that what a node of the version before writes there is never joined
-- with the receipt of another block. Not columns of managed_tx, as for tx_diagnosis.
create table tx_receipt (
  tx_id uuid primary key,
  block_hash bytea not null check (length(block_hash) = 32),
  transaction_index bigint check (transaction_index >= 0),
  effective_gas_price bigint check (effective_gas_price >= 0),
  l1_fee text,
  contract_address bytea check (length(contract_address) = 20)
);
