-- name: account_revision_next
-- Counts a change of an account. The lock of its row orders the changes.
update account_revision set value = value + 1 returning value

-- name: account_put
-- Writes an account under revision $12.
insert into account (chain_id, submitter, key_ref, label, "window", max_fee_per_gas, max_tx_fee, max_value,
                     allowed_calls, disabled, removed, revision, changed_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, clock_timestamp())
on conflict (chain_id, submitter) do update
  set key_ref = excluded.key_ref, label = excluded.label, "window" = excluded."window",
      max_fee_per_gas = excluded.max_fee_per_gas, max_tx_fee = excluded.max_tx_fee,
      max_value = excluded.max_value, allowed_calls = excluded.allowed_calls,
      disabled = excluded.disabled, removed = excluded.removed, revision = excluded.revision,
      changed_at = excluded.changed_at

-- name: account_get
-- One account.
select chain_id, submitter, key_ref, label, "window", max_fee_per_gas, max_tx_fee, max_value, allowed_calls, disabled,
       removed, revision
  from account where chain_id = $1 and submitter = $2

-- name: account_page
-- The accounts of chain $1 that changed after revision $2, at most $3, in the order of their changes.
select chain_id, submitter, key_ref, label, "window", max_fee_per_gas, max_tx_fee, max_value, allowed_calls, disabled,
       removed, revision
  from account where chain_id = $1 and revision > $2
 order by revision limit $3

-- name: account_open
-- Whether a transaction or a reserved nonce of a submitter is open.
select 1 where exists (select 1 from managed_tx
                        where chain_id = $1 and submitter = $2 and finished_at is null)
            or exists (select 1 from nonce_reservation
                        where chain_id = $1 and submitter = $2 and state <> 2 /* USED */)
