-- A page of failed transactions, newest first, found through their completions.
select m.*, a.tx_hash as newest_hash, d.diagnosis,
       r.transaction_index, r.effective_gas_price, r.l1_fee, r.contract_address
  from tx_completion f
 cross join lateral (
   select t.*
     from managed_tx t
    where t.tx_id = f.tx_id
      and ($5::timestamptz is null or t.created_at >= $5)
      and ($6::timestamptz is null or t.created_at < $6)
    limit 1
 ) as m
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
  left join tx_receipt r on r.tx_id = m.tx_id and r.block_hash = m.block_hash
 where f.state >= 50
   and ($1::uuid is null or f.tx_id < $1)
   and ($8::uuid is null or f.tx_id >= $8)
   and ($2::bigint is null or f.chain_id = $2)
   and ($3::bytea is null or f.submitter = $3)
   and ($4::smallint[] is null or f.state = any ($4))
 order by f.tx_id desc
 limit $7
