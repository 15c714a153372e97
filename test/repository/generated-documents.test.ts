import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { generatedDocuments } from '../../verification/documents/generated.ts'
import { renderMessages } from '../../verification/documents/messages.ts'
import { parsePromises, readPromises, sections } from '../../verification/documents/promises.ts'

const root = join(import.meta.dirname, '..', '..')
const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))
const promises = readPromises()

function isThere(name: string): boolean {
  const command = /^npm run (.+)$/.exec(name)?.[1]
  return command === undefined ? existsSync(join(root, name)) : Object.hasOwn(scripts, command)
}

test.each(Object.entries(generatedDocuments))('%s is what `npm run docs` writes', (path, render) => {
  expect(readFileSync(join(root, path), 'utf8')).toBe(render())
})

describe('ASSURANCE.md', () => {
  test('has promises in every section, and no other section', () => {
    expect(promises.length).toBeGreaterThan(40)
    expect([...new Set(promises.map(({ section }) => section))]).toEqual([...sections])
  })

  test('names test files and commands that exist', () => {
    const named = promises.flatMap(({ shownBy }) => shownBy)
    expect(named.filter((name) => !isThere(name))).toEqual([])
  })
})

describe('docs/reference/messages.md', () => {
  const messages = renderMessages()

  test.each([
    [
      'a problem detail with its code',
      'services/keys/src/api-key/routes.ts',
      'The key is revoked and cannot be changed. Create a new key. (`conflict`)',
    ],
    ['a template with its value', 'packages/cli/src/commands/show-run.ts', 'the run failed: {reason}'],
    [
      'a text between tags',
      'services/console/web/src/shell/not-found-page.tsx',
      'The link may be old, or a letter is missing.',
    ],
    [
      'an alert with its name',
      'deploy/alerts/postern.yaml',
      'No process of a service reports metrics (`PosternServiceGone`)',
    ],
  ])('contains %s below its source', (_kind, path, message) => {
    const lines = messages
      .split(`\n${path}\n\n`)
      .slice(1)
      .map((rest) => rest.split('\n\n')[0])
    expect(lines.join('\n').split('\n')).toContain(`- ${message}`)
  })

  test('contains each text once', () => {
    const lines = messages.split('\n').filter((line) => line.startsWith('- '))
    expect(lines.length).toBeGreaterThan(500)
    expect(lines).toEqual([...new Set(lines)])
  })

  test('contains no class names', () => {
    expect(messages).not.toContain('facts facts-row')
  })
})

describe('an annotation', () => {
  test('is read from the head of a file, over several lines, with the other tests that show it', () => {
    const source = `/**
 * @promise Edge: Doors are
 * closed.
 * @alsoShownBy a.test.ts, npm run
 * check
 * @promise Data: Nothing is lost.
 */

import { test } from 'vitest'
`
    expect(parsePromises('b.test.ts', source)).toEqual([
      { section: 'Edge', text: 'Doors are closed', shownBy: ['b.test.ts', 'a.test.ts', 'npm run check'] },
      { section: 'Data', text: 'Nothing is lost', shownBy: ['b.test.ts'] },
    ])
  })

  test('is read from one line', () => {
    expect(parsePromises('b.test.ts', "/** @promise Edge: Doors are closed. */\nimport 'a'\n")).toEqual([
      { section: 'Edge', text: 'Doors are closed', shownBy: ['b.test.ts'] },
    ])
  })

  test('in another place of a file is ignored', () => {
    expect(parsePromises('b.test.ts', "import 'a'\n/**\n * @promise Edge: Doors are closed.\n */\n")).toEqual([])
  })
})
