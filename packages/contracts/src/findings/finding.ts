import { z } from 'zod'
import {
  createdBySchema,
  customSchema,
  dateSchema,
  externalIdSchema,
  line,
  personPatchSchema,
  personRefSchema,
  nonBlankText,
  optionalOrNull,
  text,
  timestampSchema,
  resourceAddressSchema,
  uuidSchema,
} from '../common.ts'
import { conditional, memberIs, requiredMembers } from '../conditional-schema.ts'

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
    message: 'is required with the agreement `disagree`: give the reasons',
  })
  .meta({
    id: 'ManagementResponse',
    ...conditional(memberIs('agreement', 'disagree'), {
      properties: { text: { pattern: String.raw`\S` } },
      required: ['text'],
    }),
  })

/** A merge patch (RFC 7396). The result must be complete. */
const managementResponsePatchSchema = z
  .strictObject({
    agreement: z.enum(agreements).optional(),
    text: text(0, 20_000).nullable().optional(),
    responded_at: dateSchema.nullable().optional(),
  })
  .meta({ id: 'ManagementResponsePatch' })

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
    accepted_until: dateSchema.nullable().meta({ description: 'The last day of the risk acceptance' }),
    accepted_by: personRefSchema.nullable().meta({ description: 'The person who accepted the risk' }),
    is_acceptance_expired: z.boolean().meta({ description: 'Whether the risk acceptance has ended' }),
    validated_by: personRefSchema
      .nullable()
      .meta({ description: 'The person who validated the remedy, while the finding is closed' }),
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'Finding' })
export type Finding = z.infer<typeof findingSchema>

export const possibleRepeatSchema = z
  .object({
    id: uuidSchema,
    reference: z.string(),
    title: z.string(),
    severity: z.enum(severities),
    closed_date: dateSchema,
    similarity: z
      .number()
      .min(0)
      .max(1)
      .meta({ description: 'The similarity of the criteria; 1 means the same words' }),
  })
  .meta({ id: 'PossibleRepeat' })
export type PossibleRepeat = z.infer<typeof possibleRepeatSchema>

export const documentedFindingSchema = findingSchema
  .extend({
    possible_repeats: z
      .array(possibleRepeatSchema)
      .meta({ description: 'If the finding repeats no other: findings that it may repeat, most similar first' }),
    suggested_severity: z
      .enum(severities)
      .nullable()
      .meta({ description: 'If the finding repeats another: the suggested severity, if it is higher' }),
  })
  .meta({ id: 'DocumentedFinding' })

export const findingStubSchema = z
  .object({ id: uuidSchema, reference: z.string(), version: z.int(), status: z.enum(findingStatuses) })
  .meta({ id: 'FindingStub' })
export type FindingStub = z.infer<typeof findingStubSchema>

const entityIdsSchema = z
  .array(resourceAddressSchema)
  .max(50)
  .refine((ids) => new Set(ids).size === ids.length, { message: 'must not repeat an entity' })
  .meta({ uniqueItems: true, description: 'Auditable entities of the universe: ids, `ref:` or `ext:` addresses' })

export const createFindingBodySchema = z
  .strictObject({
    external_id: optionalOrNull(externalIdSchema),
    title: line(1, 255),
    condition: nonBlankText(100_000),
    criteria: optionalOrNull(longText),
    cause: optionalOrNull(longText),
    consequence: optionalOrNull(longText),
    corrective_action: optionalOrNull(longText),
    cause_category: optionalOrNull(z.enum(causeCategories)),
    severity: z.enum(severities),
    type: z.enum(findingTypes).default('control_deficiency'),
    deficiency_class: optionalOrNull(z.enum(deficiencyClasses)),
    coso_component: optionalOrNull(z.enum(cosoComponents)),
    status: z.enum(['draft', 'open']).default('draft'),
    entity_ids: entityIdsSchema.default([]),
    owner: optionalOrNull(personRefSchema),
    identified_date: dateSchema
      .optional()
      .meta({ description: 'Default: today (UTC). At most tomorrow (UTC), because days start earlier in the east' }),
    target_date: optionalOrNull(dateSchema).meta({
      description: 'Default: 30, 90, 180 or 365 days after identification, by severity',
    }),
    repeat_of_id: optionalOrNull(resourceAddressSchema),
    source: optionalOrNull(z.enum(findingSources)),
    engagement_ref: optionalOrNull(line(1, 255)),
    test_procedure_id: optionalOrNull(resourceAddressSchema),
    management_response: optionalOrNull(managementResponseSchema),
    custom: customSchema.optional(),
  })
  .meta({ id: 'CreateFinding' })
export type CreateFinding = z.output<typeof createFindingBodySchema>

