import { z } from 'zod'
import { caSchema, line } from '../http/fields.ts'
import type { SourceLimits } from '../types.ts'

/** A plain name: what is sent to the database is made of such alone. */
const name = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_$]{0,62}$/, { message: 'must be the name of a table, a view or a column' })

/** How a database is reached, and what of it is read. */
export const sqlConfigSchema = z.strictObject({
  engine: z.enum(['postgres', 'mariadb']),
  host: line(255).regex(/^[A-Za-z0-9.:_-]+$/),
  port: z.int().min(1).max(65_535).optional(),
  /** `none` is for addresses that the platform has listed as its own. */
  encryption: z.enum(['tls', 'none']).default('tls'),
  ca: caSchema.optional(),
  database: line(63),
  username: line(63),
  /** Of PostgreSQL; `public` when it is not set. */
  schema: name.optional(),
  /** The one table or view that is read. */
  view: name,
  /** All, when it is not set. */
  columns: z.array(name).min(1).max(500).optional(),
})
type SqlConfig = z.output<typeof sqlConfigSchema>

/** What a reader of one kind of database is given. */
export interface SqlRead {
  readonly config: SqlConfig
  readonly password: string
  /** Where it is: checked, and to be connected to as it stands. */
  readonly address: string
  readonly limits: SourceLimits
  readonly signal: AbortSignal
  /** Is told the columns before any row is given. */
  readonly onColumns: (names: readonly string[]) => void
}
