import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { bytesOf } from './evidence.ts'
import { type DemoData, generateDemo } from './generate.ts'
import { readScenarios } from './scenario.ts'

const today = new Date('2026-11-21T12:00:00Z')
const day = '2026-11-21'

const scenarios = readScenarios()
const [bank] = scenarios
const data = new Map(scenarios.map((scenario) => [scenario.slug, generateDemo(scenario, { today })]))

function demo(slug: string): DemoData {
  const found = data.get(slug)
  if (found === undefined) throw new Error(`no demo tenant is called ${slug}`)
  return found
}

function countBy<T>(list: readonly T[], keyOf: (item: T) => string): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(list, keyOf)].map(([key, { length }]) => [key, length]))
}

const isOpen = (status: string): boolean => !['closed', 'risk_accepted', 'cancelled'].includes(status)

const due = (last: string, months: number): string => {
  const date = new Date(last)
  date.setUTCMonth(date.getUTCMonth() + months)
  return date.toISOString().slice(0, 10)
}

const isPastDue = (date: string | undefined, months: number | undefined): boolean =>
  date !== undefined && months !== undefined && due(date, months) < day

const hash = (file: DemoData['evidence'][number]): string => createHash('sha256').update(bytesOf(file)).digest('hex')

/** How much of each kind there is. */
const shapeOf = ({ universe, people, findings, evidence }: DemoData) => {
  const plans = findings.flatMap((finding) => finding.plans)
  const linked = (key: string): number =>
    universe.hierarchies.find((hierarchy) => hierarchy.key === key)?.push.nodes.flatMap(({ entities }) => entities)
      .length ?? 0
  return {
    ...countBy(findings, ({ severity }) => severity),
    ...countBy(findings, ({ status }) => status),
    repeats: findings.filter(({ repeatOf }) => repeatOf !== null).length,
    overdue: findings.filter(({ status, targetOn }) => isOpen(status) && targetOn < day).length,
    plans: plans.length,
    extended: plans.filter(({ extensions }) => extensions.length > 0).length,
    blocked: plans.filter(({ moves }) => moves.at(-1)?.to === 'blocked').length,
    log: findings.flatMap(({ log }) => log).length,
    entities: universe.entities.length,
    procedures: universe.testProcedures.length,
    people: people.rows.length,
    leavers: people.leavers.length,
    reused: evidence.filter(({ testProcedures: named }) => named.length > 1).length,
    ...Object.fromEntries(universe.hierarchies.map(({ key, push }) => [key, push.nodes.length])),
    linked: linked(universe.hierarchies[0]?.key ?? ''),
  }
}

