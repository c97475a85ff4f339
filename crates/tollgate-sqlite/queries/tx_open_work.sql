-- A page of a submitter's open transactions, oldest first, after ?3.
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
         where r.tx_id = t.tx_id and r.block_hash = t.block_hash) as contract_address,
       (select p.since from tx_patience p where p.tx_id = t.tx_id) as patience_since,
       (select p.resends from tx_patience p where p.tx_id = t.tx_id) as patience_resends,
       coalesce((select c.new_fork from confirmation c where c.tx_id = t.tx_id), 0) as new_fork,
       (select u.since from tx_unproven u where u.tx_id = t.tx_id) as unproven_since
  from managed_tx t indexed by managed_tx_open
 where t.chain_id = ?1 and t.submitter = ?2 and t.tx_id > ?3 and t.finished_at is null
 order by t.tx_id limit ?4
