-- name: completion_page
-- A page of the feed after $2: of chain $1, or of all chains if it is null; with the entries about stuck transactions if $4. The feed's end and the last removed number are read in the same snapshot; one row without an entry if there is none. Compared as a pair, so that no plan walks along other chains' entries.
select k.last_seq, (select removed_through from retention_state) as removed_through, f.seq, f.tx_id, f.chain_id, f.submitter, f.request_id, f.state, f.tx_hash, f.at,
       m.payload, m.mined_hash, m.block_number, m.block_hash, m.gas_used, m.succeeded, m.revert_reason,
       m.transaction_index, m.effective_gas_price, m.l1_fee, m.contract_address, m.block_time
  from completion_counter k
  left join lateral (
    select *
      from (
      (select c.seq, c.tx_id, c.chain_id, c.submitter, c.request_id, c.state, c.tx_hash, c.at
         from tx_completion c
        where $1::bigint is not null
          and (c.chain_id, c.seq) > ($1, $2)
          and (c.chain_id, c.seq) <= ($1, 9223372036854775807)
        order by c.chain_id, c.seq
        limit $3)
       union all
      (select c.seq, c.tx_id, c.chain_id, c.submitter, c.request_id, c.state, c.tx_hash, c.at
         from tx_completion c
        where $1::bigint is null and c.seq > $2
        order by c.seq
        limit $3)
       union all
      (select s.seq, s.tx_id, s.chain_id, s.submitter, s.request_id, s.state, s.tx_hash, s.at
         from tx_stuck_entry s
        where $4::boolean and $1::bigint is not null
          and (s.chain_id, s.seq) > ($1, $2)
          and (s.chain_id, s.seq) <= ($1, 9223372036854775807)
        order by s.chain_id, s.seq
        limit $3)
       union all
      (select s.seq, s.tx_id, s.chain_id, s.submitter, s.request_id, s.state, s.tx_hash, s.at
         from tx_stuck_entry s
        where $4::boolean and $1::bigint is null and s.seq > $2
        order by s.seq
        limit $3)
      ) as e
     order by e.seq
     limit $3
  ) as f on true
  left join lateral (select * from tx_full_record t where t.tx_id = f.tx_id limit 1) as m on true
 order by f.seq

-- name: completion_end
-- The number of the last entry of chain $1, or of all chains if it is null; 0 before the first. Entries about stuck transactions count if $2; over all chains they always do.
select greatest(
  (select k.last_seq from completion_counter k where $1::bigint is null),
  (select c.seq from tx_completion c where c.chain_id = $1 order by c.seq desc limit 1),
  (select s.seq from tx_stuck_entry s where $2::boolean and s.chain_id = $1
    order by s.seq desc limit 1),
  0) as last_seq
