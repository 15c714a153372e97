import { closeSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'

/** A lock is empty for a moment, between its creation and the number in it; one that stays so is of a process that could not write. */
const emptyForMs = 10_000

/** Runs `work` while no other process does that knows of the lock, a file. Runs on any Node that the bootstrap runs on. */
export function exclusively(lock, work, say) {
  let told = false
  for (;;) {
    try {
      const file = openSync(lock, 'wx')
      writeSync(file, String(process.pid))
      closeSync(file)
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const holder = holderOf(lock)
    if (holder === undefined) continue
    if (!told) say(`waiting for the installation that process ${holder} does`)
    told = true
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
  const release = () => rmSync(lock, { force: true })
  // Ctrl-C during an installation reaches npm or pnpm too, which then fail; the lock goes with us in any case.
  process.once('exit', release)
  try {
    return work()
  } finally {
    release()
    process.off('exit', release)
  }
}

/** The live process that holds the lock; undefined when it is free now, having been removed if its holder is gone. */
function holderOf(lock) {
  let text
  let age
  try {
    text = readFileSync(lock, 'utf8')
    age = Date.now() - statSync(lock).mtimeMs
  } catch {
    return undefined
  }
  if (text === '' && age < emptyForMs) return 'unknown'
  const pid = Number(text)
  if (text !== '' && isAnother(pid)) return pid
  rmSync(lock, { force: true })
  return undefined
}

/** Whether it is a process, and not ourselves: in a new container the numbers begin anew, and one that was killed had ours. */
function isAnother(pid) {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
