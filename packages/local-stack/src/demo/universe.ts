import type { PushedEntity, PushedHierarchy, PushedNode, PushedTestProcedure } from '@postern/contracts'
import type { Calendar } from './calendar.ts'
import type { DemoPeople } from './people.ts'
import { apportion, createRandom, memberOf, type Random } from './random.ts'
import type { DemoHierarchy, Scenario, StoryEntity } from './scenario.ts'

export interface DemoUniverse {
  readonly entities: readonly PushedEntity[]
  readonly hierarchies: readonly { readonly key: string; readonly push: PushedHierarchy }[]
  readonly testProcedures: readonly PushedTestProcedure[]
}

interface Input {
  readonly scenario: Scenario
  readonly seed: string
  readonly calendar: Calendar
  readonly people: DemoPeople
}

export function makeUniverse(input: Input): DemoUniverse {
  const { scenario, seed } = input
  const entities = makeEntities(input, createRandom(`${seed} ${scenario.slug} entities`))
  const random = createRandom(`${seed} ${scenario.slug} hierarchies`)
  return {
    entities,
    hierarchies: scenario.hierarchies.map((hierarchy, index) => ({
      key: hierarchy.key,
      push: makeHierarchy(hierarchy, { input, entities, random, isPrimary: index === 0 }),
    })),
    testProcedures: makeTestProcedures(input, entities, createRandom(`${seed} ${scenario.slug} procedures`)),
  }
}

function entityId(index: number): string {
  return `ENT-${String(index + 1).padStart(4, '0')}`
}

export function storyEntityIds(stories: readonly StoryEntity[]): ReadonlyMap<string, string> {
  return new Map(stories.map(({ key }, index) => [key, entityId(index)]))
}

const opinions = ['satisfactory', 'needs_improvement', 'unsatisfactory'] as const

function makeEntities({ scenario, calendar, people }: Input, random: Random): PushedEntity[] {
  const { vocabulary: words } = scenario
  const stories = scenario.stories.entities
  const ids = storyEntityIds(stories)
  const ofStories = stories.map((story, index): PushedEntity => {
    const { key: _key, parent, assessed, audited, ...same } = story
    const parentId = parent === undefined ? undefined : ids.get(parent)
    return {
      ...same,
      external_id: entityId(index),
      ...(parentId === undefined ? {} : { parent_external_id: parentId }),
      ...(assessed === undefined ? {} : { risk_assessed_at: calendar.date(assessed) }),
      ...(audited === undefined ? {} : { last_audit_date: calendar.date(audited) }),
    }
  })
  const { all, severe, pastDue, regulated } = scenario.counts.entities
  const made = all - ofStories.length
  const order = random.shuffled(Array.from({ length: made }, (_none, index) => index))
  const severeOnes = new Set(order.slice(0, severe - ofStories.filter(isSevere).length))
  const pastDueOnes = new Set(order.slice(-pastDue))
  const regulatedOnes = new Set(order.slice(made - pastDue - regulated, made - pastDue))
  return [
    ...ofStories,
    ...Array.from({ length: made }, (_none, index): PushedEntity => {
      const area = memberOf(words.areas, index)
      const round = Math.floor(index / words.areas.length)
      const kind = round === 0 ? undefined : memberOf(words.kinds, round - 1)
      const copy = Math.floor(Math.max(0, round - 1) / words.kinds.length)
      const isRegulated = regulatedOnes.has(index)
      const months = isRegulated ? 12 : random.pick([12, 18, 24, 36])
      const days = Math.floor(months * 30.4)
      const inherent = severeOnes.has(index)
        ? { rating: random.pick(['critical', 'high'] as const), score: random.int(66, 95) }
        : { rating: random.pick(['medium', 'medium', 'low'] as const), score: random.int(10, 60) }
      return {
        external_id: entityId(ofStories.length + index),
        parent_external_id: round === 0 ? entityId(0) : entityId(ofStories.length + (index % words.areas.length)),
        name: kind === undefined ? area : `${area}: ${kind.suffix}${copy === 0 ? '' : ` ${copy + 1}`}`,
        type: kind?.type ?? 'business_unit',
        status: 'active',
        owner: random.pick(people.owners),
        audit_lead: random.pick(people.validators),
        inherent_risk: inherent,
        residual_risk: { rating: random.pick(['medium', 'low']), score: random.int(5, 60) },
        risk_assessed_at: calendar.date(random.int(10, 420)),
        audit_frequency_months: months,
        last_audit_date: calendar.date(pastDueOnes.has(index) ? days + random.int(40, 200) : random.int(20, days - 30)),
        last_audit_opinion: random.pick(opinions),
        ...(isRegulated ? { regulatory_next_due: calendar.date(-random.int(30, 300)) } : {}),
      }
    }),
  ]
}

