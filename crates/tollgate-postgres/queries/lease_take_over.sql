-- Second half of a takeover, under the lock of the first: a new owner and a new token (I4).
update submitter_lease
   set owner_node = $3,
       fencing_token = fencing_token + 1,
       expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond',
       updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2
returning fencing_token
