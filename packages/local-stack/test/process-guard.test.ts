import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { isAlive } from '../src/processes.ts'
import { makeTestFolder } from '../src/testing/index.ts'

const processesModule = join(import.meta.dirname, '..', 'src', 'processes.ts')

/** A program that launches one process, prints its number, and stays. */
function startLauncher(folder: string, shellCommand: string) {
  const program = `
    import { launch } from ${JSON.stringify(processesModule)}
    const child = await launch({
      name: 'child', command: '/bin/sh', args: ['-c', ${JSON.stringify(shellCommand)}],
      env: { PATH: '/usr/bin:/bin' }, cwd: '/', logFile: ${JSON.stringify(join(folder, 'child.log'))},
    })
    process.stdout.write(String(child.pid))
    setInterval(() => undefined, 1000)
  `
  return spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] })
}

async function untilGone(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(20)
}

// At once: by force is after ten seconds.
describe.concurrent('a process of the stack', () => {
  test.for([
    ['in order', 'exec sleep 1000'],
    ['by force when it does not listen', "trap '' TERM; while :; do sleep 1; done"],
    ['also when it is frozen', 'kill -STOP $$; exec sleep 1000'],
  ] as const)('ends when the one that started it is killed: %s', async ([, shellCommand]) => {
    const launcher = startLauncher(await makeTestFolder('process-guard'), shellCommand)
    const [output] = await once(launcher.stdout, 'data')
    const pid = Number(output)
    expect(isAlive(pid)).toBe(true)
    launcher.kill('SIGKILL')
    await untilGone(pid)
    expect(isAlive(pid)).toBe(false)
  })
})
