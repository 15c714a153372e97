import { z } from 'zod'
import {
  createdBySchema,
  customSchema,
  dateSchema,
  externalIdSchema,
  line,
  personRefSchema,
  text,
  timestampSchema,
  uuidSchema,
} from '../common.ts'

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
  .meta({ id: 'ManagementResponse' })

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
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'Finding' })
export type Finding = z.infer<typeof findingSchema>

/** What the answer to a write holds for a caller that may not read findings. */
export const findingStubSchema = z
  .object({ id: uuidSchema, reference: z.string(), version: z.int(), status: z.enum(findingStatuses) })
  .meta({ id: 'FindingStub' })
export type FindingStub = z.infer<typeof findingStubSchema>

export const createFindingBodySchema = z
  .strictObject({
    external_id: externalIdSchema.optional(),
    title: line(1, 255),
    condition: text(1, 100_000),
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
    entity_ids: z
      .array(uuidSchema)
      .max(50)
      .refine((ids) => new Set(ids).size === ids.length, { message: 'must not repeat an entity' })
      .default([]),
    owner: personRefSchema.optional(),
    identified_date: dateSchema.optional().meta({ description: 'Default: today (UTC); never in the future' }),
    target_date: dateSchema
      .optional()
      .meta({ description: 'Default: 30, 90, 180 or 365 days after identification, by severity' }),
    repeat_of_id: uuidSchema.optional(),
    source: z.enum(findingSources).optional(),
    engagement_ref: line(1, 255).optional(),
    test_procedure_id: uuidSchema.optional(),
    management_response: managementResponseSchema.optional(),
    custom: customSchema.optional(),
  })
  .meta({ id: 'CreateFinding' })
export type CreateFinding = z.output<typeof createFindingBodySchema>
