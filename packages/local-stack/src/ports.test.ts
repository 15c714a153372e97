import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { assertPortFree, claimPort, findFreePort, isPortFree, loopback } from './ports.ts'

test('a taken port is reported with the variable that sets another', async () => {
  const port = await findFreePort()
  const server = createServer().listen(port, loopback)
  await once(server, 'listening')
  await expect(assertPortFree(port, 'gateway', 'POSTERN_PORT')).rejects.toThrow(
    `port ${port} (gateway) is in use on 127.0.0.1: stop the other program, or set POSTERN_PORT to a free port`,
  )
  server.close()
  await once(server, 'close')
  await assertPortFree(port, 'gateway', 'POSTERN_PORT')
})

test('a port belongs to one process until it has ended, even without a listener', async () => {
  const port = await findFreePort()
  const program = `
    const { claimPort } = await import(${JSON.stringify(join(import.meta.dirname, 'ports.ts'))})
    process.stdout.write(String(await claimPort(Number(process.argv[1]))))
    setInterval(() => undefined, 1000)
  `
  const ask = async (wanted: number) => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program, String(wanted)])
    const [answer] = await once(child.stdout, 'data')
    return { child, answer: String(answer) }
  }
  const refused = await ask(port)
  expect(refused.answer).toBe('false')
  refused.child.kill('SIGKILL')

  const other = await ask(port + 1000)
  expect(other.answer).toBe('true')
  expect(await isPortFree(port + 1000)).toBe(true)
  expect(await claimPort(port + 1000)).toBe(false)
  other.child.kill('SIGKILL')
  await once(other.child, 'exit')
  expect(await claimPort(port + 1000)).toBe(true)
})

test('concurrent searches get different ports, even with claims of ended processes', async () => {
  const gone = spawn(process.execPath, ['--eval', ''])
  await once(gone, 'exit')
  const claims = join(tmpdir(), `postern-ports-${userInfo().uid}`)
  await mkdir(claims, { recursive: true, mode: 0o700 })
  const first = await findFreePort()
  const abandon = async (port: number) =>
    // Claims of a live process stay.
    await writeFile(join(claims, String(port)), String(gone.pid), { flag: 'wx' }).catch(() => undefined)
  await Promise.all(Array.from({ length: 200 }, async (_, step) => await abandon(first + 1 + step)))
  const ports = await Promise.all(Array.from({ length: 60 }, findFreePort))
  expect(new Set(ports).size).toBe(ports.length)
})
