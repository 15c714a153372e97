// `npm run test:providers`: exit code 1 if a check failed. A provider whose language is not installed is skipped by
// name.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArguments } from '../arguments.ts'
import { checkDex } from './dex.ts'
import { checkKeycloak } from './keycloak.ts'
import { type Report, createReport } from './report.ts'
import { checkScim } from './scim.ts'

export interface Part {
  readonly folder: string
  readonly report: Report
  /** Runs at the end, in reverse order. */
  atEnd(work: () => Promise<void>): void
}

type Check = (part: Part) => Promise<string | undefined>

const checks: Readonly<Record<string, Check>> = { keycloak: checkKeycloak, dex: checkDex, 'scim2-tester': checkScim }

const endings: (() => Promise<void>)[] = []

async function endAll(): Promise<void> {
  for (const work of endings.splice(0).toReversed()) {
    await work().catch((error: unknown) => process.stderr.write(`providers: ${String(error)}\n`))
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void endAll().finally(() => process.exit(1)))
}

async function runOne(name: string, check: Check): Promise<{ readonly line: string; readonly isFine: boolean }> {
  const report = createReport(name)
  const folder = await mkdtemp(join(tmpdir(), 'postern-providers-'))
  endings.push(async () => await rm(folder, { recursive: true, force: true }))
  const began = performance.now()
  try {
    const reason = await check({ folder, report, atEnd: (work) => void endings.push(work) })
    if (reason !== undefined) return { line: `SKIPPED ${name}: ${reason}`, isFine: true }
  } catch (error) {
    report.check('runs to its end', false, error instanceof Error ? error.message : 'unknown')
  } finally {
    await endAll()
  }
  const seconds = Math.round((performance.now() - began) / 1000)
  const { passed, failed } = report
  return { line: `${name}: ${passed} passed, ${failed} failed, in ${seconds} s`, isFine: failed === 0 }
}

const names = Object.keys(checks)
const usage = `Usage: npm run test:providers -- [provider…]\nThe providers are ${names.join(', ')}.`
const { positionals: chosen } = parseArguments(usage, {}, names)
const results = []
for (const [name, check] of Object.entries(checks)) {
  if (chosen.length === 0 || chosen.includes(name)) results.push(await runOne(name, check))
}
for (const { line } of results) process.stdout.write(`${line}\n`)
process.exitCode = results.every(({ isFine }) => isFine) ? 0 : 1
