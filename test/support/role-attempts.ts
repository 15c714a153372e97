import { type Client, DatabaseError } from 'pg'

/** What became of a statement. */
export interface Outcome {
  readonly text: string
  /** SQLSTATE, or 'done'. */
  readonly state: string
  /** The number of rows, if it succeeded. */
  readonly count: number
  /** All that came back: rows, messages, details. */
  readonly said: string
}

/**
 * Runs statements one by one under an assertion and rolls each back. Sends them together. Replaces `%DATABASE%` with
 * the name of the database.
 */
export async function attemptOn(
  client: Client,
  assertion: string,
  texts: readonly string[],
  { database, searchPath }: { readonly database: string; readonly searchPath?: string | undefined },
): Promise<Outcome[]> {
  const ran: Promise<unknown>[] = [client.query('begin'), client.query('set constraints all immediate')]
  ran.push(client.query("select set_config('postern.assertion', $1, true)", [assertion]))
  if (searchPath !== undefined) ran.push(client.query(`set local search_path = ${searchPath}`))
  const outcomes = texts.map(async (text) => {
    ran.push(client.query('savepoint before'))
    const outcome = client.query(text.replace('%DATABASE%', database)).then(
      ({ rows, rowCount }) => ({ text, state: 'done', count: rowCount ?? 0, said: JSON.stringify(rows) }),
      (error: unknown) => {
        if (!(error instanceof DatabaseError)) throw error
        const { code = '', message, detail, hint, where } = error
        return { text, state: code, count: 0, said: [message, detail, hint, where].join('\n') }
      },
    )
    ran.push(client.query('rollback to savepoint before'))
    return await outcome
  })
  ran.push(client.query('rollback'), client.query('reset session authorization; reset role'))
  await Promise.all(ran)
  return await Promise.all(outcomes)
}

/** Returns the outcome without the inserted values and without what differs each time. */
export function told({ state, said }: Outcome, values: readonly string[]): string {
  // The longest first: one may be a part of another, and a short one of anything.
  const sorted = values.toSorted((a, b) => b.length - a.length)
  let text = said
  for (const value of sorted) if (value.length > 8) text = text.replaceAll(value, '?')
  text = text.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9:. +T]*/g, '*')
  for (const value of sorted) {
    const escaped = value.replaceAll(/\W/g, String.raw`\$&`)
    text = text.replaceAll(new RegExp(String.raw`(?<!\w)${escaped}(?!\w)`, 'g'), '?')
  }
  return `${state} ${text}`
}

/** Values that only their owner can know: 128 random bits, or the hash of 256. */
export const mayTell: ReadonlySet<string> = new Set([
  'keys.api_key_hash_unique',
  'tenancy.granted_work_id_unique',
  'tenancy.granted_work_pk',
])

const ofPrimaryKey = 'its columns hold those of the primary key, which tells first'
const ofOtherKey = 'the other foreign key of the row, of a value that nobody has, tells first'
const ofChain = 'the trigger of the log wants an entry that continues the log of one’s own'
const ofTurn = 'the trigger counts the holds of one’s own file, and wants the next one'
/** Constraints that none of these probes comes to, and what it is that stops them before. */
export const stoppedBefore: Readonly<Record<string, string>> = {
  'findings.action_plan_of_finding_unique': ofPrimaryKey,
  'findings.recommendation_of_finding_unique': ofPrimaryKey,
  'findings.tracker_log_pk': ofChain,
  'findings.tracker_log_seq_unique': ofChain,
  action_plan_recommendation_recommendation_fk: ofOtherKey,
  api_key_rotated_from_fk: 'the marked tenants require an owner, and the row of the question has none',
  tracker_log_finding_fk: ofChain,
  tracker_log_plan_fk: ofChain,
  tracker_log_recommendation_fk: ofChain,
  'evidence.file_decision_one_verdict': ofPrimaryKey,
  'evidence.legal_hold_pk': ofTurn,
  legal_hold_file_fk: ofTurn,
  test_procedure_entity_entity_fk: ofOtherKey,
  'tenancy.granted_work_id_unique': ofPrimaryKey,
  'universe.hierarchy_one_primary':
    'the rule does not cover the own row: does the error reveal that it covers the other one?',
}

/** A way to ask a table for its rows. */
export interface Way {
  readonly way: string
  readonly text: string
  /** How the row becomes visible: as a row, or by an error that reveals it. */
  readonly shows: 'rows' | 'theirs' | '22012' | '22P02'
}

/** Ways to ask a table for the rows of tenant B. */
export function waysToRead(table: string, tenantB: string): readonly Way[] {
  const isTheirs = `tenant_id = '${tenantB}'`
  const asking = (way: string, text: string, shows: Way['shows'] = 'rows'): Way => ({ way, text, shows })
  return [
    asking('all columns', `select * from ${table}`),
    asking('as JSON', `select to_jsonb(t) from ${table} as t`),
    asking('as whole rows', `select t from ${table} as t`),
    asking('with a condition that is always true', `select * from ${table} where ${isTheirs} or true`),
    asking('theirs first', `select * from ${table} order by (${isTheirs}) desc limit 1`),
    asking('a sample', `select * from ${table} tablesample system (100)`),
    asking('as XML, by a function that runs text', `select query_to_xml('select * from ${table}', true, false, '')`),
    asking('by tenant', `select tenant_id, count(*) from ${table} group by tenant_id`),
    asking('joined', `select a.*, b.* from ${table} as a full join ${table} as b on a.tenant_id = b.tenant_id`),
    asking('from a condition', `select 1 where exists (select from ${table})`),
    asking('copied out', `copy (select * from ${table}) to stdout`),
    asking('by tenant id', `select * from ${table} where ${isTheirs}`, 'theirs'),
    asking('by an aggregate', `select 1 from ${table} having bool_or(${isTheirs})`, 'theirs'),
    asking('by a failing condition', `select 1 from ${table} where 1 / (1 - (${isTheirs})::integer) = 0`, '22012'),
    asking('by a telling function', `select 1 from ${table} as t where ${isTheirs} and t::text::integer > 0`, '22P02'),
  ]
}
