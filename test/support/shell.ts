import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

/** Runs a pasted program of the console and types the key, which the program asks for. Returns the output. */
export async function runSnippet(kind: 'bash' | 'python3', program: string, key: string): Promise<string> {
  // No proxy of this machine and no .curlrc: what is tried is the program.
  const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: '/nonexistent' }
  // In a session of its own, without the terminal that Python would ask.
  const child = spawn(kind, ['-c', program], {
    env,
    stdio: ['pipe', 'pipe', 'ignore'],
    timeout: 60_000,
    detached: true,
  })
  child.stdin.end(`${key}\n`)
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')])
  return output
}
