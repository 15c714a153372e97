import { spawn } from 'node:child_process'

/**
 * When this process ends, even by SIGKILL, the pipe closes. The guard then stops all remaining processes, after ten
 * seconds by SIGKILL.
 */
const guard = `
held=''
while read -r verb pid signal; do
  rest=''
  for entry in $held; do
    [ "\${entry#*:}" = "$pid" ] || rest="$rest $entry"
  done
  held=$rest
  [ "$verb" = hold ] && held="$held $signal:$pid"
done
for entry in $held; do
  kill -s "\${entry%%:*}" "\${entry#*:}"
  kill -s CONT "\${entry#*:}"
done
tries=0
while [ -n "$held" ] && [ $tries -lt 100 ]; do
  rest=''
  for entry in $held; do
    kill -s 0 "\${entry#*:}" && rest="$rest $entry"
  done
  held=$rest
  [ -n "$held" ] && sleep 0.1
  tries=$((tries + 1))
done
for entry in $held; do
  kill -s KILL "\${entry#*:}"
done
`

interface Guard {
  write(line: string): void
}

let running: Guard | undefined

function openGuard(): Guard {
  const child = spawn('/bin/sh', ['-c', guard], { detached: true, stdio: ['pipe', 'ignore', 'ignore'], cwd: '/' })
  const { stdin } = child
  // A guard that ends must not stop the stack or keep this process alive.
  stdin.on('error', () => undefined)
  child.on('error', () => undefined)
  child.on('exit', () => {
    running = undefined
  })
  child.unref()
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref()
  return { write: (line) => stdin.write(line) }
}

/** Registers a process; the guard sends it `signal` if this process ends first. */
export function guardProcess(pid: number, signal: 'SIGTERM' | 'SIGINT'): void {
  running ??= openGuard()
  running.write(`hold ${pid} ${signal.slice('SIG'.length)}\n`)
}

/** Call it before the id is reused. */
export function releaseProcess(pid: number): void {
  running?.write(`drop ${pid}\n`)
}
