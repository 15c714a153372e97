import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { forbiddenStatements } from '../support/hostile-sql.ts'
import { readPromises } from '../support/assurance.ts'

const root = join(import.meta.dirname, '..', '..')
const text = readFileSync(join(root, 'ASSURANCE.md'), 'utf8')
const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))

const quoted = [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
const paths = quoted.filter((name) => /^(?:packages|services|test|bench|deploy)\//.test(name))
const commands = quoted.filter((name) => name.startsWith('npm '))
const promises = readPromises(text)

describe('ASSURANCE.md', () => {
  test('names files and folders that there are', () => {
    expect(paths.length).toBeGreaterThan(60)
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  test('names commands that there are', () => {
    const names = commands.flatMap((command) => {
      const name = /^npm (?:run )?([\w:-]+)/.exec(command)?.[1]
      return name === undefined ? [command] : [name]
    })
    expect(new Set(names).size).toBeGreaterThan(3)
    expect(names.filter((name) => !Object.hasOwn(scripts, name))).toEqual([])
  })

  test('shows each promise with a test or a command, beside who keeps it', () => {
    expect(promises.length).toBeGreaterThan(30)
    const lacking = promises.filter(
      ({ promise, keeper, shown }) =>
        promise === '' || keeper === '' || !/`(?:npm run [\w:-]+|[\w/.-]+\.test\.ts)`/.test(shown),
    )
    expect(lacking).toEqual([])
  })

  test('tells of as many hostile statements as there are', () => {
    expect(text).toContain(`tries ${forbiddenStatements.length} statements of a catalogue`)
  })
})
