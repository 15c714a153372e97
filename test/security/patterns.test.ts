/**
 * @promise Edge: The time that a pattern takes is proportional to the length of the text.
 * @alsoShownBy test/security/patterns-in-sql.test.ts
 */

import { join } from 'node:path'
import { openApi } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { findSlowText } from '../support/hostile-text.ts'
import { type Pattern, findBuilt, loadBuilt, readPatterns, readPythonPatterns } from '../support/patterns.ts'

const root = join(import.meta.dirname, '..', '..')

const programs = [
  'packages/*/src/**/*.ts',
  'services/*/src/**/*.ts',
  'services/console/web/src/**/*.{ts,tsx}',
  'packages/*/*.mjs',
  'deploy/*.mjs',
]
const written = readPatterns(root, programs)

/** Returns the patterns in the API document, including zod's own. */
function documented(node: unknown, found = new Map<string, Pattern>()): Pattern[] {
  if (typeof node !== 'object' || node === null) return [...found.values()]
  if ('pattern' in node && typeof node.pattern === 'string') {
    found.set(node.pattern, { source: node.pattern, flags: 'u', path: 'the API document' })
  }
  for (const value of Object.values(node)) documented(value, found)
  return [...found.values()]
}

/** Patterns that are slower than linear, and why no untrusted long text reaches them. */
const onShortTexts: Readonly<Record<string, string>> = {
  'packages/cli/src/operator-service.ts <([^>]*)>; rel="next"': 'a response of the keys service, only for the operator',
  'packages/client/src/connection.ts =+$': 'text that the client has encoded itself',
  'packages/client/src/pages.ts <([^>]*)>((?:\\s*;\\s*[^,;"]+(?:"[^"]*")?)*)': 'a header that the gateway has answered',
  'packages/contracts/src/findings/poam.ts ^\\S+@\\S+$': 'addresses in an answer, which were short when they came in',
  'packages/local-stack/src/demo/write-universe.ts <([^>]+)>; rel="next"': 'a header that the gateway has answered',
  'packages/service-kit/src/settings.ts \\/+$': 'the environment of the process',
  'packages/tenant-db/src/migrate.ts ^\\s*(begin|commit|rollback|start\\s+transaction)\\s*;': 'migrations of ours',
  'services/console/web/src/api/list.ts <([^>]*)>\\s*;\\s*rel="?next"?': 'a header that the gateway has answered',
  'services/console/web/src/connectors/setup/connector-form.tsx ^-+|-+$': 'a name, as whoever sits before it types it',
  'services/console/src/pages/assets.ts <meta[^>]*property="csp-nonce"': 'a page that was built with the release',
  'services/evidence/src/upload/file-kind.ts \\/.*$': 'a media type, of 330 characters at most',
  'services/evidence/src/upload/file-kind.ts [. ]+$': 'the name of a file, of 255 characters at most',
}
/** Patterns that are built at run time, and the source of the text that they match. */
const madeForOperators: Readonly<Record<string, string>> = {
  'packages/installation/src/urls.ts': 'the address of Redis, as the operator gives it to the command',
}
const placeOf = ({ path, source }: Pattern): string => `${path} ${source}`

describe('every regular expression runs in linear time', () => {
  test('in our source code', { timeout: 120_000 }, () => {
    const judged = written.filter((pattern) => !Object.hasOwn(onShortTexts, placeOf(pattern)))
    const slow = judged.flatMap((pattern) => {
      const text = findSlowText(pattern)
      return text === undefined ? [] : [`${placeOf(pattern)} on ${text}`]
    })
    expect(slow).toEqual([])
    expect(judged.length).toBeGreaterThan(120)
    // Every exception still exists.
    expect(written.length - judged.length).toBe(Object.keys(onShortTexts).length)
  })

  test('if built at run time', async () => {
    const built = findBuilt(root, programs).filter(({ path }) => !Object.hasOwn(madeForOperators, path))
    expect(built.length).toBeGreaterThan(1)
    for (const { path, places } of built) {
      const made = await loadBuilt(root, path)
      // One that is made later, from a text of somebody else, would not be among them.
      expect(made.length, path).toBeGreaterThanOrEqual(places)
      expect(made.flatMap((pattern) => findSlowText(pattern) ?? [])).toEqual([])
    }
  })

  test('in the object store of the compose file', () => {
    const patterns = readPythonPatterns(root, 'deploy/store/store.py')
    expect(patterns.length).toBeGreaterThan(0)
    expect(patterns.filter((pattern) => findSlowText(pattern) !== undefined)).toEqual([])
  })

  test('in schemas of the API', () => {
    // The e-mail pattern of OSCAL is only in a response. It is listed as an exception above.
    const patterns = documented(openApi('/')).filter(({ source }) => source !== '^\\S+@\\S+$')
    expect(patterns.filter((pattern) => findSlowText(pattern) !== undefined)).toEqual([])
    expect(patterns.length).toBeGreaterThan(10)
  })
})

describe('control: a slow pattern is detected', () => {
  test.each([
    ['that takes twice the time for each further character', '^(a+)+$'],
    ['that does so by a choice', '^(?:\\w|\\d)*!$'],
    ['that starts again at each blank', '\\s+$'],
    ['that does so with words between', '^\\S+@\\S+\\.\\S+$'],
    ['that looks for an end that never comes', '<([^>]*)>; rel="next"'],
  ])('%s', (_how, source) => {
    expect(findSlowText({ source, flags: '', path: 'planted' })).toBeDefined()
  })

  test.each(['^[a-z]{1,64}$', '^v1\\.([A-Za-z0-9_-]{1,32})\\.([0-9a-f-]{36})$', 'a|b'])('and %s is not', (source) => {
    expect(findSlowText({ source, flags: '', path: 'planted' })).toBeUndefined()
  })
})
