/**
 * @promise Operation: The previous release works on the database schema of this one.
 * @alsoShownBy test/upgrade/migrations-expand.test.ts, test/upgrade/mixed-releases.test.ts
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkOut, isShallow } from './checked-out-release.ts'
import { baselineMigrations, findLastReleases, runningMigrations } from './releases.ts'
import { documentFinding, openSite, revokeKey, hash, runConnector, type Site, uploadEvidence } from './work.ts'

const releases = await findLastReleases()

// One test at least, so that the file is no failure while there is nothing to upgrade from.
test.runIf(releases.length === 0)('the schema is the baseline, and there is no older release to upgrade from', () => {
  expect(runningMigrations()).toEqual(baselineMigrations())
  process.stdout.write('SKIPPED the services of the release before: no migration follows the schema baseline\n')
})

describe.each(releases)(
  'the services of $version on the schema of this release',
  ({ version, commit, isThere: isHere }) => {
    let sources: string
    let stack: TestStack
    let site: Site

    if (!isHere) process.stdout.write(`SKIPPED the services of ${version}: this clone does not have its commit\n`)

    test('are available in a complete clone', () => expect(isHere || isShallow).toBe(true))

    describe.skipIf(!isHere)('work with the current schema', () => {
      beforeAll(async () => {
        sources = await mkdtemp(join(tmpdir(), 'postern-release-'))
        await checkOut(commit, sources)
        stack = await startTestStack({ sources })
        site = await openSite(stack)
      })

      afterAll(async () => {
        await stack?.stop()
        if (sources !== undefined) await rm(sources, { recursive: true, force: true })
      })

      test('a finding is documented, and a plan for it', async () =>
        expect(await documentFinding(site)).toMatchObject({ status: 'in_remediation' }))

      test('evidence is uploaded, at once and in pieces', async () =>
        expect(await uploadEvidence(site)).toContain(hash('Seen again')))

      test('a connector reads a table', async () => expect(await runConnector(site)).toHaveLength(2))

      test('a key is revoked', async () => expect(await revokeKey(site)).toBe(401))
    })
  },
)
