-- Keeps what the newest receipts say, one row for each transaction.
insert into tx_receipt (tx_id, block_hash, transaction_index, effective_gas_price, l1_fee, contract_address)
select u.tx_id, u.block_hash, u.transaction_index, u.effective_gas_price, u.l1_fee, u.contract_address
  from unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[])
       as u (tx_id, block_hash, transaction_index, effective_gas_price, l1_fee, contract_address)
    on conflict (tx_id) do update
   set block_hash = excluded.block_hash, transaction_index = excluded.transaction_index,
       effective_gas_price = excluded.effective_gas_price, l1_fee = excluded.l1_fee,
       contract_address = excluded.contract_address
