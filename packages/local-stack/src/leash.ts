import { spawn } from 'node:child_process'

/**
 * The guard runs as a session of its own and reads from a pipe whose other end only this process holds. When this
 * process ends, however it ends (also by SIGKILL), the pipe closes and the guard stops every process still on the
 * leash: first politely (and awake, should it be frozen), after ten seconds by force.
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
  // A guard that is gone must not take the stack with it, and must not keep an otherwise finished process alive.
  stdin.on('error', () => undefined)
  child.on('error', () => undefined)
  child.on('exit', () => {
    running = undefined
  })
  child.unref()
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref()
  return { write: (line) => stdin.write(line) }
}

/** Ties the life of process `pid` to ours: it is sent `signal` when we end without having released it. */
export function holdOnLeash(pid: number, signal: 'SIGTERM' | 'SIGINT'): void {
  running ??= openGuard()
  running.write(`hold ${pid} ${signal.slice('SIG'.length)}\n`)
}

/** Releases a process that has ended, before its number can belong to another. */
export function releaseFromLeash(pid: number): void {
  running?.write(`drop ${pid}\n`)
}
