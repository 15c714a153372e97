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
  uuidSchema,
} from '../common.ts'
import { sentEvidenceRefSchema } from './finding.ts'

export const actionPlanStatuses = [
  'proposed',
  'approved',
  'in_progress',
  'blocked',
  'implemented',
  'verified',
  'rejected',
  'cancelled',
] as const
export const actionPlanPriorities = ['high', 'medium', 'low'] as const

/** Decimal text, so that no digit is lost, and an ISO 4217 code. */
const money = {
  amount: z
    .string()
    .regex(/^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$/, 'must be a decimal number, such as 1250.00')
    .meta({ examples: ['12500.00'] }),
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, 'must be an ISO 4217 code')
    .meta({ examples: ['EUR'] }),
}
export const moneySchema = z.strictObject(money).meta({ id: 'Money' })
/** A merge patch (RFC 7396). The result must have both members. */
const moneyPatchSchema = z.strictObject(money).partial().meta({ id: 'MoneyPatch' })

/** Stored and shown, never fetched. */
export const httpsUrlSchema = z
  .string()
  .max(2000)
  .refine((value) => value.startsWith('https://') && URL.canParse(value) && /^[\x21-\x7e]+$/.test(value), {
    message: 'must be an https URL',
  })
  .meta({ pattern: '^https://[!-~]+$' })

export const maxExtensions = 100

export const extensionSchema = z
  .object({
    number: z.int().min(1),
    from: dateSchema,
    to: dateSchema,
    reason: z.string(),
    approved_by: personRefSchema,
    created_by: createdBySchema,
    at: timestampSchema,
  })
  .meta({ id: 'Extension' })
export type Extension = z.infer<typeof extensionSchema>

export const actionPlanSchema = z
  .object({
    id: uuidSchema,
    reference: z.string().meta({ examples: ['AP-2026-0042'] }),
    finding_id: uuidSchema,
    recommendation_ids: z.array(uuidSchema),
    external_id: z.string().nullable(),
    title: z.string(),
    description: z.string().nullable(),
    owner: personRefSchema,
    due_date: dateSchema,
    original_due_date: dateSchema.meta({ description: 'The date that was first agreed; never changes' }),
    extension_count: z.int().min(0),
    extensions: z.array(extensionSchema),
    percent_complete: z.int().min(0).max(100),
    status: z.enum(actionPlanStatuses),
    priority: z.enum(actionPlanPriorities).nullable(),
    estimated_cost: moneySchema.nullable(),
    external_url: z.string().nullable(),
    completed_date: dateSchema.nullable(),
    verified_date: dateSchema.nullable(),
    verified_by: personRefSchema.nullable(),
    is_overdue: z.boolean(),
    days_overdue: z.int().min(0),
    days_late_vs_original: z.int().min(0).meta({ description: 'Days past the date that was first agreed' }),
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'ActionPlan' })
export type ActionPlan = z.infer<typeof actionPlanSchema>

export const actionPlanStubSchema = z
  .object({ id: uuidSchema, reference: z.string(), version: z.int(), status: z.enum(actionPlanStatuses) })
  .meta({ id: 'ActionPlanStub' })
export type ActionPlanStub = z.infer<typeof actionPlanStubSchema>

const recommendationIdsSchema = z
  .array(uuidSchema)
  .max(50)
  .refine((ids) => new Set(ids).size === ids.length, { message: 'must not repeat a recommendation' })
  .meta({ uniqueItems: true })

export const createActionPlanBodySchema = z
  .strictObject({
    external_id: optionalOrNull(externalIdSchema),
    title: line(1, 255),
    description: optionalOrNull(text(0, 20_000)),
    owner: personRefSchema,
    due_date: dateSchema.meta({ description: 'Not before the finding was identified' }),
    recommendation_ids: recommendationIdsSchema.default([]),
    priority: optionalOrNull(z.enum(actionPlanPriorities)),
    estimated_cost: optionalOrNull(moneySchema),
    external_url: optionalOrNull(httpsUrlSchema),
    custom: customSchema.optional(),
  })
  .meta({ id: 'CreateActionPlan' })
export type CreateActionPlan = z.output<typeof createActionPlanBodySchema>

const evidenceRefs = z.array(sentEvidenceRefSchema).max(50)

/** A recursive merge patch (RFC 7396). `status` follows the rules of `POST /action-plans/{id}/status`. */
export const updateActionPlanBodySchema = z
  .strictObject({
    external_id: externalIdSchema.nullable().optional(),
    title: line(1, 255).optional(),
    description: text(0, 20_000).nullable().optional(),
    owner: personPatchSchema.optional(),
    due_date: dateSchema
      .optional()
      .meta({ description: 'A different day requires extension_reason and extension_approved_by' }),
    extension_reason: nonBlankText(20_000).optional(),
    extension_approved_by: personRefSchema.optional(),
    recommendation_ids: recommendationIdsSchema.optional(),
    percent_complete: z.int().min(0).max(100).optional(),
    priority: z.enum(actionPlanPriorities).nullable().optional(),
    estimated_cost: moneyPatchSchema.nullable().optional(),
    external_url: httpsUrlSchema.nullable().optional(),
    custom: customSchema.optional(),
    status: z.enum(actionPlanStatuses).optional(),
    reason: text(1, 20_000).optional().meta({ description: 'Only with a change of status; otherwise 422' }),
    note: text(1, 20_000).optional().meta({ description: 'Only with a change of status; otherwise 422' }),
    verified_by: personRefSchema.optional().meta({ description: 'For the status verified' }),
    evidence_refs: evidenceRefs.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({ id: 'UpdateActionPlan', minProperties: 1, examples: [{ percent_complete: 50 }] })
export type UpdateActionPlan = z.output<typeof updateActionPlanBodySchema>

export const changeActionPlanStatusBodySchema = z
  .strictObject({
    to: z.enum(actionPlanStatuses),
    reason: text(1, 20_000).optional(),
    note: text(1, 20_000).optional().meta({ description: 'What was done; required for implemented' }),
    percent_complete: z.int().min(0).max(100).optional().meta({ description: 'Must be 100 for implemented' }),
    verified_by: personRefSchema.optional().meta({
      description: 'The person who verified it, not the owner. Must have an identifier of the same kind as the owner',
    }),
    evidence_refs: evidenceRefs.default([]),
  })
  .meta({ id: 'ChangeActionPlanStatus' })
export type ChangeActionPlanStatus = z.output<typeof changeActionPlanStatusBodySchema>

export const extendActionPlanBodySchema = z
  .strictObject({
    to: dateSchema.meta({ description: 'Later than the due date' }),
    reason: nonBlankText(20_000),
    approved_by: personRefSchema,
  })
  .meta({ id: 'ExtendActionPlan' })
export type ExtendActionPlan = z.output<typeof extendActionPlanBodySchema>
