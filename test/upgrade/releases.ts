import { execFile } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'

const execute = promisify(execFile)

export const root = join(import.meta.dirname, '..', '..')

export const schemas = ['tenancy', 'keys', 'universe', 'findings', 'evidence', 'sync'] as const
export type Schema = (typeof schemas)[number]

const releaseSchema = z.strictObject({
  version: z.string(),
  /** What it was built of. */
  commit: z.string().regex(/^[0-9a-f]{40}$/),
  /** The last migration of each schema. */
  migrations: z.record(z.enum(schemas), z.string().regex(/^\d{6}$/)),
})

export type Release = z.infer<typeof releaseSchema>
type Migrations = Release['migrations']

/** The first migration of every schema: it creates the whole schema. Upgrades begin here. */
const baseline = { number: '000001', file: '000001_create_schema.sql' }

/** Returns the folder of a schema's migrations. */
export function migrationsOf(schema: Schema): string {
  return schema === 'tenancy' ? 'packages/tenant-db/migrations' : `services/${schema}/migrations`
}

/** All releases since the baseline, the first one first. */
function readReleases(): readonly Release[] {
  const text = readFileSync(join(root, 'deploy', 'releases.json'), 'utf8')
  return z.array(releaseSchema).parse(JSON.parse(text))
}

/** The last migrations of the release that runs when this one is rolled out; the baseline before the first release. */
export function runningMigrations(): Migrations {
  return readReleases().at(-1)?.migrations ?? baselineMigrations()
}

export function baselineMigrations(): Migrations {
  const { number } = baseline
  return { tenancy: number, keys: number, universe: number, findings: number, evidence: number, sync: number }
}

/**
 * The last two releases since the baseline. Before the first one it is the commit that last changed the baseline, once a
 * migration follows it. Empty while the schema of this tree is the baseline.
 */
export async function findLastReleases(): Promise<readonly (Release & { readonly isThere: boolean })[]> {
  const releases = readReleases().slice(-2)
  const found = releases.length > 0 ? releases : await findBaseline()
  return await Promise.all(found.map(async (release) => ({ ...release, isThere: await isThere(release.commit) })))
}

async function findBaseline(): Promise<readonly Release[]> {
  const hasFollower = schemas.some((schema) =>
    readdirSync(join(root, migrationsOf(schema))).some((name) => name.slice(0, 6) > baseline.number),
  )
  if (!hasFollower) return []
  const files = schemas.map((schema) => `${migrationsOf(schema)}/${baseline.file}`)
  const commit = await execute('git', ['log', '-1', '--format=%H', '--', ...files], { cwd: root }).then(
    ({ stdout }) => stdout.trim(),
    // No clone at all: an archive of the sources.
    () => '',
  )
  return [{ version: 'the schema baseline', commit, migrations: baselineMigrations() }]
}

async function isThere(commit: string): Promise<boolean> {
  return await execute('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).then(
    () => true,
    () => false,
  )
}
