-- A page of a submitter's open transactions, oldest first.
select m.*, a.tx_hash as newest_hash, d.diagnosis,
       r.transaction_index, r.effective_gas_price, r.l1_fee, r.contract_address,
       p.since as patience_since, p.resends as patience_resends, u.since as unproven_since,
       coalesce(c.new_fork, false) as new_fork
  from managed_tx m
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
  left join tx_receipt r on r.tx_id = m.tx_id and r.block_hash = m.block_hash
  left join tx_patience p on p.tx_id = m.tx_id
  left join tx_unproven u on u.tx_id = m.tx_id
  left join confirmation c on c.tx_id = m.tx_id
 where m.chain_id = $1 and m.submitter = $2 and m.finished_at is null
   and ($3::uuid is null or m.tx_id > $3)
 order by m.tx_id
 limit $4
