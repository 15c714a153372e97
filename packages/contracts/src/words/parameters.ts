import type { z } from 'zod'

/** The first example that the schema accepts is shown. */
interface Words {
  readonly description?: string
  readonly examples?: readonly string[]
}

/** A name means the same in every route. */
const words: Readonly<Record<string, Words>> = {
  id: { description: 'Its id', examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] },
  key: { description: 'Its key', examples: ['legal'] },
  guide: { description: 'The name of a guide', examples: ['first-request'] },
  slug: { description: 'The last part of the problem type URI', examples: ['not-found'] },
  limit: { examples: ['100'] },
  since: { examples: ['now', '0'] },
  sort: {
    description:
      'The order; a leading `-` reverses it. A resource that changes its position while you read the list can be missing or occur twice. To miss nothing, sort by a value that does not change, or follow `GET /changes`',
  },
  expand: { description: 'Adds related resources to the response' },
  external_id: { examples: ['SAP-4711'] },
  updated_since: { examples: ['2026-11-21T10:30:00+01:00'] },
  q: { examples: ['access'] },
  fields: { examples: ['id'] },
  owner: { examples: ['ada.lund@harbourline.example'] },
  overdue: { description: 'Whether its date has passed and it is not done', examples: ['true'] },
  repeat: { description: 'Whether it repeats an earlier one', examples: ['true'] },
  identified_from: { description: 'Identified on this day or later' },
  identified_to: { description: 'Identified on this day or earlier' },
  target_after: { description: 'With a target date after this day' },
  target_before: { description: 'With a target date before this day' },
  due_after: { description: 'Due after this day' },
  due_before: { description: 'Due before this day' },
  next_audit_due_before: { description: 'The next audit is due before this day' },
  entity_id: { examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] },
  finding_id: { examples: ['ref:F-2026-0042'] },
  ref: { examples: ['F-2026-0042'] },
  connector_id: { examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] },
  test_procedure_id: { examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] },
  received_after: { description: 'Received after this time', examples: ['2026-11-21T10:30:00+01:00'] },
  received_before: { description: 'Received before this time', examples: ['2026-11-21T10:30:00+01:00'] },
  subtree_of: { examples: ['ref:AE-0001', 'key:retail'] },
  parent_id: { examples: ['none'] },
  root: { examples: ['key:retail'] },
  depth: { examples: ['1'] },
  as_of: { examples: ['2026-11-21'] },
  from: { examples: ['1'] },
  to: { examples: ['2'] },
  group_by: { description: 'The property to group by' },
  after_seq: { description: 'Entries after this number', examples: ['0'] },
  since_seq: { examples: ['0'] },
  actor: { examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] },
  day: { description: 'A day (UTC)' },
  engagement_ref: { description: 'The reference of the engagement', examples: ['ENG-2026-07'] },
  control_ref: { description: 'The reference of the control', examples: ['ITGC-04'] },
  email: { description: 'The person with this e-mail address', examples: ['ada.lund@harbourline.example'] },
  active: { description: 'Whether the source lists the person as active' },
  label: { examples: ['BI export'] },
  test_procedure: { examples: ['ref:TP-0001'] },
  source_system: { examples: ['Identity management'] },
  collection_method: { description: 'How the evidence was collected' },
  collected_at: { description: 'When the evidence was collected' },
  classification: { description: 'How confidential the file is' },
  description: { description: 'What the file shows', examples: ['Access review of the third quarter'] },
  connector: { examples: ['hr-nightly'] },
  reason: { description: 'The reason, for later readers', examples: ['Agreed with the owner'] },
}

interface Described {
  readonly type?: unknown
  readonly description?: unknown
  readonly examples?: unknown
  readonly enum?: unknown
}

export function parameterWords(
  name: string,
  schema: z.ZodType,
  described: Described,
): { readonly description?: unknown; readonly example?: unknown } {
  const { description = words[name]?.description } = described
  const example = exampleIn(name, schema, described)
  return {
    ...(description === undefined ? {} : { description }),
    ...(example === undefined ? {} : { example }),
  }
}

/** Parameters are text. */
function exampleIn(name: string, schema: z.ZodType, { type, examples, enum: choices }: Described): unknown {
  const own = [examples, choices].flatMap((given): unknown[] => (Array.isArray(given) ? given : []))
  const fitting = [...own, ...(words[name]?.examples ?? [])].find((each) => schema.safeParse(String(each)).success)
  return type === 'integer' && fitting !== undefined ? Number(fitting) : fitting
}