const severeRatings: ReadonlySet<string> = new Set(['critical', 'high'])

function isSevere({ inherent_risk: risk }: PushedEntity): boolean {
  return severeRatings.has(risk?.rating ?? 'low')
}

interface HierarchyInput {
  readonly input: Input
  readonly entities: readonly PushedEntity[]
  readonly random: Random
  readonly isPrimary: boolean
}

function makeHierarchy(
  { name, kind, nodes: count, levels }: DemoHierarchy,
  { input, entities, random, isPrimary }: HierarchyInput,
): PushedHierarchy {
  const words = input.scenario.vocabulary
  const depths = apportion(
    count - 1,
    levels.slice(1).map((_level, index) => 4 ** index),
  )
  const nodes: PushedNode[] = []
  let above: PushedNode[] = []
  for (const [depth, size] of [1, ...depths].entries()) {
    const level = Array.from({ length: size }, (_none, index): PushedNode => {
      const parent = depth === 0 ? undefined : memberOf(above, index)
      return {
        node_key: `N-${String(nodes.length + index + 1).padStart(4, '0')}`,
        ...(parent === undefined ? {} : { parent_key: parent.node_key }),
        name: nodeName(words, kind, { depth, index, parent }),
        level_name: memberOf(levels, depth),
        head: random.pick(input.people.owners),
        status: 'active',
        valid_from: input.calendar.date(1100),
        entities: [],
      }
    })
    nodes.push(...level)
    above = level
  }
  const placed = nodes.map((): string[] => [])
  for (const [index, { external_id }] of entities.entries()) {
    if (isPrimary || random.int(0, 1) === 1) memberOf(placed, index).push(external_id)
  }
  return {
    name,
    kind,
    ...(isPrimary ? { is_primary: true } : {}),
    mode: 'full',
    nodes: nodes.map((node, index) => ({ ...node, entities: (placed[index] ?? []).slice(0, 50) })),
  }
}

interface Place {
  readonly depth: number
  readonly index: number
  readonly parent: PushedNode | undefined
}

function nodeName(words: Scenario['vocabulary'], kind: DemoHierarchy['kind'], { depth, index, parent }: Place): string {
  if (depth === 0) return words.group
  const first = kind === 'process' ? words.processes : kind === 'geography' ? words.places : words.areas
  const name = depth === 1 ? memberOf(first, index) : `${parent?.name}, ${memberOf(words.kinds, index).suffix}`
  const again = depth === 1 ? Math.floor(index / first.length) : 0
  return again === 0 ? name : `${name} ${again + 1}`
}

const statuses = ['completed', 'completed', 'in_review', 'in_progress', 'not_started'] as const

function makeTestProcedures(
  { scenario, calendar, people }: Input,
  entities: readonly PushedEntity[],
  random: Random,
): PushedTestProcedure[] {
  const words = scenario.vocabulary
  return Array.from({ length: scenario.counts.testProcedures }, (_none, index): PushedTestProcedure => {
    const { title, control } = memberOf(words.procedures, index)
    const entity = memberOf(entities, random.int(1, entities.length - 1))
    const status = random.pick(statuses)
    const ago = random.int(0, 3) * 91
    const population = random.int(20, 4000)
    return {
      external_id: `TP-${String(index + 1).padStart(4, '0')}`,
      title: `${title}: ${entity.name}`,
      control_ref: `${control}-${String((index % 40) + 1).padStart(2, '0')}`,
      objective: `Show that "${title.toLowerCase()}" was done as the standard asks, in every case of the period.`,
      method: random.pick(['examine', 'interview', 'test']),
      test_type: random.pick(['design', 'operating_effectiveness']),
      entities: [entity.external_id],
      engagement_ref: engagementOf(index),
      period_start: calendar.date(ago + 121),
      period_end: calendar.date(ago + 30),
      population_size: population,
      sample_size: Math.min(population, random.pick([15, 25, 40])),
      tester: random.pick(people.owners),
      reviewer: random.pick(people.validators),
      due_date: calendar.date(ago - 30),
      status,
      ...(status === 'completed'
        ? { conclusion: random.pick(['effective', 'effective', 'ineffective'] as const) }
        : {}),
    }
  })
}

export function engagementOf(index: number): string {
  return `IA-${String((index % 24) + 1).padStart(2, '0')}`
}
