-- Makes a submitter known; one that is known stays as it is: its cursor (I4), and its mode, which changes under the fence alone.
insert into submitter_cursor (chain_id, submitter, next_nonce, mode, status, updated_at)
values (?1, ?2, ?3, ?4, 1, db_now())
on conflict (chain_id, submitter) do nothing
