-- What a receipt says beyond its place and status, for the block that it is in: it counts only while
-- managed_tx has that block. A table of its own, as in tollgate-postgres.
create table tx_receipt (
  tx_id blob not null primary key check (length(tx_id) = 16),
  block_hash blob not null check (length(block_hash) = 32),
  transaction_index integer check (transaction_index >= 0),
  effective_gas_price integer check (effective_gas_price >= 0),
  l1_fee text,
  contract_address blob check (length(contract_address) = 20)
) strict, without rowid;
