import { readFileSync } from 'node:fs'
import {
  actionPlanStatuses,
  causeCategories,
  entityTypes,
  findingSources,
  findingStatuses,
  findingTypes,
  hierarchyKinds,
  pushedEntitySchema,
  severities,
} from '@postern/contracts'
import { z } from 'zod'

const count = z.int().min(0)
const texts = z.array(z.string()).min(1)

const countsSchema = z.strictObject({
  /** `severe`: high or critical inherent risk. `regulated`: a regulator set the audit date. */
  entities: z.strictObject({ all: count, severe: count, pastDue: count, regulated: count }),
  /** `leavers` are inactive and still own action plans. */
  people: z.strictObject({ all: count, owners: count, leavers: count }),
  testProcedures: count,
  findings: z.strictObject({
    all: count,
    repeats: count,
    closed: count,
    overdue: count,
    riskAccepted: count,
    drafts: count,
    cancelled: count,
    pendingValidation: count,
    open: count,
  }),
  recommendations: count,
  actionPlans: z.strictObject({ all: count, extended: count, blocked: count }),
  logEntries: count,
  /** `files` includes revisions; `reused` ones belong to several test procedures. */
  evidence: z.strictObject({ files: count, reused: count, revisions: count }),
})

const hierarchySchema = z.strictObject({
  key: z.string(),
  name: z.string(),
  kind: z.enum(hierarchyKinds),
  nodes: count,
  levels: texts,
})

/** `assessed` and `audited` are days before today. */
const storyEntitySchema = pushedEntitySchema
  .omit({ external_id: true, parent_external_id: true, risk_assessed_at: true, last_audit_date: true })
  .extend({ key: z.string(), parent: z.string().optional(), assessed: count.optional(), audited: count.optional() })

const storyFindingSchema = z.strictObject({
  title: z.string(),
  condition: z.string(),
  criteria: z.string(),
  cause: z.string(),
  consequence: z.string(),
  corrective_action: z.string(),
  cause_category: z.enum(causeCategories),
  severity: z.enum(severities),
  type: z.enum(findingTypes),
  engagement_ref: z.string(),
  entities: texts,
  daysAgo: count,
  owner: z.string(),
  status: z.enum(findingStatuses),
  source: z.enum(findingSources).default('internal_audit'),
  repeats: z.string().optional(),
  acceptedForDays: count.default(0),
  plans: z.array(z.strictObject({ status: z.enum(actionPlanStatuses), extensions: count })).optional(),
})

const vocabularySchema = z.strictObject({
  group: z.string(),
  areas: texts,
  kinds: z.array(z.strictObject({ suffix: z.string(), type: z.enum(entityTypes) })).min(1),
  topics: z
    .array(
      z.strictObject({
        title: z.string(),
        condition: z.string(),
        criteria: z.string(),
        cause: z.string(),
        consequence: z.string(),
        action: z.string(),
        category: z.enum(causeCategories),
        type: z.enum(findingTypes),
      }),
    )
    .min(1),
  procedures: z.array(z.strictObject({ title: z.string(), control: z.string() })).min(1),
  processes: texts,
  places: texts,
})

/** The first rows of a kind, then `unnamed` invalid rows. */
const uploadSchema = z.strictObject({
  /** `people`, `open_test_procedures` or the key of a hierarchy. */
  rows: z.string(),
  first: count.optional(),
  unnamed: count.default(0),
})

const scenarioSchema = z.strictObject({
  slug: z.string(),
  name: z.string(),
  counts: countsSchema,
  hierarchies: z.array(hierarchySchema).min(1),
  keys: z.array(
    z.strictObject({
      label: z.string(),
      scopes: texts,
      state: z.enum(['active', 'expired', 'revoked']),
    }),
  ),
  /** A paused connector has a source that does not exist in a demo. */
  connectors: z.array(
    z.strictObject({
      body: z.looseObject({ key: z.string() }),
      uploads: z.array(uploadSchema),
      isPaused: z.boolean(),
    }),
  ),
  scimUsers: count,
  stories: z.strictObject({ entities: z.array(storyEntitySchema), findings: z.array(storyFindingSchema) }),
  vocabulary: vocabularySchema,
})

export type Scenario = z.infer<typeof scenarioSchema>
export type DemoHierarchy = Scenario['hierarchies'][number]
export type StoryEntity = Scenario['stories']['entities'][number]

const namesSchema = z.strictObject({ firstNames: texts, lastNames: texts, titles: texts })

function readScenarioFile(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../scenarios/${name}.json`, import.meta.url), 'utf8'))
}

export function readScenarios(): readonly [Scenario, Scenario] {
  return [scenarioSchema.parse(readScenarioFile('harbourline')), scenarioSchema.parse(readScenarioFile('korvex'))]
}

export function readNames(): z.infer<typeof namesSchema> {
  return namesSchema.parse(readScenarioFile('people'))
}

/** Multiplies all counts, except stories. */
export function scaleScenario(scenario: Scenario, factor: number): Scenario {
  const times = (value: unknown): unknown =>
    typeof value === 'number'
      ? Math.round(value * factor)
      : Object.fromEntries(Object.entries(value ?? {}).map(([name, part]) => [name, times(part)]))
  return {
    ...scenario,
    counts: countsSchema.parse(times(scenario.counts)),
    hierarchies: scenario.hierarchies.map((hierarchy) => ({
      ...hierarchy,
      nodes: Math.round(hierarchy.nodes * factor),
    })),
  }
}
