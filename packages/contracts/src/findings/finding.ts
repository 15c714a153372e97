import { z } from 'zod'
import {
  createdBySchema,
  customSchema,
  dateSchema,
  externalIdSchema,
  line,
  personPatchSchema,
  personRefSchema,
  saying,
  text,
  timestampSchema,
  uuidSchema,
} from '../common.ts'
import { conditional, memberIs } from '../conditional-schema.ts'

export const severities = ['critical', 'high', 'medium', 'low'] as const
export const findingTypes = ['control_deficiency', 'noncompliance', 'observation', 'exception', 'improvement'] as const
export const findingStatuses = [
  'draft',
  'open',
  'in_remediation',
  'pending_validation',
  'closed',
  'risk_accepted',
  'cancelled',
] as const
export const causeCategories = ['people', 'process', 'system', 'governance', 'third_party', 'data', 'other'] as const
export const deficiencyClasses = ['deficiency', 'significant_deficiency', 'material_weakness'] as const
export const cosoComponents = [
  'control_environment',
  'risk_assessment',
  'control_activities',
  'information_communication',
  'monitoring',
] as const
export const findingSources = [
  'internal_audit',
  'external_audit',
  'regulator',
  'self_identified',
  'monitoring',
  'other',
] as const
export const agreements = ['agree', 'partially', 'disagree'] as const

const longText = text(0, 100_000)

export const managementResponseSchema = z
  .strictObject({
    agreement: z.enum(agreements),
    text: text(0, 20_000).optional(),
    responded_at: dateSchema.optional(),
  })
  .refine((response) => response.agreement !== 'disagree' || (response.text ?? '').trim() !== '', {
    path: ['text'],
    message: 'a disagreement needs its reasons',
  })
  .meta({
    id: 'ManagementResponse',
    ...conditional(memberIs('agreement', 'disagree'), {
      properties: { text: { pattern: String.raw`\S` } },
      required: ['text'],
    }),
  })

/** What a merge patch (RFC 7396) makes of a management response; what is left must be one. */
const managementResponsePatchSchema = z
  .strictObject({
    agreement: z.enum(agreements).optional(),
    text: text(0, 20_000).nullable().optional(),
    responded_at: dateSchema.nullable().optional(),
  })
  .meta({ id: 'ManagementResponsePatch' })

/** A finding as it is read: the five Cs (condition, criteria, cause, consequence, corrective action) and its state. */
export const findingSchema = z
  .object({
    id: uuidSchema,
    reference: z.string().meta({ examples: ['F-2026-0042'] }),
    external_id: z.string().nullable(),
    title: z.string(),
    condition: z.string(),
    criteria: z.string().nullable(),
    cause: z.string().nullable(),
    consequence: z.string().nullable(),
    corrective_action: z.string().nullable(),
    cause_category: z.enum(causeCategories).nullable(),
    severity: z.enum(severities),
    type: z.enum(findingTypes),
    deficiency_class: z.enum(deficiencyClasses).nullable(),
    coso_component: z.enum(cosoComponents).nullable(),
    status: z.enum(findingStatuses),
    entity_ids: z.array(uuidSchema),
    owner: personRefSchema.nullable(),
    identified_date: dateSchema,
    target_date: dateSchema.nullable(),
    repeat_of_id: uuidSchema.nullable(),
    is_repeat: z.boolean(),
    source: z.enum(findingSources).nullable(),
    engagement_ref: z.string().nullable(),
    test_procedure_id: uuidSchema.nullable(),
    management_response: managementResponseSchema.nullable(),
    is_overdue: z.boolean(),
    age_days: z.int().min(0),
    closed_date: dateSchema.nullable(),
    reopened_count: z.int().min(0),
    accepted_until: dateSchema.nullable().meta({ description: 'While the risk is accepted: the last day of it' }),
    accepted_by: personRefSchema.nullable().meta({ description: 'Who has accepted the risk' }),
    is_acceptance_expired: z.boolean().meta({ description: 'The risk was accepted until a day that has passed' }),
    validated_by: personRefSchema.nullable().meta({ description: 'While closed: who has seen that it is remedied' }),
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'Finding' })
export type Finding = z.infer<typeof findingSchema>

