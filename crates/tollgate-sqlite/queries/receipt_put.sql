-- Keeps what the newest receipt of a transaction says.
insert into tx_receipt (tx_id, block_hash, transaction_index, effective_gas_price, l1_fee,
                        contract_address)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (tx_id) do update
  set block_hash = excluded.block_hash, transaction_index = excluded.transaction_index,
      effective_gas_price = excluded.effective_gas_price, l1_fee = excluded.l1_fee,
      contract_address = excluded.contract_address
