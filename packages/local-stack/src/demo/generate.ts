import { calendarOf } from './calendar.ts'
import { type DemoFile, makeEvidence } from './evidence.ts'
import type { DemoFinding } from './finding.ts'
import { makeFindings } from './findings.ts'
import { type DemoPeople, makePeople } from './people.ts'
import { type DemoProfile, demoProfiles, scaled } from './profile.ts'
import { bankStories } from './stories-bank.ts'
import { manufacturingStories } from './stories-manufacturing.ts'
import type { Stories } from './story.ts'
import { type DemoUniverse, makeUniverse } from './universe.ts'

/** All rows of a demo tenant. */
export interface DemoData {
  readonly profile: DemoProfile
  readonly people: DemoPeople
  readonly universe: DemoUniverse
  readonly findings: readonly DemoFinding[]
  readonly evidence: readonly DemoFile[]
}

export interface DemoOptions {
  /** The day (UTC) from which all dates count back. */
  readonly today: Date
  /** Another seed gives other rows. */
  readonly seed?: string
  /** So many times as much of everything; 100 for benchmarks. */
  readonly factor?: number
}

const stories: Readonly<Record<DemoProfile['sector'], Stories>> = {
  bank: bankStories,
  manufacturing: manufacturingStories,
}

/**
 * Makes the rows of a demo tenant: the same for the same day, seed and factor. Tenants share external ids, references,
 * e-mail addresses and the bytes of files on purpose, so that whatever leaks from one to the other shows.
 */
export function generateDemo(
  profile: DemoProfile,
  { today, seed = 'postern demo', factor = 1 }: DemoOptions,
): DemoData {
  const sized = factor === 1 ? profile : scaled(profile, factor)
  const calendar = calendarOf(today)
  const told = stories[sized.sector]
  const people = makePeople(sized, seed)
  const universe = makeUniverse({ profile: sized, seed, calendar, people, stories: told.entities })
  const { entities } = universe
  return {
    profile: sized,
    people,
    universe,
    findings: makeFindings({ profile: sized, seed, calendar, people, stories: told, entities }),
    evidence: makeEvidence(sized, seed, calendar),
  }
}

export { demoProfiles }
