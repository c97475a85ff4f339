-- Takes a lease that nobody ever had. No row: somebody was faster.
insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at)
values ($1, $2, $3, 1, clock_timestamp() + $4::bigint * interval '1 microsecond')
on conflict do nothing
returning fencing_token
