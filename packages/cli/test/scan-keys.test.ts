import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKey, maskKey } from '@postern/api-key'
import { keyValuePattern } from '@postern/contracts'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { run } from '../src/run.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-scan-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const { PATH = '', HOME = '' } = process.env

async function scan(...args: string[]) {
  const texts = { out: '', err: '' }
  const code = await run(
    ['keys', 'scan', ...args],
    { PATH, HOME },
    { out: (text) => (texts.out += text), err: (text) => (texts.err += text) },
  )
  return { code, ...texts }
}

function write(name: string, content: string | Buffer): string {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@postern.example']

function git(...args: string[]): void {
  const options = ['-C', folder, ...identity, '-c', 'init.defaultBranch=main']
  execFileSync('git', [...options, ...args], { env: { PATH, HOME }, stdio: 'ignore' })
}

describe('keys scan', () => {
  test('ends with 0 if nothing has the form and the checksum of a key', async () => {
    write('a.txt', `postern_${'0'.repeat(49)} ${generateKey().value.slice(0, -1)}`)
    expect(await scan(folder)).toEqual({ code: 0, out: '', err: '' })
  })

  test('ends with 1 and names file, line and mask of each key, never the value', async () => {
    const [one, two] = [generateKey().value, generateKey().value]
    write('a.txt', `first\nkey=${one}\n${two}`)
    const { code, out, err } = await scan(folder)
    expect(code).toBe(1)
    expect(out).toBe(`${folder}/a.txt:2  ${maskKey(one)}\n${folder}/a.txt:3  ${maskKey(two)}\n`)
    expect(err).toMatch(/^postern: found 2 keys: revoke each[^\n]*\n$/)
    const json = await scan(folder, '--json')
    expect(json.code).toBe(1)
    expect(JSON.parse(json.out)).toMatchObject({ count: 2, keys: [{ line: 2, masked: maskKey(one) }, { line: 3 }] })
    expect(JSON.parse(json.err)).toMatchObject({ code: 'keys_found', count: 2 })
    for (const text of [out, err, json.out, json.err]) expect(text).not.toContain(one.slice(8, 20))
  })

  test('shows each key in one line, even if the name of its file contains line breaks', async () => {
    write('a\nfound no key\u001b[2J.txt', generateKey().value)
    const { out } = await scan(folder)
    expect(out.split('\n')).toEqual([expect.stringContaining('/a?found no key?[2J.txt:1  '), ''])
  })

  test('counts all keys of an object that contains many, and lists only the first', async () => {
    git('init', '-q')
    write('dump', `${generateKey().value}\n`.repeat(12_000))
    git('add', '.')
    git('commit', '-q', '-m', 'Add a dump')
    git('rm', '-q', 'dump')
    const { err, out } = await scan(folder)
    expect(err).toContain('found 12000 keys')
    expect(out.split('\n')).toHaveLength(1001)
  })

  test('reads binary files, UTF-16 and keys across the blocks of a large file', async () => {
    const { value } = generateKey()
    write('binary', Buffer.concat([Buffer.from([0, 255, 0, 1]), Buffer.from(value), Buffer.from([255])]))
    write('utf-16le', Buffer.from(`\ufeff${value}`, 'utf16le'))
    const block = 1024 * 1024
    for (const before of [block - 1, block - 30, block - 57, block, 2 * block - 8])
      write(
        `large-${before}`,
        Buffer.concat([Buffer.alloc(before, '\n'), Buffer.from(value), Buffer.alloc(block, 'x')]),
      )
    const { out } = await scan(folder)
    expect(out.split('\n').toSorted().slice(1)).toEqual(
      [
        `binary:1`,
        ...[block - 1, block - 30, block - 57, block, 2 * block - 8].map((at) => `large-${at}:${at + 1}`),
        `utf-16le:1`,
      ]
        .map((place) => `${folder}/${place}  ${maskKey(value)}`)
        .toSorted(),
    )
  })

  test('ends with loops of links, pipes and names that are keys', async () => {
    const { value } = generateKey()
    mkdirSync(join(folder, 'sub'))
    symlinkSync(folder, join(folder, 'sub', 'loop'))
    symlinkSync('nowhere', join(folder, 'broken'))
    execFileSync('sh', ['-c', 'mkfifo "$1"', 'sh', join(folder, 'pipe')])
    write(`${value}.txt`, 'x')
    const { code, out } = await scan(folder)
    expect([code, out]).toEqual([1, `${folder}/${maskKey(value)}.txt (in its name)  ${maskKey(value)}\n`])
  })

  test('says what it could not read, and then does not end with 0', async () => {
    const missing = await scan(join(folder, 'missing'))
    expect(missing).toMatchObject({ code: 5, out: '' })
    expect(missing.err).toContain('not scanned: ')
    expect((await scan()).code).toBe(2)
  })

  test('finds keys that were deleted from a Git repository, in messages, and in packed objects', async () => {
    const [file, message, dropped] = [generateKey().value, generateKey().value, generateKey().value]
    git('init', '-q')
    write('config.yml', `key: ${file}\n`)
    git('add', '.')
    git('commit', '-q', '-m', 'Add the settings')
    git('rm', '-q', 'config.yml')
    git('commit', '-q', '-m', `Remove ${message}`)
    write('other.yml', `\n${dropped}`)
    git('add', '.')
    git('commit', '-q', '-m', 'Soon gone')
    git('reset', '-q', '--hard', 'HEAD~1')
    git('gc', '-q')
    // Programs that a hostile repository names.
    for (const name of ['core.fsmonitor', 'core.pager', 'gpg.program', 'diff.external', 'core.sshCommand'])
      git('config', name, `touch ${join(folder, 'owned')}`)
    const { code, out } = await scan(folder)
    expect(code).toBe(1)
    for (const value of [file, message, dropped]) expect(out).toContain(maskKey(value))
    expect(out).toMatch(/\/config\.yml:1 {2}•{5}.{4} {2}in Git object [0-9a-f]{12}$/m)
    expect(out).toMatch(/\/other\.yml:2 {2}•/)
    expect(() => readFileSync(join(folder, 'owned'))).toThrow('ENOENT')
    expect((await scan('--no-history', folder)).out).not.toContain('in Git object')
  })

  test('scans a bare repository, and reports a damaged one', async () => {
    const { value } = generateKey()
    git('init', '-q')
    git('commit', '-q', '--allow-empty', '-m', value)
    const bare = join(folder, 'bare.git')
    git('clone', '-q', '--bare', folder, bare)
    expect((await scan(bare)).out).toContain(maskKey(value))
    writeFileSync(join(bare, 'HEAD'), 'nonsense')
    expect(await scan(bare)).toMatchObject({ code: 5 })
  })
})

describe('the published pattern', () => {
  const examples = join(import.meta.dirname, '..', '..', '..', 'examples', 'secret-scanning')

  test.each(['gitleaks.toml', 'pre-commit'])('is in %s', (name) => {
    expect(readFileSync(join(examples, name), 'utf8')).toContain(keyValuePattern.source)
  })

  test('makes the hook reject a commit with a key, and no other', () => {
    const { value } = generateKey()
    git('init', '-q')
    copyFileSync(join(examples, 'pre-commit'), join(folder, '.git', 'hooks', 'pre-commit'))
    write('a b.txt', 'nothing')
    git('add', '.')
    git('commit', '-q', '-m', 'Without a key')
    write('a b.txt', Buffer.concat([Buffer.from([0]), Buffer.from(value)]))
    git('add', '.')
    const commit = ['-C', folder, ...identity, 'commit', '-m', 'x']
    const { status, stderr } = spawnSync('git', commit, { env: { PATH, HOME } })
    expect([status, stderr.toString().includes('a b.txt')]).toEqual([1, true])
    expect(stderr.toString()).not.toContain(value.slice(8, 20))
  })
})
