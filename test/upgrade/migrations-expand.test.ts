import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { migrationsOf, previousRelease, root, schemas } from './releases.ts'

/** What takes something away that the release before still uses, or asks of it what it does not give. */
const contractions: readonly (readonly [string, RegExp])[] = [
  ['drops a table, a column or a schema', /\bdrop\s+(?:table|column|schema|type|view)\b/i],
  ['renames', /\brename\s+(?:to|column|constraint)\b/i],
  ['changes the type of a column', /\balter\s+column\s+\S+\s+(?:set\s+data\s+)?type\b/i],
  ['takes a default away', /\bdrop\s+default\b/i],
  ['asks for a value in a column that was there', /\bset\s+not\s+null\b/i],
  [
    'adds a column that must be given',
    /\badd\s+column\s+(?:(?!,|;|default|generated)[\s\S])*not\s+null(?:(?!,|;|default|generated)[\s\S])*[,;]/i,
  ],
]

/** `-- contract: why the release before does without it` in a migration lets it take something away. */
const reasoned = /^-- contract: .{20,}$/m

function faultsIn(text: string): string[] {
  if (reasoned.test(text)) return []
  const statements = text.replaceAll(/--[^\n]*/g, '')
  // To narrow what the same migration has given takes nothing away.
  const revoked = [...statements.matchAll(/\brevoke\b[^;]*\bon\s+(?:table\s+)?([\w.]+)\s+from\s+postern_/gi)]
  const taken = revoked.filter(([, table]) => !statements.includes(`protect_table('${table}'`))
  return [
    ...contractions.filter(([, pattern]) => pattern.test(statements)).map(([what]) => what),
    ...taken.map(([, table]) => `takes a right on ${table} away`),
  ]
}

test('migrations since the last release take nothing away that its services use', () => {
  const { migrations } = previousRelease()
  const faults: string[] = []
  for (const schema of schemas) {
    const last = migrations[schema]
    const folder = migrationsOf(schema)
    for (const name of readdirSync(join(root, folder)).filter((each) => each.slice(0, 6) > last)) {
      faults.push(
        ...faultsIn(readFileSync(join(root, folder, name), 'utf8')).map((fault) => `${folder}/${name} ${fault}`),
      )
    }
  }
  expect(faults).toEqual([])
})

test.each([
  ['alter table keys.api_key drop column label;', 1],
  ['alter table keys.api_key rename column label to name;', 1],
  ['alter table keys.api_key alter column label type varchar(10);', 1],
  ['alter table keys.api_key add column owner text not null;', 1],
  ["alter table keys.api_key add column owner text not null default '';", 0],
  ['alter table keys.api_key add column owner text;', 0],
  ['alter table keys.api_key alter column label set not null;', 1],
  ['revoke update on keys.api_key from postern_keys;', 1],
  ['-- contract: nothing has read it since 1.0.0, which no longer runs\nalter table a drop column b;', 0],
])('%s', (statement, faults) => {
  expect(faultsIn(statement)).toHaveLength(faults)
})
