-- Replaces what was last found out about a transaction.
insert into tx_diagnosis (tx_id, diagnosis, updated_at) values (?1, ?2, db_now())
on conflict (tx_id) do update set diagnosis = excluded.diagnosis, updated_at = db_now()
