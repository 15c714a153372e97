import { execFileSync } from 'node:child_process'
import { mkdir, readFile, readdir, readlink, symlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, test } from 'vitest'
import { findFreePort, loopback } from '../src/ports.ts'
import { commandOf } from '../src/processes.ts'
import { startRedis, type Redis } from '../src/redis.ts'
import { randomRedisPasswords } from '../src/testing/test-redis.ts'
import { makeTestFolder, testInstallFolder } from '../src/testing/cluster.ts'

const running: Redis[] = []
const path = process.env['PATH']

afterEach(async () => {
  process.env['PATH'] = path
  for (const redis of running.splice(0)) await redis.stop()
})

/** `installFolder`: for unpacking Redis if it is not installed. All tests share one by default. */
async function start(
  password: string,
  { installFolder = testInstallFolder, lines = [] }: { installFolder?: string; lines?: string[] } = {},
): Promise<{ redis: Redis; home: string }> {
  const home = await makeTestFolder('redis')
  const log = (line: string): void => void lines.push(line)
  const passwords = { ...randomRedisPasswords(), admin: password }
  const redis = await startRedis({ home, port: await findFreePort(), passwords, installFolder, log })
  running.push(redis)
  return { redis, home }
}

/** An empty folder. */
async function emptyFolder(): Promise<string> {
  return join(await makeTestFolder('redis'), 'redis-package')
}

/** Sends commands as a person at a terminal would, and gives the answer. */
async function send({ port }: Redis, ...lines: readonly string[]): Promise<string> {
  const socket = connect({ host: loopback, port })
  socket.write([...lines, 'QUIT', ''].join('\r\n'))
  return await text(socket)
}

/** Makes the PATH look like that of a machine without Redis, and perhaps without more. */
async function hidePrograms(isHidden: (name: string) => boolean): Promise<void> {
  const folder = await makeTestFolder('path')
  await mkdir(folder, { recursive: true })
  for (const from of ['/usr/sbin', '/usr/bin', '/sbin', '/bin', ...(path ?? '').split(delimiter)]) {
    for (const name of await readdir(from).catch(() => [])) {
      if (!isHidden(name)) await symlink(join(from, name), join(folder, name)).catch(() => undefined)
    }
  }
  process.env['PATH'] = folder
}

/** Whether this machine has what unpacking takes: a distribution with apt that knows Redis. */
function canUnpack(): boolean {
  try {
    return execFileSync('apt-cache', ['policy', 'redis-server'], { encoding: 'utf8' }).includes('Candidate: ')
  } catch {
    return false
  }
}

describe('Redis', () => {
  test('rejects clients without the password', async () => {
    const { redis } = await start('a-password-for-redis')
    expect(await send(redis, 'PING')).toContain('NOAUTH')
    expect(await send(redis, 'AUTH postern-admin wrong', 'PING')).toContain('WRONGPASS')
    expect(await send(redis, 'AUTH postern-admin a-password-for-redis', 'PING')).toContain('+PONG')
  })

  test('shows its password in no log and no process list', async () => {
    const { redis, home } = await start('a-password-to-look-for')
    expect(await readFile(join(home, 'logs', 'redis.log'), 'utf8')).not.toContain('a-password-to-look-for')
    expect(await commandOf(redis.pid)).not.toContain('a-password-to-look-for')
  })

  test('says in one line what to install if Redis is not available', async () => {
    await hidePrograms((name) => /^(redis|valkey|apt|docker)/.test(name))
    const installFolder = await emptyFolder()
    await expect(start('a-password', { installFolder })).rejects.toThrow(
      /^postern needs Valkey or Redis 7: install valkey-server[^\n]*$/,
    )
  })

  test('comes from the distribution’s package if it is not installed', async (context) => {
    if (!canUnpack()) context.skip('no apt on this machine that knows redis-server')
    await hidePrograms((name) => /^(redis|valkey|docker)/.test(name))
    const lines: string[] = []
    const installFolder = await emptyFolder()
    const { redis } = await start('a-password', { installFolder, lines })
    expect(lines).toEqual([expect.stringContaining("unpacking the distribution's package")])
    expect(await readlink(`/proc/${redis.pid}/exe`)).toContain(installFolder)
    expect(await send(redis, 'AUTH postern-admin a-password', 'PING')).toContain('+PONG')
  }, 400_000)
})
