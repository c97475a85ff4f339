-- A page of transactions, newest first.
select m.*, a.tx_hash as newest_hash, d.diagnosis,
       r.transaction_index, r.effective_gas_price, r.l1_fee, r.contract_address
  from managed_tx m
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
  left join tx_receipt r on r.tx_id = m.tx_id and r.block_hash = m.block_hash
 where ($1::uuid is null or m.tx_id < $1)
   and ($8::uuid is null or m.tx_id >= $8)
   and ($2::bigint is null or m.chain_id = $2)
   and ($3::bytea is null or m.submitter = $3)
   and ($4::smallint[] is null or m.state = any ($4))
   and ($5::timestamptz is null or m.created_at >= $5)
   and ($6::timestamptz is null or m.created_at < $6)
 order by m.tx_id desc
 limit $7
