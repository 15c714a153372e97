import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'

export function commandEnvironment(root, node) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)))
  env.PATH = [dirname(node), join(root, 'node_modules', '.bin'), env.PATH].join(delimiter)
  env.NODE_COMPILE_CACHE ??= join(root, '.tools', 'compile-cache')
  return env
}

let stopped = false

export function isStopped() {
  return stopped
}

export function follow(command, args, { env, cwd, isGuarded = false }) {
  return new Promise((resolve, reject) => {
    // Descriptor 3 closes when this process ends, even by SIGKILL.
    const stdio = isGuarded ? ['inherit', 'inherit', 'inherit', 'pipe'] : 'inherit'
    const child = spawn(command, args, { cwd, env: isGuarded ? { ...env, POSTERN_PARENT_FD: '3' } : env, stdio })
    child.stdio[3]?.on('error', () => undefined)
    const stop = (signal) => {
      stopped = true
      child.kill(signal)
    }
    const handlers = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => [signal, () => stop(signal)])
    for (const [signal, handler] of handlers) process.on(signal, handler)
    // If npm is killed, a changed parent is the only sign.
    const parent = process.ppid
    const watch = setInterval(() => process.ppid === parent || stop('SIGTERM'), 1_000)
    if (process.env.npm_lifecycle_event === undefined) clearInterval(watch)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearInterval(watch)
      for (const [name, handler] of handlers) process.off(name, handler)
      resolve(code ?? 128 + (constants.signals[signal] ?? 0))
    })
  })
}
