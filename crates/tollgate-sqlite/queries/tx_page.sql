-- A page of transactions below ?3, newest first: of a submitter by its own index, else by id.
select * from (
  select t.tx_id, t.chain_id, t.submitter, t.request_id, t.nonce, t.payload, t.payload_digest,
         t.state, t.version, t.fencing_token, t.attempts,
         (select a.tx_hash from tx_attempt a where a.tx_id = t.tx_id and a.number = t.attempts)
           as newest_hash,
         t.next_resubmit_at, t.resubmits, t.last_error, t.mined_hash, t.block_number, t.block_hash,
         t.gas_used, t.succeeded, t.revert_reason, t.valid_until, t.created_at, t.updated_at,
         t.finished_at,
         (select d.diagnosis from tx_diagnosis d where d.tx_id = t.tx_id) as diagnosis,
         (select r.transaction_index from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as transaction_index,
         (select r.effective_gas_price from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as effective_gas_price,
         (select r.l1_fee from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as l1_fee,
         (select r.contract_address from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as contract_address
    from managed_tx t indexed by managed_tx_submitter
   where t.chain_id = ?1 and t.submitter = ?2 and t.tx_id < ?3 and t.tx_id >= ?8
     and (?4 is null or t.state in (select value from json_each(?4)))
     and (?5 is null or t.created_at >= ?5) and (?6 is null or t.created_at < ?6)
   order by t.tx_id desc limit ?7)
union all
select * from (
  select t.tx_id, t.chain_id, t.submitter, t.request_id, t.nonce, t.payload, t.payload_digest,
         t.state, t.version, t.fencing_token, t.attempts,
         (select a.tx_hash from tx_attempt a where a.tx_id = t.tx_id and a.number = t.attempts)
           as newest_hash,
         t.next_resubmit_at, t.resubmits, t.last_error, t.mined_hash, t.block_number, t.block_hash,
         t.gas_used, t.succeeded, t.revert_reason, t.valid_until, t.created_at, t.updated_at,
         t.finished_at,
         (select d.diagnosis from tx_diagnosis d where d.tx_id = t.tx_id) as diagnosis,
         (select r.transaction_index from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as transaction_index,
         (select r.effective_gas_price from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as effective_gas_price,
         (select r.l1_fee from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as l1_fee,
         (select r.contract_address from tx_receipt r
           where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as contract_address
    from managed_tx t
   where ?2 is null and (?1 is null or t.chain_id = ?1) and t.tx_id < ?3 and t.tx_id >= ?8
     and (?4 is null or t.state in (select value from json_each(?4)))
     and (?5 is null or t.created_at >= ?5) and (?6 is null or t.created_at < ?6)
   order by t.tx_id desc limit ?7)
order by 1 desc
