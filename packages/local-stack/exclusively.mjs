import { closeSync, linkSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'

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
  removeAbandoned(lock, text)
  return undefined
}

function removeAbandoned(lock, text) {
  const moved = `${lock}.${process.pid}`
  try {
    renameSync(lock, moved)
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    return
  }
  // Another process may have taken the lock over before the move.
  try {
    if (readFileSync(moved, 'utf8') !== text) linkSync(moved, lock)
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  rmSync(moved, { force: true })
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
