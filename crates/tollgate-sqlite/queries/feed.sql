-- name: completion_page
-- A page of the feed after ?2: of chain ?1, or of all chains if it is null; with the entries about stuck transactions if ?4. The feed's end and the last removed number are read in the same snapshot; one row without an entry if there is none.
select f.seq, f.tx_id, f.chain_id, f.submitter, f.request_id, f.state, f.tx_hash, f.at, k.last_seq,
       (select removed_through from retention_state) as removed_through,
       m.payload, m.mined_hash, m.block_number, m.block_hash, m.gas_used, m.succeeded, m.revert_reason,
       m.transaction_index, m.effective_gas_price, m.l1_fee, m.contract_address, m.block_time
  from completion_counter k
  left join (
    select * from (
      select * from (
        select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
          from tx_completion indexed by tx_completion_chain
         where chain_id = ?1 and seq > ?2 order by seq limit ?3)
      union all
      select * from (
        select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
          from tx_completion not indexed
         where ?1 is null and seq > ?2 order by seq limit ?3)
      union all
      select * from (
        select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
          from tx_stuck_entry indexed by tx_stuck_entry_chain
         where ?4 and chain_id = ?1 and seq > ?2 order by seq limit ?3)
      union all
      select * from (
        select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
          from tx_stuck_entry not indexed
         where ?4 and ?1 is null and seq > ?2 order by seq limit ?3)
    ) order by seq limit ?3) as f on true
  left join tx_full_record m on m.tx_id = f.tx_id
 order by f.seq

-- name: completion_end
-- The number of the last entry of chain ?1, or of all chains if it is null; 0 before the first. Entries about stuck transactions count if ?2; over all chains they always do.
select max(
  coalesce((select last_seq from completion_counter where ?1 is null), 0),
  coalesce((select seq from tx_completion indexed by tx_completion_chain
             where chain_id = ?1 order by seq desc limit 1), 0),
  coalesce((select seq from tx_stuck_entry indexed by tx_stuck_entry_chain
             where ?2 and chain_id = ?1 order by seq desc limit 1), 0)) as last_seq
