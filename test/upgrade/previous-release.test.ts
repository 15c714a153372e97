import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readReleases, root } from './releases.ts'
import { documentFinding, openSite, revokeKey, hash, runConnector, type Site, uploadEvidence } from './work.ts'

const execute = promisify(execFile)

const isShallow = await execute('git', ['rev-parse', '--is-shallow-repository'], { cwd: root }).then(
  ({ stdout }) => stdout.trim() === 'true',
  // No clone at all: an archive of the sources.
  () => true,
)

async function isThere(commit: string): Promise<boolean> {
  return await execute('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).then(
    () => true,
    () => false,
  )
}

// The one that runs when this release is rolled out, and the one before it.
const releases = await Promise.all(
  readReleases()
    .slice(-2)
    .map(async (release) => ({ ...release, isThere: await isThere(release.commit) })),
)

/** The sources of a release, with the packages that are installed here. */
async function checkOut(commit: string, folder: string): Promise<void> {
  const archive = join(folder, 'release.tar')
  await execute('git', ['archive', `--output=${archive}`, commit, 'package.json', 'packages', 'services'], {
    cwd: root,
  })
  await execute('tar', ['--extract', '--file', archive, '--directory', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const group of ['packages', 'services']) {
    for (const name of await readdir(join(folder, group))) {
      const links = join(root, group, name, 'node_modules')
      // The links are relative: what leads to a package of ours leads to that of the release.
      await cp(links, join(folder, group, name, 'node_modules'), { recursive: true, verbatimSymlinks: true }).catch(
        () => undefined,
      )
    }
  }
}

describe.each(releases)(
  'the services of $version on the schema of this release',
  ({ version, commit, migrations, isThere: isHere }) => {
    let sources: string
    let stack: TestStack
    let site: Site

    if (!isHere) process.stdout.write(`SKIPPED the services of ${version}: this clone does not have its commit\n`)

    test('can be had, where the clone is whole', () => expect(isHere || isShallow).toBe(true))

    describe.skipIf(!isHere)('do their work', () => {
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

      // Connectors came with the fourth migration of sync.
      test.skipIf(migrations.sync < '000004')('a connector reads a table', async () =>
        expect(await runConnector(site)).toHaveLength(2),
      )

      test('a key is revoked', async () => expect(await revokeKey(site)).toBe(401))
    })
  },
)
