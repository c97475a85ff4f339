create table lease (
  submitter bytea primary key, fencing_token bigint not null, expires_at timestamptz not null
) with (fillfactor = 50);
create table cursor_of (submitter bytea primary key, next_nonce bigint not null) with (fillfactor = 50);
create table tx (
  tx_id uuid primary key, submitter bytea not null, request_id text not null, nonce bigint not null,
  payload bytea not null, tx_hash bytea not null, state smallint not null, fencing_token bigint not null,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now()
) with (fillfactor = 50);
create unique index tx_nonce on tx (submitter, nonce);
create unique index tx_request on tx (submitter, request_id);
create index tx_hash on tx (tx_hash);
create function assert_fence(s bytea, f bigint) returns void language plpgsql as $$
begin
  perform 1 from lease where submitter = s and fencing_token = f and expires_at > now() for share;
  if not found then raise exception 'fenced'; end if;
end $$;
