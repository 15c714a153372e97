import { calendarOf } from './calendar.ts'
import { type DemoFile, makeEvidence } from './evidence.ts'
import type { DemoFinding } from './finding.ts'
import { makeFindings } from './findings.ts'
import { type DemoPeople, makePeople } from './people.ts'
import { type Scenario, scaleScenario } from './scenario.ts'
import { type DemoUniverse, makeUniverse } from './universe.ts'

/** All rows of a demo tenant. */
export interface DemoData {
  readonly scenario: Scenario
  readonly people: DemoPeople
  readonly universe: DemoUniverse
  readonly findings: readonly DemoFinding[]
  readonly evidence: readonly DemoFile[]
}

export interface DemoOptions {
  /** The reference day (UTC) of all dates. */
  readonly today: Date
  /** Another seed gives other rows. */
  readonly seed?: string
  /** Multiplies all counts. Files are then small. */
  readonly factor?: number
}

/**
 * Generates the rows of a demo tenant, always the same for the same day, seed and factor. Tenants share external ids,
 * references, e-mail addresses and the bytes of files, so that a leak between them is visible.
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
