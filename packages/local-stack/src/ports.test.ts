import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { assertPortFree, claimPort, findFreePort, isPortFree, loopback } from './ports.ts'

test('a port that is taken is named with the variable that chooses another', async () => {
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

test('a port is given to one process alone until that has ended, though nothing listens there', async () => {
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
