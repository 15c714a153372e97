/**
 * @promise Revocation: No order of messages, crashes and lost connections lets a gateway accept a key after its revocation was
 * confirmed.
 */

import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findModelChecker } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const execute = promisify(execFile)

const checker = await findModelChecker()
if (typeof checker === 'string') process.stdout.write(`the model of revocation is not checked: ${checker}\n`)

interface Run {
  /** The assertion that fails in the shortest counterexample; undefined when none fails. */
  readonly violated: string | undefined
  readonly steps: number | undefined
  readonly states: number
  /** Processor time. */
  readonly seconds: number
  readonly isWhole: boolean
}

const results: string[] = []
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-model-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  process.stdout.write(results.map((line) => `${line}\n`).join(''))
})

/** Searches all states of the model, breadth first, which finds a shortest counterexample. */
async function search(title: string, switches: readonly string[], compilerOptions: readonly string[]): Promise<Run> {
  if (typeof checker === 'string') throw new Error(checker)
  const { spin, compiler } = checker
  const cwd = await mkdtemp(join(folder, 'run-'))
  await copyFile(join(import.meta.dirname, 'revocation.pml'), join(cwd, 'revocation.pml'))
  const defines = switches.map((name) => `-D${name}`)
  await execute(spin, [`-P${compiler} -std=gnu99 -E -x c`, ...defines, '-a', 'revocation.pml'], { cwd })
  // No partial order reduction, because every step changes shared state. At most 2 GB.
  const options = ['-w', '-DSAFETY', '-DNOREDUCE', '-DMEMLIM=2000', ...compilerOptions]
  await execute(compiler, [...options, '-o', 'pan', 'pan.c'], { cwd })
  // The shell measures the processor time of its child, because many searches run at once.
  const run = ['-c', '"$0" "$@" && times', join(cwd, 'pan'), '-w20', '-m1000000']
  const { stdout } = await execute('sh', run, { cwd, maxBuffer: 2 ** 26 })
  const [, minutes, rest] = /^(\d+)m([\d.]+)s \d+m[\d.]+s$/.exec(stdout.trimEnd().split('\n').at(-1) ?? '') ?? []
  const seconds = Number(minutes) * 60 + Number(rest)
  const states = Number(/^ *(\d+) states, stored/m.exec(stdout)?.[1])
  const steps = /assertion violated .*\(at depth (\d+)\)/.exec(stdout)?.[1]
  const violated = /assertion violated \(?(\w+)/.exec(stdout)?.[1]
  const what = violated === undefined ? 'holds' : `${violated} fails after ${steps} steps`
  results.push(`${title.padEnd(72)} ${String(states).padStart(9)} states ${seconds.toFixed(1).padStart(5)} s  ${what}`)
  return {
    violated,
    steps: steps === undefined ? undefined : Number(steps),
    states,
    seconds,
    isWhole: !/Search not completed|max search depth too small|error: /.test(
      stdout.replace(/.*assertion violated.*/, ''),
    ),
  }
}

/** Sizes of the model for the promises. */
const sizes = {
  'one gateway': [],
  'one gateway that crashes, or stops, and starts again': ['STARTS=2'],
  'one gateway, while another key changes': ['OTHER_CHANGE'],
} as const

/** Each removes one mechanism of the protocol. The second member is the promise that fails. */
const mutations: readonly (readonly [string, string, readonly string[]])[] = [
  ['the revoke reads the leases before its commit', 'accept', ['LEASES_BEFORE_COMMIT']],
  ['the revoke does not wait for the gateways', 'accept', ['NO_WAIT']],
  ['the log is read before the lease is committed', 'accept', ['LOG_BEFORE_LEASE']],
  ['the lease is granted to a gateway that lags', 'lease', ['UNCONDITIONAL_RENEWAL']],
  ['the lease is counted from the answer', 'accept', ['LEASE_FROM_REPLY']],
  ['the lease has no margin', 'accept', ['NO_MARGIN']],
  ['the caches are used after the end of the lease', 'accept', ['SERVE_AFTER_LEASE']],
  ['a request without a lease joins an older look-up', 'accept', ['JOIN_OLDER_LOOKUP']],
  ['no watermarks: a late fill wins', 'accept', ['LATE_FILL_WINS']],
  ['no watermarks: the record in Redis is deleted', 'accept', ['DELETE_IN_REDIS']],
  ['no watermarks: the tombstone in Redis is lost', 'accept', ['TOMBSTONE_IN_REDIS', 'REDIS_FORGETS']],
  ['numbers from a sequence: commits out of order', 'accept', ['SEQUENCE_NUMBERS', 'OTHER_CHANGE']],
  ['the cursor skips a message that is missing', 'accept', ['CURSOR_SKIPS_GAP', 'OTHER_CHANGE']],
  ['a process has the identity of the one before it', 'accept', ['SAME_IDENTITY', 'STARTS=2']],
  ['an answer to a dead process renews its successor', 'accept', ['ANSWER_OF_DEAD_PROCESS', 'STARTS=2']],
  ['a process starts at the end of the log, without the past', 'accept', ['START_WITHOUT_PAST', 'STARTS=2']],
]

const promises: Readonly<Record<string, string>> = {
  accept: 'no_accept_after_success',
  lease: 'unacked_lease_ends_in_time',
}

/** States that must be possible, so that the promises do not hold trivially. */
const witnesses = [
  ['a request is accepted from memory', ['WITNESS_ACCEPT_FROM_MEMORY']],
  ['a watermark overrules an old record under a lease', ['WITNESS_WATERMARK_OVERRULES']],
  ['a revoke succeeds at once, confirmed by a gateway that keeps its lease', ['WITNESS_CONFIRMED']],
  ['a revoke succeeds although a gateway never hears of it', ['WITNESS_FENCED']],
  ['a gateway that was started again gets a lease after the success', ['WITNESS_LEASE_AFTER_RESTART', 'STARTS=2']],
] as const

describe.skipIf(typeof checker === 'string')(
  'no request is accepted after its revoke has succeeded, nor does a revoke wait longer than a lease',
  { concurrent: true },
  () => {
    test.each(Object.entries(sizes))('with %s', { timeout: 900_000 }, async (title, switches) => {
      expect(await search(title, switches, ['-O1'])).toMatchObject({ violated: undefined, isWhole: true })
    })
  },
)

describe.skipIf(typeof checker === 'string')('the model detects that', { concurrent: true }, () => {
  test.each(mutations)('%s', { timeout: 900_000 }, async (title, promise, switches) => {
    expect(await search(title, switches, ['-O0', '-DBFS'])).toMatchObject({ violated: promises[promise] })
  })

  test('a permanent tombstone could replace the watermarks', { timeout: 900_000 }, async () => {
    const run = await search('no watermarks: a tombstone that Redis never loses', ['TOMBSTONE_IN_REDIS'], ['-O0'])
    expect(run).toMatchObject({ violated: undefined, isWhole: true })
  })
})

describe.skipIf(typeof checker === 'string')('in the model', { concurrent: true }, () => {
  test.each(witnesses)('%s', { timeout: 900_000 }, async (title, switches) => {
    expect(await search(`seen: ${title}`, switches, ['-O0', '-DBFS'])).toMatchObject({ violated: 'not_yet_seen' })
  })
})
