import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

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

/** All that were made, the first one first. */
export function readReleases(): readonly Release[] {
  const text = readFileSync(join(root, 'deploy', 'releases.json'), 'utf8')
  return z.array(releaseSchema).min(1).parse(JSON.parse(text))
}

/** The release that runs when this one is rolled out. */
export function runningRelease(): Release {
  const last = readReleases().at(-1)
  if (last === undefined) throw new Error('no release is recorded')
  return last
}

/** Where the migrations of a schema are. */
export function migrationsOf(schema: Schema): string {
  return schema === 'tenancy' ? 'packages/tenant-db/migrations' : `services/${schema}/migrations`
}
