import { z } from 'zod'
import {
  createdBySchema,
  customSchema,
  externalIdSchema,
  nonBlankText,
  optionalOrNull,
  text,
  timestampSchema,
  uuidSchema,
} from '../common.ts'

export const recommendationPriorities = ['high', 'medium', 'low'] as const
export const recommendationResponses = ['pending', 'accepted', 'partially_accepted', 'rejected'] as const
export const recommendationStatuses = [
  'submitted',
  'accepted',
  'rejected',
  'implemented',
  'verified',
  'superseded',
] as const

export const recommendationSchema = z
  .object({
    id: uuidSchema,
    reference: z.string().meta({ examples: ['R-2026-0042.1'] }),
    finding_id: uuidSchema,
    external_id: z.string().nullable(),
    text: z.string(),
    priority: z.enum(recommendationPriorities),
    response: z.enum(recommendationResponses),
    response_rationale: z.string().nullable(),
    status: z.enum(recommendationStatuses),
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'Recommendation' })
export type Recommendation = z.infer<typeof recommendationSchema>

export const recommendationStubSchema = z
  .object({ id: uuidSchema, reference: z.string(), version: z.int(), status: z.enum(recommendationStatuses) })
  .meta({ id: 'RecommendationStub' })
export type RecommendationStub = z.infer<typeof recommendationStubSchema>

export const createRecommendationBodySchema = z
  .strictObject({
    external_id: optionalOrNull(externalIdSchema),
    text: nonBlankText(20_000),
    priority: z.enum(recommendationPriorities).optional().meta({ description: 'Default: derived from the severity' }),
    custom: customSchema.optional(),
  })
  .meta({ id: 'CreateRecommendation' })
export type CreateRecommendation = z.output<typeof createRecommendationBodySchema>

/** A merge patch (RFC 7396). A response moves a submitted recommendation to accepted or rejected. */
export const updateRecommendationBodySchema = z
  .strictObject({
    external_id: externalIdSchema.nullable().optional(),
    text: nonBlankText(20_000).optional(),
    priority: z.enum(recommendationPriorities).optional(),
    response: z.enum(['accepted', 'partially_accepted', 'rejected']).meta({ id: 'RecommendationDecision' }).optional(),
    response_rationale: text(0, 20_000).nullable().optional().meta({ description: 'Required to reject' }),
    status: z
      .enum(['implemented', 'verified', 'superseded'])
      .optional()
      .meta({ description: 'If there are action plans, implemented and verified follow from them' }),
    custom: customSchema.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({ id: 'UpdateRecommendation', minProperties: 1, examples: [{ text: 'Test the backups each quarter' }] })
export type UpdateRecommendation = z.output<typeof updateRecommendationBodySchema>