/** A closed finding about the same entity with like criteria. */
export const possibleRepeatSchema = z
  .object({
    id: uuidSchema,
    reference: z.string(),
    title: z.string(),
    severity: z.enum(severities),
    closed_date: dateSchema,
    similarity: z.number().min(0).max(1).meta({ description: 'Of the criteria: 1 for the same words' }),
  })
  .meta({ id: 'PossibleRepeat' })
export type PossibleRepeat = z.infer<typeof possibleRepeatSchema>

/** A finding that was just documented, and what its author may want to look at. */
export const documentedFindingSchema = findingSchema
  .extend({
    possible_repeats: z
      .array(possibleRepeatSchema)
      .meta({ description: 'Where it names no finding that it repeats: those that it may repeat, the likest first' }),
    suggested_severity: z
      .enum(severities)
      .nullable()
      .meta({ description: 'Where it repeats one: the severity that a repeat should have, if that is higher' }),
  })
  .meta({ id: 'DocumentedFinding' })

/** What the answer to a write holds for a caller that may not read findings. */
export const findingStubSchema = z
  .object({ id: uuidSchema, reference: z.string(), version: z.int(), status: z.enum(findingStatuses) })
  .meta({ id: 'FindingStub' })
export type FindingStub = z.infer<typeof findingStubSchema>

const entityIdsSchema = z
  .array(uuidSchema)
  .max(50)
  .refine((ids) => new Set(ids).size === ids.length, { message: 'must not repeat an entity' })
  .meta({ uniqueItems: true, description: 'Auditable entities of the universe' })

export const createFindingBodySchema = z
  .strictObject({
    external_id: externalIdSchema.optional(),
    title: line(1, 255),
    condition: saying(100_000),
    criteria: longText.optional(),
    cause: longText.optional(),
    consequence: longText.optional(),
    corrective_action: longText.optional(),
    cause_category: z.enum(causeCategories).optional(),
    severity: z.enum(severities),
    type: z.enum(findingTypes).default('control_deficiency'),
    deficiency_class: z.enum(deficiencyClasses).optional(),
    coso_component: z.enum(cosoComponents).optional(),
    status: z.enum(['draft', 'open']).default('draft'),
    entity_ids: entityIdsSchema.default([]),
    owner: personRefSchema.optional(),
    identified_date: dateSchema
      .optional()
      .meta({ description: 'Default: today (UTC). At most tomorrow (UTC), as a day begins earlier in the east' }),
    target_date: dateSchema
      .optional()
      .meta({ description: 'Default: 30, 90, 180 or 365 days after identification, by severity' }),
    repeat_of_id: uuidSchema.optional(),
    source: z.enum(findingSources).optional(),
    engagement_ref: line(1, 255).optional(),
    test_procedure_id: uuidSchema.optional().meta({ description: 'A test procedure of the universe' }),
    management_response: managementResponseSchema.optional(),
    custom: customSchema.optional(),
  })
  .meta({ id: 'CreateFinding' })
export type CreateFinding = z.output<typeof createFindingBodySchema>

