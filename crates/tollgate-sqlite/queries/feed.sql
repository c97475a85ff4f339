-- name: completion_page
-- A page of the completions of chain ?1 after ?2, and the feed's end in the same snapshot; one row without a completion if there is none.
select f.seq, f.tx_id, f.chain_id, f.submitter, f.request_id, f.state, f.tx_hash, f.at, k.last_seq
  from completion_counter k
  left join (
    select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
      from tx_completion indexed by tx_completion_chain
     where chain_id = ?1 and seq > ?2 order by seq limit ?3) as f on true
 order by f.seq

-- name: completion_end
-- The number of the last completion of chain ?1; 0 before the first.
select coalesce((select seq
                   from tx_completion indexed by tx_completion_chain
                  where chain_id = ?1 order by seq desc limit 1), 0) as last_seq

-- name: outbox_page
-- The oldest events that were not delivered yet.
select id, kind, key, tx_id, body, created_at from outbox order by id limit ?1

-- name: outbox_forget
-- Deletes a delivered event.
delete from outbox where id = ?1