describe('the demo data', () => {
  test('differ for another seed and for another day', () => {
    expect(generateDemo(bank, { today, seed: 'another' })).not.toEqual(demo('harbourline'))
    expect(generateDemo(bank, { today: new Date('2027-02-01') })).not.toEqual(demo('harbourline'))
  })

  test('are the same for the same seed and day', () => {
    for (const scenario of scenarios) {
      expect(generateDemo(scenario, { today })).toEqual(demo(scenario.slug))
    }
  })

  test.each([
    {
      slug: 'harbourline',
      entities: 240,
      nodes: { legal: 14, management: 62, process: 118, geography: 23 },
      people: 1900,
      procedures: 420,
      severities: { critical: 19, high: 71, medium: 144, low: 86 },
      statuses: { closed: 128, risk_accepted: 5, draft: 4 },
      counts: { repeats: 35, overdue: 58, recommendations: 510, plans: 640, extended: 179, blocked: 6, log: 5200 },
      files: { all: 898, reused: 60, revisions: 12 },
      severe: 30,
      pastDue: 12,
    },
    {
      slug: 'korvex',
      entities: 150,
      nodes: { legal: 9, management: 41, geography: 31, process: 76 },
      people: 3400,
      procedures: 260,
      severities: { critical: 11, high: 42, medium: 86, low: 51 },
      statuses: { closed: 72, risk_accepted: 4, draft: 3 },
      counts: { repeats: 17, overdue: 31, recommendations: 300, plans: 370, extended: 96, blocked: 4, log: 2900 },
      files: { all: 520, reused: 35, revisions: 7 },
      severe: 20,
      pastDue: 9,
    },
  ])('of $slug have the expected numbers of rows', (expected) => {
    const { universe, people, findings, evidence } = demo(expected.slug)
    const { entities, hierarchies, testProcedures } = universe
    expect(entities).toHaveLength(expected.entities)
    expect(Object.fromEntries(hierarchies.map(({ key, push }) => [key, push.nodes.length]))).toEqual(expected.nodes)
    expect(people.rows).toHaveLength(expected.people)
    expect(testProcedures).toHaveLength(expected.procedures)
    expect(countBy(findings, ({ severity }) => severity)).toEqual(expected.severities)
    expect(countBy(findings, ({ status }) => status)).toMatchObject(expected.statuses)
    const plans = findings.flatMap((finding) => finding.plans)
    expect({
      repeats: findings.filter(({ repeatOf }) => repeatOf !== null).length,
      overdue: findings.filter(({ status, targetOn }) => isOpen(status) && targetOn < day).length,
      recommendations: findings.flatMap((finding) => finding.recommendations).length,
      plans: plans.length,
      extended: plans.filter(({ extensions }) => extensions.length > 0).length,
      blocked: plans.filter(({ moves }) => moves.at(-1)?.to === 'blocked').length,
      log: findings.flatMap(({ log }) => log).length,
    }).toEqual(expected.counts)
    expect({
      all: evidence.length,
      reused: evidence.filter(({ testProcedures: named }) => named.length > 1).length,
      revisions: evidence.filter(({ revises }) => revises !== null).length,
    }).toEqual(expected.files)
    expect(entities.filter(({ inherent_risk: risk }) => ['critical', 'high'].includes(risk?.rating ?? '')).length).toBe(
      expected.severe,
    )
    expect(entities.filter((entity) => isPastDue(entity.last_audit_date, entity.audit_frequency_months)).length).toBe(
      expected.pastDue,
    )
  })

  test('share external ids, addresses and bytes of files between tenants, so that a leak would be visible', () => {
    const [one, other] = [demo('harbourline'), demo('korvex')]
    const shared = (of: (data: DemoData) => readonly (string | undefined)[]): number => {
      const theirs = new Set(of(other))
      return new Set(of(one).filter((value) => theirs.has(value))).size
    }
    expect(shared(({ findings }) => findings.map(({ external_id }) => external_id))).toBe(190)
    expect(shared(({ universe }) => universe.entities.map(({ external_id }) => external_id))).toBe(150)
    expect(shared(({ universe }) => universe.testProcedures.map(({ external_id }) => external_id))).toBe(260)
    expect(shared(({ people }) => people.rows.map(({ email }) => email))).toBe(1900)
    expect(shared(({ evidence }) => evidence.slice(0, 100).map(hash))).toBe(100)
    // Titles and ids are different, so that they show whose a row is.
    expect(shared(({ findings }) => findings.map(({ title }) => title))).toBe(0)
    expect(shared(({ findings }) => findings.map(({ id }) => id))).toBe(0)
  })

  test('have recommendations with the status of their live plans', () => {
    const statuses = ['accepted', 'implemented', 'verified']
    let followed = 0
    for (const { recommendations, plans } of [...data.values()].flatMap(({ findings }) => findings)) {
      for (const { id, moves } of recommendations) {
        const status = moves.at(-1)?.to ?? 'submitted'
        const live = plans
          .filter((plan) => plan.recommendations.includes(id))
          .map((plan) => plan.moves.at(-1)?.to ?? 'proposed')
          .filter((to) => to !== 'rejected' && to !== 'cancelled')
        if (!statuses.includes(status) || live.length === 0) continue
        followed += 1
        // The status of the least advanced plan.
        const least = Math.min(...live.map((to) => Math.max(0, ['implemented', 'verified'].indexOf(to) + 1)))
        expect(status).toBe(statuses[least])
      }
    }
    expect(followed).toBeGreaterThan(100)
  })

  test('have repeats whose earlier finding was closed before they were identified', () => {
    for (const { findings } of data.values()) {
      const byId = new Map(findings.map((finding) => [finding.id, finding]))
      for (const { repeatOf, identifiedOn } of findings) {
        if (repeatOf === null) continue
        const closed = byId.get(repeatOf)?.moves.at(-1)
        expect(closed?.to).toBe('closed')
        expect((closed?.at.toISOString() ?? '') < identifiedOn).toBe(true)
      }
    }
  })

  test.each(scenarios)('have the same proportions at several times the size: $name', (scenario) => {
    const [one, large] = [demo(scenario.slug), generateDemo(scenario, { today, factor: 3 })]
    const [small, grown] = [Object.entries(shapeOf(one)), new Map(Object.entries(shapeOf(large)))]
    for (const [what, count] of small) {
      // Except for stories and rounding.
      expect([what, Math.abs((grown.get(what) ?? 0) - 3 * count) <= Math.max(6, 0.05 * 3 * count)]).toEqual([
        what,
        true,
      ])
    }
    expect([...grown.keys()].toSorted()).toEqual(small.map(([what]) => what).toSorted())
  })

  test('grow with the factor', () => {
    const { universe, findings, evidence, scenario } = generateDemo(bank, { today, factor: 3 })
    expect(universe.entities).toHaveLength(720)
    expect(findings).toHaveLength(960)
    expect(findings.flatMap(({ log }) => log)).toHaveLength(15_600)
    expect(scenario.counts.evidence.files).toBe(2694)
    expect(evidence.filter((file) => bytesOf(file).length > 2048)).toEqual([])
  })
})
