import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

function read(path) {
  return JSON.parse(readFileSync(path, 'utf8'))
}

/** Throws and removes `<into>.json` if a report is missing or invalid. */
export function mergeReports(folder, { from, into }) {
  const pathOf = (name, kind) => join(folder, `${name}${kind}.json`)
  try {
    const [added, first] = [read(pathOf(from, '')), read(pathOf(into, ''))]
    const counts = Object.keys(first).filter((name) => name.startsWith('num'))
    const whole = {
      ...first,
      ...Object.fromEntries(counts.map((name) => [name, first[name] + added[name]])),
      success: first.success && added.success,
      testResults: [...first.testResults, ...added.testResults],
    }
    const errors = [into, from].flatMap((name) => {
      const path = pathOf(name, '.errors')
      return existsSync(path) ? read(path) : []
    })
    writeFileSync(pathOf(into, ''), JSON.stringify(whole))
    writeFileSync(pathOf(into, '.errors'), JSON.stringify(errors))
  } catch (error) {
    rmSync(pathOf(into, ''), { force: true })
    throw error
  } finally {
    for (const kind of ['', '.errors']) rmSync(pathOf(from, kind), { force: true })
  }
}
