import pg from "pg"

const c = new pg.Client({ connectionString: process.argv[2] })
await c.connect()
await c.query("SET default_transaction_read_only=off; SET enable_seqscan=off; SET enable_hashjoin=off")
const q = async (s) => {
  const b = Date.now()
  const r = await c.query(s)
  return [r, Date.now() - b]
}
const [
  {
    rows: [{ id: a }],
  },
] = await q("SELECT id FROM account WHERE business_name='Demo merchant'")
console.log(
  "states",
  (await q(`SELECT kind,state,actors,kobo FROM state_count WHERE account_id='${a}' AND livemode`))[0].rows,
)
let [r, ms] = await q(
  `EXPLAIN (ANALYZE, BUFFERS OFF, TIMING OFF) SELECT count(*) FROM lifecycle_journal j CROSS JOIN journal_position p WHERE j.xid >= (SELECT pg_snapshot_xmin(snapshot)::text::bigint FROM journal_position)`,
)
console.log(r.rows.map((x) => x["QUERY PLAN"]).join("\n"))
const [
  {
    rows: [{ x }],
  },
] = await q("SELECT pg_snapshot_xmin(snapshot)::text x FROM journal_position")
;[r, ms] = await q(`EXPLAIN (ANALYZE, TIMING OFF) SELECT count(*) FROM lifecycle_journal j WHERE j.xid >= ${x}`)
console.log(r.rows.map((x) => x["QUERY PLAN"]).join("\n"))
;[r, ms] = await q(
  `EXPLAIN (ANALYZE, TIMING OFF) SELECT state, count(*), sum(price_kobo*quantity) FROM subscription WHERE account_id='${a}' AND livemode AND version>0 GROUP BY state`,
)
console.log(
  r.rows
    .map((x) => x["QUERY PLAN"])
    .slice(-2)
    .join("\n"),
)
// write cost: the journal with and without the new column and index
for (const round of [1, 2, 3])
  for (const [name, ddl] of [
    ["plain", ""],
    [
      "xid",
      "ALTER TABLE j ADD COLUMN xid bigint DEFAULT 0 NOT NULL; ALTER TABLE j ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint); CREATE INDEX ON j USING brin (xid) WITH (pages_per_range=32, autosummarize=on);",
    ],
  ]) {
    await c.query(
      `DROP TABLE IF EXISTS j; CREATE UNLOGGED TABLE j (account_id text, livemode boolean, actor_id text, version int, actor_kind text, at timestamptz, event jsonb, from_state text, to_state text, effects jsonb, machine_version int, recorded_at timestamptz default now(), status_from text, status_to text, cause jsonb, brought text[], primary key (account_id,livemode,actor_id,version));` +
        ddl,
    )
    const s = process.cpuUsage()
    const b = Date.now()
    await c.query(
      `INSERT INTO j (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version, status_from, status_to, cause, brought) SELECT 'acct_x',true,'sub_'||lpad(n::text,20,'0'),1,'subscription',now(),'{"type":"charge.succeeded","at":1735689600000}','active.charging','active.current','["emit subscription.renewed","post paid"]',1,'active','active',null,'{a,b}' FROM generate_series(1,100000) n`,
    )
    console.log(name, Date.now() - b, "ms / 100,000 rows")
  }
await c.query("DROP TABLE j")
await c.end()
