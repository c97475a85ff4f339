-- Looks before it locks: who has the lease, and whether its time is over. No row: nobody ever had it.
select owner_node,
       fencing_token,
       expires_at > clock_timestamp() as valid,
       expires_at + $3::bigint * interval '1 microsecond' <= clock_timestamp() as takeable
  from submitter_lease
 where chain_id = $1 and submitter = $2
