import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Upstream } from '@postern/contracts'
import { compileCache } from '../paths.ts'
import { programOf } from '../services.ts'
import { servicePatience } from './patience.ts'

export interface SpawnedService {
  readonly url: string
  kill(signal: NodeJS.Signals): Promise<void>
}

/** Starts a service as a process with only these variables. `fileBlocks` limits its files (`ulimit -f`). */
export async function spawnTestService(
  name: Upstream,
  env: Readonly<Record<string, string>>,
  { fileBlocks }: { readonly fileBlocks?: number | undefined } = {},
): Promise<SpawnedService> {
  const limit = fileBlocks === undefined ? '' : `ulimit -f ${fileBlocks}; `
  const child = spawn('/bin/sh', ['-c', `${limit}exec "$0" "$1"`, process.execPath, programOf(name)], {
    env: {
      PATH: '/usr/bin:/bin',
      NODE_COMPILE_CACHE: compileCache,
      POSTERN_REQUEST_LOG: 'off',
      ...servicePatience,
      ...env,
      POSTERN_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let port: number | undefined
  for await (const line of createInterface({ input: child.stdout })) {
    const entry: { event?: string; port?: number } = JSON.parse(line)
    if (entry.event !== 'listening') continue
    port = entry.port
    break
  }
  child.stdout.resume()
  if (port === undefined) throw new Error(`the ${name} service did not start`)
  return {
    url: `http://127.0.0.1:${port}`,
    kill: async (signal) => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill(signal)
      await exited
    },
  }
}
