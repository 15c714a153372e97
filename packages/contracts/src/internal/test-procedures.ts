import { z } from 'zod'
import { resourceAddressSchema, uuidSchema } from '../common.ts'
import { testProcedureStatuses } from '../universe/test-procedure.ts'

export const maxTestProceduresAtOnce = 50

/** `POST /internal/v1/test-procedures/lookup` (evidence → universe). */
export const lookupTestProceduresBodySchema = z.strictObject({
  addresses: z.array(resourceAddressSchema).min(1).max(maxTestProceduresAtOnce),
})

/** One entry per address, in order; null if missing. */
export const lookupTestProceduresAnswerSchema = z.strictObject({
  test_procedures: z.array(z.strictObject({ id: uuidSchema, status: z.enum(testProcedureStatuses) }).nullable()),
})
export type LookupTestProceduresAnswer = z.infer<typeof lookupTestProceduresAnswerSchema>
