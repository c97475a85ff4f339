-- What a key is for, besides its roles. Empty text is no tenant, every chain, and every account. Nodes of the version
-- before check no keys, and keep these columns as they are.
alter table api_key add column tenant text not null default '' check (length(tenant) <= 40);
alter table api_key add column scope_chains text not null default '' check (length(scope_chains) <= 2000);
alter table api_key add column scope_submitters text not null default '' check (length(scope_submitters) <= 4300);
alter table api_key add column scope_pools text not null default '' check (length(scope_pools) <= 6500);
alter table api_key add column rate_per_second integer check (rate_per_second > 0);
alter table api_key add column rate_burst integer check (rate_burst > 0);
