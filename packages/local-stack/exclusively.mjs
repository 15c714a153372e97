import { closeSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'

/** An older empty lock belongs to a process that failed to write its id. */
const emptyForMs = 10_000

/** Runs `work` while holding the lock file. */
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
    if (!told) say(`waiting for the installation by process ${holder}`)
    told = true
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
  const release = () => rmSync(lock, { force: true })
  process.once('exit', release)
  try {
    return work()
  } finally {
    release()
    process.off('exit', release)
  }
}

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

/** Whether another process has this id; in a new container, a killed process may have had ours. */
function isAnother(pid) {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
