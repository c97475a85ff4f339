-- Replaces what was last found out about transactions.
insert into tx_diagnosis (tx_id, diagnosis)
select u.tx_id, u.diagnosis from unnest($1::uuid[], $2::text[]) as u (tx_id, diagnosis)
on conflict (tx_id) do update
   set diagnosis = excluded.diagnosis, updated_at = clock_timestamp()
