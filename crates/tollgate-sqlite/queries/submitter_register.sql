-- Makes a submitter known; one that is known only changes its mode, never its cursor (I4).
insert into submitter_cursor (chain_id, submitter, next_nonce, mode, status, updated_at)
values (?1, ?2, ?3, ?4, 1, db_now())
on conflict (chain_id, submitter) do update set mode = excluded.mode, updated_at = db_now()
 where mode <> excluded.mode