/** A merge patch (RFC 7396), of objects within it too: null takes a value away. The status moves by `POST /findings/{id}/status` alone. */
export const updateFindingBodySchema = z
  .strictObject({
    external_id: externalIdSchema.nullable().optional(),
    title: line(1, 255).optional(),
    condition: saying(100_000).optional(),
    criteria: longText.nullable().optional(),
    cause: longText.nullable().optional(),
    consequence: longText.nullable().optional(),
    corrective_action: longText.nullable().optional(),
    cause_category: z.enum(causeCategories).nullable().optional(),
    severity: z
      .enum(severities)
      .optional()
      .meta({ description: 'What is closed becomes critical or high only where its log names evidence of its remedy' }),
    type: z.enum(findingTypes).optional(),
    deficiency_class: z.enum(deficiencyClasses).nullable().optional(),
    coso_component: z.enum(cosoComponents).nullable().optional(),
    entity_ids: entityIdsSchema.optional(),
    owner: personPatchSchema.nullable().optional(),
    identified_date: dateSchema.optional().meta({ description: 'Only in a draft' }),
    target_date: dateSchema.optional(),
    repeat_of_id: uuidSchema.nullable().optional().meta({ description: 'Only in a draft' }),
    source: z.enum(findingSources).nullable().optional(),
    engagement_ref: line(1, 255).nullable().optional(),
    test_procedure_id: uuidSchema.nullable().optional(),
    management_response: managementResponsePatchSchema.nullable().optional(),
    custom: customSchema.optional().meta({ description: 'Replaces single fields; null takes one away' }),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({ id: 'UpdateFinding', minProperties: 1, examples: [{ title: 'Backups are not tested' }] })
export type UpdateFinding = z.output<typeof updateFindingBodySchema>

/** Evidence as its uploader knows it: what the receipt says. What is in quarantine, rejected or purged proves nothing. */
export const evidenceRefSchema = z
  .strictObject({
    evidence_id: uuidSchema,
    sha256: z.string().regex(/^[0-9a-f]{64}$/),
    size: z.int().min(1),
  })
  .meta({
    id: 'EvidenceReference',
    description: 'Evidence as its receipt says it. A file in quarantine, or that was rejected or purged, is none.',
  })
export type EvidenceRef = z.infer<typeof evidenceRefSchema>

export const changeFindingStatusBodySchema = z
  .strictObject({
    to: z.enum(findingStatuses),
    reason: text(1, 20_000).optional(),
    note: text(1, 20_000).optional().meta({ description: 'What was seen when the remedy was validated' }),
    approver: personRefSchema.optional().meta({ description: 'Who accepts the risk' }),
    accepted_until: dateSchema.optional().meta({ description: 'At most 24 months from today' }),
    validated_by: personRefSchema.optional().meta({
      description: 'Who validated the remedy; never the owner, and named by something that the owner is named by too',
    }),
    evidence_refs: z.array(evidenceRefSchema).max(50).default([]).meta({
      description:
        'To close a critical or high finding: of this remedy, here or in its log since it was last reopened or its validation failed',
    }),
  })
  .meta({ id: 'ChangeFindingStatus' })
export type ChangeFindingStatus = z.output<typeof changeFindingStatusBodySchema>

/** Something that a move of the status still needs. */
export const missingSchema = z
  .object({
    code: z.string(),
    detail: z.string(),
    pointer: z.string().optional().meta({ description: 'Member of the request that would give it' }),
  })
  .meta({ id: 'MissingForTransition' })

/** Where a status can go from here. */
export const transitionsSchema = z
  .object({
    status: z.string(),
    transitions: z.array(
      z.object({
        to: z.string(),
        requires: z.array(z.string()).meta({ description: 'Members of the request that this move needs' }),
        missing: z.array(missingSchema).meta({ description: 'What the record itself still lacks' }),
      }),
    ),
  })
  .meta({ id: 'Transitions' })
export type Transitions = z.infer<typeof transitionsSchema>

export const summaryGroups = ['severity', 'status', 'entity', 'owner', 'age_bucket'] as const
export type SummaryGroup = (typeof summaryGroups)[number]

/** How many findings there are of each kind; the key is null for those that have none. */
export const findingsSummarySchema = z
  .array(
    z.object({
      key: z.string().nullable().meta({ description: 'Severity, status, id of an entity, owner, or days of age' }),
      total: z.int().min(0),
      overdue: z.int().min(0),
      by_severity: z.object({
        critical: z.int().min(0),
        high: z.int().min(0),
        medium: z.int().min(0),
        low: z.int().min(0),
      }),
    }),
  )
  .meta({ id: 'FindingsSummary' })
export type FindingsSummary = z.infer<typeof findingsSummarySchema>
