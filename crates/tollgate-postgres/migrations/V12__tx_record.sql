-- A transaction as it is read: its row, the hash of its newest attempt, the last diagnosis, and what the
-- receipt of its block says. Nodes of the version before don't know the view and are not affected by it.
create view tx_record as
select m.*, a.tx_hash as newest_hash, d.diagnosis,
       r.transaction_index, r.effective_gas_price, r.l1_fee, r.contract_address
  from managed_tx m
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
  left join tx_receipt r on r.tx_id = m.tx_id and r.block_hash = m.block_hash;
