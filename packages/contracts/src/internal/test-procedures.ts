import { z } from 'zod'
import { resourceAddressSchema, uuidSchema } from '../common.ts'
import { testProcedureStatuses } from '../universe/test-procedure.ts'

/** So many are asked for at once. */
export const maxTestProceduresAtOnce = 50

/** `POST /internal/v1/test-procedures/lookup` (evidence → universe): which of the tenant's test procedures are meant. */
export const lookupTestProceduresBodySchema = z.strictObject({
  addresses: z.array(resourceAddressSchema).min(1).max(maxTestProceduresAtOnce),
})

/** One entry for each address, in their order; null where the tenant has no such test procedure. */
export const lookupTestProceduresAnswerSchema = z.strictObject({
  test_procedures: z.array(z.strictObject({ id: uuidSchema, status: z.enum(testProcedureStatuses) }).nullable()),
})
export type LookupTestProceduresAnswer = z.infer<typeof lookupTestProceduresAnswerSchema>
