import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

/** How many modules of tracing a process has loaded when the module of a service is there, and tracing opened as the environment says. */
async function loadedWith(url: string | undefined): Promise<string> {
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({ load: (path, context, next) => (loaded.push(path), next(path, context)) })
    const { openTracing } = await import('@postern/service-kit')
    await import('./src/run-gateway.ts')
    await openTracing({ url: process.env.COLLECTOR || undefined, percent: 100 }, { service: 'x', followsCaller: true, onFailure() {} })
    console.log(loaded.filter((path) => /sdk-trace|otlp/.test(path)).length)`
  const args = ['--conditions=@postern/source', '--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: `${import.meta.dirname}/..`,
    env: { ...process.env, COLLECTOR: url ?? '' },
  })
  return stdout.trim()
}

test('no tracing code is loaded if tracing is off', async () => {
  expect(await loadedWith(undefined)).toBe('0')
  expect(Number(await loadedWith('http://127.0.0.1:9'))).toBeGreaterThan(10)
})
