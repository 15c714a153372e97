import { z } from 'zod'
import { caSchema, line } from '../http/fields.ts'
import type { SourceLimits } from '../types.ts'

/** Statements for the source contain no other text from the configuration. */
const name = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_$]{0,62}$/, { message: 'must be the name of a table, a view or a column' })

export const sqlConfigSchema = z.strictObject({
  engine: z.enum(['postgres', 'mariadb']),
  host: line(255).regex(/^[A-Za-z0-9.:_-]+$/),
  port: z.int().min(1).max(65_535).optional(),
  /** `none` is allowed only for addresses that the platform lists. */
  encryption: z.enum(['tls', 'none']).default('tls'),
  ca: caSchema.optional(),
  database: line(63),
  username: line(63),
  schema: name.optional(),
  view: name,
  /** All columns if not set. */
  columns: z.array(name).min(1).max(500).optional(),
})
type SqlConfig = z.output<typeof sqlConfigSchema>

/** The input of a reader. */
export interface SqlRead {
  readonly config: SqlConfig
  readonly password: string
  readonly address: string
  readonly limits: SourceLimits
  readonly signal: AbortSignal
  /** Called before the first row. */
  readonly onColumns: (names: readonly string[]) => void
}
