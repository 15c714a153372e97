import { sqlConfigSchema as configSchema } from '@postern/contracts'
import type { z } from 'zod'
import { caSchema } from '../http/fields.ts'
import type { SourceLimits } from '../types.ts'

/** Statements for the source contain no other text from the configuration than its names. */
export const sqlConfigSchema = configSchema.safeExtend({ ca: caSchema.optional() })
type SqlConfig = z.output<typeof sqlConfigSchema>

export interface SqlRead {
  readonly config: SqlConfig
  readonly password: string
  readonly address: string
  readonly limits: SourceLimits
  readonly signal: AbortSignal
  /** Called before the first row. */
  readonly onColumns: (names: readonly string[]) => void
}
