export { arrayLiteral } from './array-literal.ts'
export type { MigrateOptions } from './migrate.ts'
export { MigrationRefused, migrate, tenancyMigrations } from './migrate.ts'
export type { AssertionSecret, LoginRole, RolePasswords } from './roles.ts'
export {
  ensureDatabase,
  ensureRoles,
  loginRoles,
  retireAssertionSecrets,
  secondLogins,
  setAssertionSecret,
} from './roles.ts'
export type { Login, LoginPassword } from './login-passwords.ts'
export { formatLoginPasswords, loginsOf, parseLoginPasswords } from './login-passwords.ts'
export type { RowBudget, Statement, Tx } from './session.ts'
export type { SqlError, SqlErrorKind } from './sql-error.ts'
export { DatabaseTimeout, DatabaseUnavailable, ResultTooLarge, sqlError } from './sql-error.ts'
export type { TenantAssertion, TenantDb, TenantDbOptions } from './tenant-transaction.ts'
export { doubtingAsAway, openTenantDb, refusingWhenAway } from './tenant-transaction.ts'
export type { CatalogAllowances, CatalogRule, Violation } from './catalog-check.ts'
export { checkCatalog } from './catalog-check.ts'
export type { RunAsOwner } from './as-owner.ts'
export { asOwner } from './as-owner.ts'
export { describeSchema } from './describe-schema.ts'
export type { AnswerMemory } from './idempotency.ts'
export { openAnswerMemory } from './idempotency.ts'
