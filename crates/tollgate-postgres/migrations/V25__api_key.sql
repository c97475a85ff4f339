-- Keys of callers. Only the hash of a secret is stored. A revoked key stays as a row, so that every node sees the
-- revocation. Nodes of the version before know no keys: they serve with --no-auth only.
-- Nothing was ever written into the table of the first version.
drop table api_key;
create table api_key (
  key_id text primary key check (length(key_id) = 12),
  name text not null check (length(name) <= 100),
  secret_hash bytea not null check (length(secret_hash) = 32),
  roles text not null check (length(roles) between 1 and 100),
  created_at timestamptz not null,
  created_by text not null check (length(created_by) <= 100),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  revision bigint not null unique
);

-- The number of the last change of any key. Its row lock puts the changes in the order of their numbers.
create table api_key_revision (value bigint not null);
insert into api_key_revision (value) values (0);
