import { calendarOf } from './calendar.ts'
import { type DemoFile, makeEvidence } from './evidence.ts'
import type { DemoFinding } from './finding.ts'
import { makeFindings } from './findings.ts'
import { type DemoPeople, makePeople } from './people.ts'
import { type Scenario, scaleScenario } from './scenario.ts'
import { type DemoUniverse, makeUniverse } from './universe.ts'

export interface DemoData {
  readonly scenario: Scenario
  readonly people: DemoPeople
  readonly universe: DemoUniverse
  readonly findings: readonly DemoFinding[]
  readonly evidence: readonly DemoFile[]
}

export interface DemoOptions {
  readonly today: Date
  readonly seed?: string
  /** Multiplies all counts. Files are then small. */
  readonly factor?: number
}

/**
 * The same day, seed and factor give the same rows. Tenants share external ids, references, addresses and bytes, so
 * that a leak is visible.
 */
export function generateDemo(scenario: Scenario, { today, seed = 'postern demo', factor = 1 }: DemoOptions): DemoData {
  const sized = factor === 1 ? scenario : scaleScenario(scenario, factor)
  const calendar = calendarOf(today)
  const people = makePeople(sized, seed)
  const universe = makeUniverse({ scenario: sized, seed, calendar, people })
  const { entities } = universe
  return {
    scenario: sized,
    people,
    universe,
    findings: makeFindings({ scenario: sized, seed, calendar, people, entities }),
    evidence: makeEvidence(sized, { seed, calendar, ...(factor === 1 ? {} : { fileBytes: 1024 }) }),
  }
}
