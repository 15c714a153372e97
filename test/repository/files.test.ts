import { globSync, lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')

/** What a clone gets besides the repository: installed packages, results, the data of a running system. */
const notOfTheRepository = [
  '**/node_modules',
  '**/dist',
  '.git',
  '.tools',
  '.postern*',
  '.results',
  '.test-reports',
  'coverage',
]

const texts = globSync(['**/*', '.*', '.ci/*'], { cwd: root, exclude: notOfTheRepository })
  .filter((path) => lstatSync(join(root, path)).isFile() && !path.endsWith('.tsbuildinfo'))
  .map((path) => ({ path, bytes: readFileSync(join(root, path)) }))
  .filter(({ bytes }) => !bytes.includes(0))
  .map(({ path, bytes }) => ({ path, text: bytes.toString('utf8') }))

/** Files that hold what the pattern finds, with what it found. */
function holding(pattern: RegExp): string[] {
  return texts.flatMap(({ path, text }) => {
    const found = pattern.exec(text)?.[0]
    return found === undefined ? [] : [`${path}: ${found}`]
  })
}

describe('the files of the repository', () => {
  test('all files are read', () => {
    const paths = texts.map(({ path }) => path)
    expect(paths).toEqual(
      expect.arrayContaining(['package.json', '.gitignore', '.ci/run', 'pnpm-lock.yaml', 'LICENSE']),
    )
    expect(paths.length).toBeGreaterThan(200)
  })

  test('contain no local paths', () => {
    // In brackets, so that this file does not hold what it looks for.
    expect(holding(/(?<![\w.$~}:/-])[/](?:work|tmp|home|root|Users)[/]\w[\w./-]*/)).toEqual([])
  })

  test('name no package host, which each machine configures', () => {
    expect(holding(/(?:deb|security)[.]debian[.]org|registry[.]npmjs[.]org|(?:archive|ports)[.]ubuntu[.]com/)).toEqual(
      [],
    )
  })

  test('contain no private keys', () => {
    expect(holding(/-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/]{16}/)).toEqual([])
  })

  test('the lockfile contains packages and digests but no hosts', () => {
    const lockfile = readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8')
    expect(lockfile).toContain('integrity: sha512-')
    expect(lockfile.match(/^.*(?:\w+:\/\/|tarball:).*$/gm) ?? []).toEqual([])
  })

  test('there is no second lockfile or registry setting', () => {
    const names =
      /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|bun\.lockb?|\.npmrc|\.yarnrc(?:\.yml)?)$/
    expect(texts.flatMap(({ path }) => (names.test(path) ? [path] : []))).toEqual([])
  })
})
