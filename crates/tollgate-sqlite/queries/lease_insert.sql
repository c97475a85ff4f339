-- The first lease of a submitter, for ?4 microseconds, with token 1.
insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at, updated_at)
values (?1, ?2, ?3, 1, db_now() + ?4, db_now())
