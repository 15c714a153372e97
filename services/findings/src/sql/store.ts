// For files beside a store.ts that hold SQL: only stores import tenant-db.
export { statement, tenantOf } from '@postern/tenant-db'
