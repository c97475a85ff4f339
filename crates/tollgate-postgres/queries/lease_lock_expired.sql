-- First half of a takeover: waits for the writers that still hold the lease (I2). No row: still owned.
select 1
  from submitter_lease
 where chain_id = $1 and submitter = $2
   and expires_at + $3::bigint * interval '1 microsecond' <= clock_timestamp()
   for update
