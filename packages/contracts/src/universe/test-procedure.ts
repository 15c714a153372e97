import { z } from 'zod'
import {
  createdBySchema,
  customSchema,
  dateSchema,
  externalIdSchema,
  line,
  personRefSchema,
  sentPersonRefSchema,
  text,
  timestampSchema,
  uuidSchema,
  withNulls,
} from '../common.ts'

export const testMethods = ['examine', 'interview', 'test'] as const
export const testTypes = ['design', 'operating_effectiveness'] as const
export const testProcedureStatuses = ['not_started', 'in_progress', 'in_review', 'completed'] as const
export const testConclusions = ['effective', 'ineffective', 'no_population', 'not_concluded'] as const

export const testProcedureSchema = z
  .object({
    id: uuidSchema,
    reference: z.string().meta({ examples: ['TP-0001'] }),
    external_id: z.string(),
    title: z.string(),
    control_ref: z.string().nullable(),
    objective: z.string().nullable(),
    procedure_text: z.string().nullable(),
    method: z.enum(testMethods).nullable(),
    test_type: z.enum(testTypes).nullable(),
    entity_ids: z.array(uuidSchema),
    engagement_ref: z.string().nullable(),
    period_start: dateSchema.nullable(),
    period_end: dateSchema.nullable(),
    population_size: z.int().nullable(),
    sample_size: z.int().nullable(),
    tester: personRefSchema.nullable(),
    reviewer: personRefSchema.nullable(),
    due_date: dateSchema.nullable(),
    status: z.enum(testProcedureStatuses),
    conclusion: z.enum(testConclusions).nullable(),
    evidence_count: z.int().min(0).meta({ description: 'Files that are attached as evidence' }),
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'TestProcedure' })
export type TestProcedure = z.infer<typeof testProcedureSchema>

export const pushedTestProcedureSchema = z
  .strictObject({
    external_id: externalIdSchema,
    title: line(1, 255),
    control_ref: line(1, 255).optional(),
    objective: text(0, 20_000).optional(),
    procedure_text: text(0, 20_000).optional(),
    method: z.enum(testMethods).optional(),
    test_type: z.enum(testTypes).optional(),
    entities: z
      .array(externalIdSchema)
      .max(50)
      .refine((keys) => new Set(keys).size === keys.length, { message: 'must not repeat an entity' })
      .meta({ uniqueItems: true })
      .default([])
      .meta({ description: 'External ids of the auditable entities that are tested' }),
    engagement_ref: line(1, 255).optional(),
    period_start: dateSchema.optional(),
    period_end: dateSchema.optional(),
    population_size: z.int().min(0).max(2_147_483_647).optional(),
    sample_size: z.int().min(0).max(2_147_483_647).optional(),
    tester: personRefSchema.optional(),
    reviewer: personRefSchema.optional().meta({ description: 'A different person than the tester' }),
    due_date: dateSchema.optional(),
    status: z.enum(testProcedureStatuses).default('not_started'),
    conclusion: z.enum(testConclusions).optional(),
    custom: customSchema.optional(),
  })
  .meta({ id: 'PushedTestProcedure' })
export type PushedTestProcedure = z.infer<typeof pushedTestProcedureSchema>

export const sentTestProcedureSchema = z
  .strictObject(
    withNulls({
      ...pushedTestProcedureSchema.shape,
      tester: sentPersonRefSchema.optional(),
      reviewer: sentPersonRefSchema.optional().meta({ description: 'A different person than the tester' }),
    }),
  )
  .meta({ id: 'SentTestProcedure' })

export const pushTestProceduresBodySchema = z.array(sentTestProcedureSchema).min(1).max(5000)
