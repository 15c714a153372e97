// Re-exported, because only stores may import tenant-db.
export { statement, tenantOf } from '@postern/tenant-db'
