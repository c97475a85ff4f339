-- A page of open transactions, newest first. The set is found first, through the index of open work, so that no plan walks finished rows in search of open ones.
with found as materialized (
  select o.tx_id
    from managed_tx o
   where o.finished_at is null
     and ($1::uuid is null or o.tx_id < $1)
     and ($8::uuid is null or o.tx_id >= $8)
     and ($2::bigint is null or o.chain_id = $2)
     and ($3::bytea is null or o.submitter = $3)
     and ($4::smallint[] is null or o.state = any ($4))
     and ($5::timestamptz is null or o.created_at >= $5)
     and ($6::timestamptz is null or o.created_at < $6)
)
select m.*, a.tx_hash as newest_hash, d.diagnosis,
       r.transaction_index, r.effective_gas_price, r.l1_fee, r.contract_address
  from (select tx_id from found order by tx_id desc limit $7) as f
  join managed_tx m on m.tx_id = f.tx_id
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
  left join tx_receipt r on r.tx_id = m.tx_id and r.block_hash = m.block_hash
 order by m.tx_id desc
