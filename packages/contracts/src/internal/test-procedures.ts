import { z } from 'zod'
import { resourceAddressSchema, uuidSchema } from '../common.ts'
import { testProcedureStatuses } from '../universe/test-procedure.ts'

/** The maximum number of addresses in a request. */
export const maxTestProceduresAtOnce = 50

/** `POST /internal/v1/test-procedures/lookup` (evidence → universe): finds test procedures of the tenant. */
export const lookupTestProceduresBodySchema = z.strictObject({
  addresses: z.array(resourceAddressSchema).min(1).max(maxTestProceduresAtOnce),
})

/** One entry for each address, in order; null if the tenant has no such test procedure. */
export const lookupTestProceduresAnswerSchema = z.strictObject({
  test_procedures: z.array(z.strictObject({ id: uuidSchema, status: z.enum(testProcedureStatuses) }).nullable()),
})
export type LookupTestProceduresAnswer = z.infer<typeof lookupTestProceduresAnswerSchema>
