-- name: completion_page
-- A page of one chain's completions after $2, and the feed's end in the same snapshot; one row without a completion if there is none. Compared as a pair, so that no plan walks along other chains' completions.
select k.last_seq, f.seq, f.tx_id, f.chain_id, f.submitter, f.request_id, f.state, f.tx_hash, f.at
  from completion_counter k
  left join lateral (
    select c.seq, c.tx_id, c.chain_id, c.submitter, c.request_id, c.state, c.tx_hash, c.at
      from tx_completion c
     where (c.chain_id, c.seq) > ($1, $2)
       and (c.chain_id, c.seq) <= ($1, 9223372036854775807)
     order by c.chain_id, c.seq
     limit $3
  ) as f on true
 order by f.seq

-- name: completion_end
-- The number of a chain's last completion; 0 before the first.
select coalesce((select c.seq
                   from tx_completion c
                  where c.chain_id = $1
                  order by c.seq desc
                  limit 1), 0) as last_seq

-- name: outbox_page
-- The oldest events that were not delivered yet.
select id, kind, key, tx_id, body, created_at from outbox order by id limit $1

-- name: outbox_forget
-- Deletes delivered events.
delete from outbox where id = any ($1::bigint[])
