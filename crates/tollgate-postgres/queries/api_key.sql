-- name: api_key_revision_next
-- Counts a change of a key. The lock of its row orders the changes.
update api_key_revision set value = value + 1 returning value

-- name: api_key_put
-- Writes a key under revision $9. The time of its last use stays.
insert into api_key (key_id, name, secret_hash, roles, created_at, created_by, expires_at, revoked_at, revision,
                     tenant, scope_chains, scope_submitters, scope_pools, rate_per_second, rate_burst)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
on conflict (key_id) do update
  set name = excluded.name, secret_hash = excluded.secret_hash, roles = excluded.roles,
      expires_at = excluded.expires_at, revoked_at = excluded.revoked_at, revision = excluded.revision,
      tenant = excluded.tenant, scope_chains = excluded.scope_chains, scope_submitters = excluded.scope_submitters,
      scope_pools = excluded.scope_pools, rate_per_second = excluded.rate_per_second, rate_burst = excluded.rate_burst

-- name: api_key_get
-- One key.
select key_id, name, secret_hash, roles, created_at, created_by, expires_at, revoked_at, last_used_at, revision,
       tenant, scope_chains, scope_submitters, scope_pools, rate_per_second, rate_burst
  from api_key where key_id = $1

-- name: api_key_page
-- The keys that changed after revision $1, at most $2, in the order of their changes.
select key_id, name, secret_hash, roles, created_at, created_by, expires_at, revoked_at, last_used_at, revision,
       tenant, scope_chains, scope_submitters, scope_pools, rate_per_second, rate_burst
  from api_key where revision > $1 order by revision limit $2

-- name: api_key_touch
-- Sets when key $1 was last used, unless a later use is known.
update api_key set last_used_at = $2
 where key_id = $1 and (last_used_at is null or last_used_at < $2)