/** A recursive merge patch (RFC 7396). Only `POST /findings/{id}/status` changes the status. */
export const updateFindingBodySchema = z
  .strictObject({
    external_id: externalIdSchema.nullable().optional(),
    title: line(1, 255).optional(),
    condition: nonBlankText(100_000).optional(),
    criteria: longText.nullable().optional(),
    cause: longText.nullable().optional(),
    consequence: longText.nullable().optional(),
    corrective_action: longText.nullable().optional(),
    cause_category: z.enum(causeCategories).nullable().optional(),
    severity: z.enum(severities).optional().meta({
      description: 'A closed finding can become critical or high only if its log names evidence of the remedy',
    }),
    type: z.enum(findingTypes).optional(),
    deficiency_class: z.enum(deficiencyClasses).nullable().optional(),
    coso_component: z.enum(cosoComponents).nullable().optional(),
    entity_ids: entityIdsSchema.optional(),
    owner: personPatchSchema.nullable().optional(),
    identified_date: dateSchema.optional().meta({ description: 'Only in a draft' }),
    target_date: dateSchema.optional(),
    repeat_of_id: resourceAddressSchema
      .nullable()
      .optional()
      .meta({ description: 'An id, `ref:` or `ext:` address. Only in a draft' }),
    source: z.enum(findingSources).nullable().optional(),
    engagement_ref: line(1, 255).nullable().optional(),
    test_procedure_id: resourceAddressSchema.nullable().optional(),
    management_response: managementResponsePatchSchema.nullable().optional(),
    custom: customSchema.optional().meta({ description: 'Replaces single fields; null removes one' }),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({ id: 'UpdateFinding', minProperties: 1, examples: [{ title: 'Backups are not tested' }] })
export type UpdateFinding = z.output<typeof updateFindingBodySchema>

export const evidenceRefSchema = z
  .strictObject({
    evidence_id: uuidSchema,
    sha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits in lower case'),
    size: z.int().min(1),
  })
  .meta({
    id: 'EvidenceReference',
    description: 'Evidence with the values of its receipt. A quarantined, rejected or purged file is not evidence.',
  })
export type EvidenceRef = z.infer<typeof evidenceRefSchema>

const onlyOneSize = conditional(
  requiredMembers('size'),
  { not: requiredMembers('size_bytes') },
  requiredMembers('size_bytes'),
)

export const sentEvidenceRefSchema = z
  .strictObject({
    evidence_id: uuidSchema.optional(),
    id: uuidSchema.optional(),
    sha256: evidenceRefSchema.shape.sha256,
    size: evidenceRefSchema.shape.size.optional(),
    size_bytes: evidenceRefSchema.shape.size.optional(),
  })
  .transform(({ sha256, ...names }, { addIssue }): EvidenceRef => {
    const id = names.evidence_id ?? names.id
    const size = names.size ?? names.size_bytes
    if (id === undefined || (names.evidence_id !== undefined && names.id !== undefined)) {
      addIssue({ code: 'custom', path: ['evidence_id'], message: 'must be given once, as `evidence_id` or `id`' })
    }
    if (size === undefined || (names.size !== undefined && names.size_bytes !== undefined)) {
      addIssue({ code: 'custom', path: ['size'], message: 'must be given once, as `size` or `size_bytes`' })
    }
    return { evidence_id: id ?? '', sha256, size: size ?? 0 }
  })
  .meta({
    id: 'SentEvidenceReference',
    description:
      'Evidence with the values of its receipt: the id as `evidence_id` or `id`, the size as `size` or `size_bytes`.',
    examples: [{ id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', sha256: 'a'.repeat(64), size_bytes: 48_213 }],
    ...conditional(
      requiredMembers('evidence_id'),
      { not: requiredMembers('id'), ...onlyOneSize },
      { ...requiredMembers('id'), ...onlyOneSize },
    ),
  })

export const changeFindingStatusBodySchema = z
  .strictObject({
    to: z.enum(findingStatuses),
    reason: text(1, 20_000).optional(),
    note: text(1, 20_000).optional().meta({ description: 'The result of the validation' }),
    approver: personRefSchema.optional().meta({ description: 'The person who accepts the risk' }),
    accepted_until: dateSchema.optional().meta({ description: 'At most 24 months from today' }),
    validated_by: personRefSchema.optional().meta({
      description:
        'The person who validated the remedy, not the owner. Must have an identifier of the same kind as the owner',
    }),
    evidence_refs: z.array(sentEvidenceRefSchema).max(50).default([]).meta({
      description:
        'Required to close a critical or high finding: evidence of the remedy, here or in its log since it was last reopened or its validation failed',
    }),
  })
  .meta({ id: 'ChangeFindingStatus' })
export type ChangeFindingStatus = z.output<typeof changeFindingStatusBodySchema>

export const missingSchema = z
  .object({
    code: z.string(),
    detail: z.string(),
    pointer: z.string().optional().meta({ description: 'The member of the request that provides it' }),
  })
  .meta({ id: 'MissingForTransition' })

export const transitionsSchema = z
  .object({
    status: z.string(),
    transitions: z.array(
      z.object({
        to: z.string(),
        requires: z.array(z.string()).meta({ description: 'The members of the request that this transition requires' }),
        missing: z.array(missingSchema).meta({ description: 'The values that the finding still lacks' }),
      }),
    ),
  })
  .meta({ id: 'Transitions' })
export type Transitions = z.infer<typeof transitionsSchema>

export const summaryGroups = ['severity', 'status', 'entity', 'owner', 'age_bucket'] as const
export type SummaryGroup = (typeof summaryGroups)[number]

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
