-- Replaces since when nothing is proven about a transaction's slot.
insert into tx_unproven (tx_id, since) values (?1, ?2)
on conflict (tx_id) do update set since = excluded.since
