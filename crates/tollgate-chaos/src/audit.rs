//! The database's own record of writes and tokens, made by triggers that are not Tollgate's (`audit.sql`).

use std::path::Path;

use tokio_postgres::{Client, NoTls};

/// The triggers and the tables that they write.
const INSTALL: &str = include_str!("audit.sql");

/// Critical writes under a token that was not in force, as the trigger saw it at the commit.
const STALE_AT_COMMIT: &str = "
    select format('tx %s version %s: written by %s under token %s, in force was %s',
                  tx_id, version, node, written_under, in_force)
      from chaos_stale_write order by at";

/// The same by time: written after a later token was there. The takeover waits for writers, so the
/// time of a write under the fence lies before that of the next token.
const STALE_BY_TIME: &str = "
    select format('tx %s version %s: written by %s under token %s, %s after token %s was there',
                  h.tx_id, h.version, h.node, h.fencing_token, h.at - later.at, later.token)
      from tx_history h
      join managed_tx m on m.tx_id = h.tx_id
      join lateral (
        select t.token, t.at from chaos_token t
         where t.chain_id = m.chain_id and t.submitter = m.submitter and t.token > h.fencing_token
         order by t.at limit 1) later on later.at < h.at
     where not exists (select 1 from chaos_stale_write s
                        where s.tx_id = h.tx_id and s.version = h.version)
     order by h.at";

/// Tokens that were granted to two, or twice. Chain 0 is a node's own test at its start.
const REUSED: &str = "
    select format('token %s of %s was granted %s times: %s', token, encode(submitter, 'hex'),
                  count(*), string_agg(owner_node, ', ' order by at))
      from chaos_token where chain_id > 0 and owner_node <> ''
     group by chain_id, submitter, token having count(*) > 1";

/// Tokens that came after a higher or equal one.
const FALLING: &str = "
    select format('token %s of %s came after token %s', token, encode(submitter, 'hex'), before)
      from (select *, lag(token) over (partition by chain_id, submitter order by at) as before
              from chaos_token where chain_id > 0) t
     where before >= token";

const GRANTED: &str =
    "select count(*)::text from chaos_token where chain_id > 0 and owner_node <> ''";
const SUBMITTERS: &str = "
    select count(distinct (chain_id, submitter))::text
      from chaos_token where chain_id > 0 and owner_node <> ''";

/// The feed as it is stored.
const STORED_FEED: &str = "select seq, tx_id::text, state::int from tx_completion order by seq";

/// Transactions that are not final.
const OPEN: &str = "
    select format('tx %s (%s, nonce %s): %s %s, resubmits %s, last error %s', m.tx_id, m.request_id,
                  m.nonce, s.state, s.sub_state, m.resubmits, coalesce(m.last_error, '-'))
      from managed_tx m join tx_state s on s.code = m.state
     where m.finished_at is null order by m.submitter, m.nonce limit 20";

/// The history of every transaction, for the analysis of a failed run.
const HISTORY: &str = "
    select format('%s  %s nonce %s %s v%s  %s -> %s  %s  by %s under %s  %s', h.at,
                  encode(m.submitter, 'hex'), m.nonce, m.request_id, h.version,
                  h.from_state, h.to_state, h.event, h.node, h.fencing_token, h.detail)
      from tx_history h join managed_tx m on m.tx_id = h.tx_id
     order by m.submitter, m.nonce, h.version";
const TOKENS: &str = "
    select format('%s  %s token %s of %s', at, encode(submitter, 'hex'), token, owner_node)
      from chaos_token order by submitter, at";

/// A hand on the database that is not Tollgate's.
pub(crate) struct Audit {
    url: String,
}

/// The findings of the audit.
#[derive(Clone, Default, Debug)]
pub(crate) struct Findings {
    pub(crate) stale_writes: Vec<String>,
    pub(crate) granted: u64,
    pub(crate) submitters: u64,
    pub(crate) reused: Vec<String>,
    pub(crate) falling: Vec<String>,
    /// `seq`, transaction and state code of each completion.
    pub(crate) stored_feed: Vec<(u64, String, i32)>,
    /// Transactions that are not at their end, a few of them.
    pub(crate) open: Vec<String>,
}

impl Audit {
    /// Installs it in a database that Tollgate has migrated.
    pub(crate) async fn install(url: &str) -> Self {
        let audit = Self { url: url.to_owned() };
        audit.connect().await.batch_execute(INSTALL).await.unwrap();
        audit
    }

    /// Writes down what the database knows of each transaction and token.
    pub(crate) async fn write_down(&self, folder: &Path) {
        let client = self.connect().await;
        for (name, sql) in [("history.txt", HISTORY), ("tokens.txt", TOKENS)] {
            std::fs::write(folder.join(name), texts(&client, sql).await.join("\n")).unwrap();
        }
    }

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Reads it all.
    pub(crate) async fn findings(&self) -> Findings {
        let client = self.connect().await;
        let mut stale_writes = texts(&client, STALE_AT_COMMIT).await;
        stale_writes.extend(texts(&client, STALE_BY_TIME).await);
        let feed = client.query(STORED_FEED, &[]).await.unwrap();
        Findings {
            stale_writes,
            granted: number(&client, GRANTED).await,
            submitters: number(&client, SUBMITTERS).await,
            reused: texts(&client, REUSED).await,
            falling: texts(&client, FALLING).await,
            stored_feed: feed
                .iter()
                .map(|row| (u64::try_from(row.get::<_, i64>(0)).unwrap(), row.get(1), row.get(2)))
                .collect(),
            open: texts(&client, OPEN).await,
        }
    }
}

async fn texts(client: &Client, sql: &str) -> Vec<String> {
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn number(client: &Client, sql: &str) -> u64 {
    client.query_one(sql, &[]).await.unwrap().get::<_, String>(0).parse().unwrap()
}
