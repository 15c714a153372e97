import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Returns the exit code and the last log line. */
export async function runMove(
  env: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<{ readonly code: unknown; readonly last: unknown }> {
  const main = fileURLToPath(new URL('../src/move-to-bucket.ts', import.meta.url))
  const child = spawn(process.execPath, ['--conditions=@postern/source', main, ...args], {
    env: { PATH: '/usr/bin:/bin', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  const [code] = await once(child, 'close')
  const line = output.trimEnd().split('\n').at(-1) ?? ''
  return { code, last: JSON.parse(line) }
}
